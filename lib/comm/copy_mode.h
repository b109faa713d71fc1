/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing the copy mode of a block or message whose memory the receiver does not map. Single copy (LENT): the
 * receiver reads it by process_vm_readv. Staged: the sender copies it into shared memory, with cached or streaming
 * stores, and the receiver copies it out.
 *
 * The fastest mode depends on the machine, and changes while a virtual one runs: on the cost of a system call, and on
 * shared caches. Without a shared cache, writing a line that the receiver read last costs as much as ten streaming
 * stores. So copies are timed online: each rank publishes its costs in its control block, and unused modes are tried
 * now and then. The sender decides alone, once per block. It uses the mean of both ranks' costs, so that two ranks that
 * send to each other choose the same mode. Costs are kept per collective (or messages alone) and block size, to within
 * a factor of two: a cache line costs more where both ranks copy at the same time, and a slice of a block that fits a
 * cache costs half of one of a block that does not.
 *
 * The eager path (eager.c) chooses its stores by the same costs, those of the first reader.
 *
 * The first blocks of a collective and size use all modes in turn, in rounds of PLAIT_COPY_ROUND blocks (or one of
 * PLAIT_COPY_WHOLE bytes), until all costs are known and each mode had PLAIT_COPY_FIRST rounds. The kernel's first copy
 * finds its page structures in no cache, and staging evicts the block; so LENT comes first. A round of a dear mode
 * (above 1.5 times the best) ends after PLAIT_COPY_CHANCE blocks. Then the cheapest mode is used, except for one round
 * of each other mode per PLAIT_COPY_EVERY blocks (of a dear one every fourth time).
 */
#ifndef PLAIT_LIB_COMM_COPY_MODE_H
#define PLAIT_LIB_COMM_COPY_MODE_H

#include "base/clock.h"

#include <plait/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_LEAST_ONCE  ((size_t)8 << 10) /* least bytes of a single copy: its call costs 2 us */
#define PLAIT_COPY_ROUND  8                 /* blocks in a round: the first ones meet cold caches */
#define PLAIT_COPY_CHANCE 1                 /* blocks in the first round of a dear mode */
#define PLAIT_COPY_FIRST  2                 /* first rounds of each mode */
#define PLAIT_COPY_WHOLE  ((size_t)2 << 20) /* bytes of a block that counts as a first round */
#define PLAIT_COPY_EVERY  1024              /* blocks between later rounds of a mode that is not in use */
#define PLAIT_COPY_AT     192               /* offset of those rounds: autotune.h begins its own at multiples of 128 */
#define PLAIT_COPY_DEAR   4                 /* times PLAIT_COPY_EVERY, for dear modes */
#define PLAIT_COPY_SIZES  14 /* block sizes, by powers of two from PLAIT_LEAST_ONCE; the last has all above */
#define PLAIT_COPY_ROWS   ((PLAIT_NCOLL + 1) * PLAIT_COPY_SIZES) /* of the cost table */

/*
 * Of copies below LONG bytes the first FIRST and one of TIMED are timed; after SURE rounds, only in one round of
 * SPARED. Reading the clock and draining the stores take as long as the smallest copy.
 */
#define PLAIT_COPY_LONG   ((size_t)128 << 10)
#define PLAIT_COPY_TIMED  3
#define PLAIT_COPY_SURE   16
#define PLAIT_COPY_SPARED 4

/*
 * From this block size on, the copy-out may use streaming stores; one of OUT copies tries the kind of store that is not
 * in use.
 */
#define PLAIT_COPY_BEYOND 7 /* row within a collective: 1 MiB, about a core's cache */
#define PLAIT_COPY_OUT    32

struct plait_comm;

/* Copy modes, in the order in which they are tried. PAST: staged with streaming stores. */
enum plait_copy_mode { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED, PLAIT_COPY_STREAMED, PLAIT_NCOPY_MODE };

