/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speeds of this host, and copy modes: how data goes to a rank of another process that does not map it.
 *
 * Single copy: the receiver reads it by process_vm_readv. Staged: the sender copies it into shared memory, with cached
 * or with streaming stores, and the receiver copies it out. Which one is fastest depends on the size, on the cost of a
 * system call and on caches that the ranks share. On virtual machines the speeds differ up to sevenfold, so no constant
 * is right.
 *
 * So copies are timed once per process, when it creates its first communicator of several processes. The lowest rank
 * of each node does so together with a rank of another process of the node: both send each other blocks of some sizes
 * in every mode (plait_copies_calibrate()). The node's other ranks take over its result. After that the table is only
 * read. The sender alone decides about a block; the receiver takes what it finds. The rate of the fastest copy of small
 * blocks is kept, too, for plait-tune.
 */
#ifndef PLAIT_LIB_COMM_COPY_MODE_H
#define PLAIT_LIB_COMM_COPY_MODE_H

#include "plugin/tuning.h"

#include <stdatomic.h>

#define PLAIT_LEAST_ONCE ((size_t)8 << 10) /* least bytes of a single copy: its system call takes 1 to 2 us */

struct plait_copies {
    struct plait_copy_modes modes[PLAIT_COPY_CLASSES];
    uint64_t calibrated; /* 0: built in, and `copy` is 0. Of 64 bits, so the struct has no padding */
    double copy; /* bytes/s, of each of two ranks that copy from each other; of the smallest size that was timed */
};

/* One rank's side of a calibration, in its control block. */
struct plait_calibration {
    _Alignas(64) _Atomic uint32_t step; /* how often this rank has met the other; written last */
    _Atomic int32_t processor;          /* on which this rank met the other last */
    bool reads;                         /* this rank can use single copy */
    int64_t stage;                      /* offset of its shared memory from its control block */
    uint64_t source;                    /* address of its private memory */
};

struct plait_comm;

/* The class of a block or vector of `bytes`, which are not 0. */
static inline unsigned plait_copy_class(size_t bytes)
{
    const unsigned k = (63 - (unsigned)__builtin_clzll(bytes / PLAIT_LEAST_ONCE | 1)) / 2;
    return k < PLAIT_COPY_CLASSES ? k : PLAIT_COPY_CLASSES - 1;
}

/* The copy mode of a block of `bytes`. single: single copy is possible and permitted. */
static inline enum plait_copy_mode plait_copy_mode_of(const struct plait_copies *copies, size_t bytes, bool single)
{
    const struct plait_copy_modes *modes = &copies->modes[plait_copy_class(bytes)];

    return bytes < PLAIT_LEAST_ONCE ? PLAIT_COPY_STAGED : single ? modes->fastest : modes->other;
}

/* The modes of a size class whose exchange took t[mode] seconds; t[PLAIT_COPY_SINGLE] 0: it was not possible. */
struct plait_copy_modes plait_copies_fastest(const double t[]);

/* The table of this process, or the built-in one (calibrate false: that one in any case). */
struct plait_copies plait_copies_known(bool calibrate);

/* Keep a table that was timed for the process's next communicators. */
void plait_copies_keep(const struct plait_copies *copies);

/*
 * The calibration of this process's table, together with rank `other` of another process of the node, which makes the
 * same call. It begins no exchange after 18 ms, also if the other does not come. One of the two leads: it has the
 * result in comm->copies.
 *
 * Returns memory of the arena (or NULL) which the caller frees once the other rank has made its call, too: until then
 * it may read it.
 */
void *plait_copies_calibrate(struct plait_comm *comm, uint32_t other, bool leads);

#endif
