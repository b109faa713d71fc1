/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slice in flight: its place in the vector, its library memory, the state of its steps. A comm has PLAIT_NSLICE
 * and reuses them for every operation.
 */
#ifndef PLAIT_LIB_OPERATION_SLICES_H
#define PLAIT_LIB_OPERATION_SLICES_H

#include "operation.h"

struct plait_unread_range { /* messages whose staging buffers one peer may still read */
    uint32_t first, end;
};

struct plait_slice {
    /* Place in the vector. */
    uint64_t slice;
    size_t start;   /* first element, in the vector or in each block */
    size_t n;       /* elements per block if all blocks have the same size; else 0 */
    size_t q, r;    /* distance of slots of IN and OUT in elements: q + 1 for the first r slots, then q */
    char *in, *out; /* the first element */
    uint32_t done;  /* finished instructions; == prog->ninstr: idle */

    /*
     * Library memory, [bytes], and the part in use: TMP slots, fp32 slots of TMP and OUT, staging buffers. Small slices
     * rotate through the memory: a peer's cache still holds the cache lines that it has just read, and writing to
     * these would wait for the peer.
     */
    char *memory, *tmp, *wide_tmp, *wide_out, *stage;
    size_t bytes, used;
    size_t tmp_stride; /* of a slot of tmp */
    size_t stride;     /* of a slot of wide_tmp and of a staging buffer */

    /* [capacity] instructions each, in one allocation that begins with `message`. */
    uint32_t capacity, nstage;
    uint16_t *pending;    /* unfinished dependencies */
    const void **message; /* borrowed RECV: the bytes in the sender's memory */
    uint32_t *ready;      /* instructions to start, in the order in which they became ready */
    uint32_t first_ready, end_ready;
    uint32_t *receiving, nreceiving; /* RECVs started, in program order */
    uint32_t *sending, nsending;     /* SENDs offered and not yet released */
    uint32_t *blocked, nblocked;     /* SENDs that wait for room in the window */
    bool *staged;                    /* [nstage] per block: it is in its staging buffer */

    struct plait_unread_range *unread; /* [nrank] of the last use of this place */
};

enum plait_status plait_slices_create(uint32_t nrank, struct plait_slice **out);
void plait_slices_destroy(struct plait_slice *slices);

/* Bytes of library memory of all slices; and freeing this memory, when no peer reads it any more. */
size_t plait_slices_bytes(const struct plait_slice *slices);
void plait_slices_empty(struct plait_comm *comm);

#endif