/*
 * Kinds of copies. STAGING: copy-in; TAKING: copy-out or single copy. PAST: staged with streaming stores. OUT: copied
 * out with streaming stores, of blocks larger than the caches. A receiver that reduces
 * does so by TAKING of a staged block, or copies by TAKING_LENT and then reduces by COMBINING.
 */
enum plait_copying {
    PLAIT_STAGING,
    PLAIT_STAGING_PAST,
    PLAIT_TAKING_STAGED,
    PLAIT_TAKING_PAST,
    PLAIT_TAKING_LENT,
    PLAIT_COMBINING,
    PLAIT_TAKING_STAGED_OUT,
    PLAIT_TAKING_PAST_OUT,
    PLAIT_NCOPYING
};

struct plait_copied { /* a slice */
    size_t bytes;
    uint32_t row;    /* of the cost table, for its block */
    size_t whole;    /* bytes of its block */
    uint32_t others; /* further readers of the same staged copy, at most, while a root stages the next slice; else 0 */
    bool waits;      /* if it is staged, sender and receiver wait for each other at every slice */
};

struct plait_copy_costs { /* a row of the cost table: seconds per byte; 0: not known */
    _Atomic float cost[PLAIT_NCOPYING];
};

struct plait_copy_choice { /* to one rank */
    /* Blocks decided so far; long first ones count as a round. When it wraps, all modes are tried again. */
    uint16_t n[PLAIT_COPY_ROWS];
    uint64_t sequence;        /* of the last operation */
    uint32_t row;             /* of its block */
    enum plait_copy_mode way; /* copy mode of that block */
};

/* The row of the cost table. coll: PLAIT_NCOLL for messages. whole: bytes of all slices of the block. */
static inline uint32_t plait_copy_row(uint32_t coll, size_t whole)
{
    const uint32_t k = 63 - (uint32_t)__builtin_clzll(whole / PLAIT_LEAST_ONCE | 1);
    return coll * PLAIT_COPY_SIZES + (k < PLAIT_COPY_SIZES ? k : PLAIT_COPY_SIZES - 1);
}

/*
 * The copy mode of a block to rank `peer`. may: the modes allowed, at least one (1 << mode); combined: the receiver
 * reduces the block. Called once per block.
 */
enum plait_copy_mode plait_copy_mode_of(struct plait_comm *comm, uint32_t peer, struct plait_copied m, unsigned may,
                                        bool combined);

/* The same, called for each slice of a block of operation `sequence`; all slices get one mode if it is allowed. */
enum plait_copy_mode plait_copy_mode_of_slice(struct plait_comm *comm, uint32_t peer, struct plait_copied m,
                                              unsigned may, bool combined, uint64_t sequence);

/* The clock before a copy that is to be timed, or 0. Copies below PLAIT_LEAST_ONCE bytes are not timed. */
double plait_copy_clock(struct plait_comm *comm, enum plait_copying which, struct plait_copied m);

/* Record the cost of a copy. start: from plait_copy_clock(); 0: not timed, nothing is recorded. */
void plait_copy_timed(struct plait_comm *comm, enum plait_copying which, struct plait_copied m, double start);

/* Copy with cached or streaming stores, as `which` says, and record the cost. */
void *plait_copy_now(struct plait_comm *comm, enum plait_copying which, void *to, const void *from,
                     struct plait_copied m);

/*
 * Copy a staged block out, to memory that is not read again soon. Blocks beyond the caches use the cheaper stores; the
 * sender sees their cost. For smaller blocks autotune.h chooses the stores, by whole operations; for messages nothing.
 */
void plait_copy_out(struct plait_comm *comm, bool past, void *to, const void *from, struct plait_copied m);

static inline bool plait_copy_is_beyond_caches(struct plait_copied m)
{
    return m.row % PLAIT_COPY_SIZES >= PLAIT_COPY_BEYOND;
}

#endif
