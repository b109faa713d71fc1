/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slice in flight: its place in the vector, its library memory, the state of its steps. A comm has PLAIT_NFLIGHT of
 * them, which are used again from operation to operation.
 */
#ifndef PLAIT_LIB_OPERATION_SLICES_H
#define PLAIT_LIB_OPERATION_SLICES_H

#include "run.h"

enum { PLAIT_STAGED_THROUGH = 1, PLAIT_STAGED_PAST }; /* the caches */

struct plait_late { /* messages to one peer whose staged data it may still read */
    uint32_t first, end;
};

struct plait_flight {
    /* Where in the vector. */
    uint64_t slice;
    size_t start;   /* element of the vector, or of each block, with which it begins */
    size_t n;       /* elements of a block, where all are equally big; else 0 */
    size_t q, r;    /* slots of IN and OUT are q elements apart, the first r one more */
    char *in, *out; /* of its first element */
    uint32_t done;  /* instructions; == prog->ninstr: idle */

    /*
     * Library memory, [bytes], and the part of it that this slice uses: TMP slots, those of TMP and of OUT in fp32,
     * then staging. Small slices take one part after the other: lines that a peer read a moment ago are still in its
     * own cache, and writing them again would wait for it. What is staged past the caches has a part of its own where
     * two fit, the first: it drives lines out of them, and what they cost is known only if they keep the others
     * meanwhile (lend.h).
     */
    char *memory, *tmp, *wide_tmp, *wide_out, *stage, *past;
    size_t bytes, used;
    size_t tmp_stride; /* of a slot of tmp */
    size_t stride;     /* of a slot of wide_tmp, of a staged block and of a landed one */

    /* [land_bytes] Where messages land that REDUCEs read; this rank's own, and always the same, so in its cache. */
    char *land;
    size_t land_bytes;

    /* [capacity] instructions each. */
    uint32_t capacity, nstage;
    uint16_t *pending;    /* dependencies not yet done */
    const void **message; /* borrowed RECV: the bytes in the sender's memory */
    uint32_t *ready;      /* instructions to start, in the order in which they became ready */
    uint32_t first_ready, end_ready;
    uint32_t *receiving, nreceiving; /* RECVs started, in program order */
    uint32_t *sending, nsending;     /* SENDs offered and not yet released */
    uint32_t *blocked, nblocked;     /* SENDs that found the window full */
    unsigned char *staged;           /* [nstage] of a block: 0, or how its copy was made */

    struct plait_late *late; /* [nrank] of its last use */
};

enum plait_status plait_flights_create(uint32_t nrank, struct plait_flight **out);
void plait_flights_destroy(struct plait_flight *flights);

/* Their library memory: how much; given back, when nobody reads it. */
size_t plait_flights_bytes(const struct plait_flight *flights);
void plait_flights_empty(struct plait_comm *comm);

#endif
