/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a block, or a message, passes from memory that the receiver does not map: lent, that is, read by it through the
 * kernel, once; or staged, that is, copied by its sender into shared memory, through the caches or past them, and by
 * the receiver out of it.
 *
 * Which takes less time is a matter of the machine (how much a call costs, whether the two share a cache: if not, a
 * line that the receiver has read last costs its writer as much as ten that go past the caches) and changes while a
 * virtual one runs. So all are measured as messages go: each rank says in its control block what its copies cost, and
 * now and then a way that is not in use is tried. The sender decides alone, for each block, whose slices all go one
 * way, and nothing is agreed; but two that send to each other had better go the same way, so it is the mean of both
 * ranks' costs that counts, which both see alike. A cost is of one collective, or of messages alone, and of blocks of
 * one size, to within a factor of two: where both ranks copy at the same time a line costs more than where one does,
 * and a slice of what fits a cache half of one of what does not.
 *
 * Vectors that go without the engine (eager.c) are staged one way or the other by the same costs, those of the first
 * who takes them.
 *
 * The first blocks of a collective and a size go all ways in turn, PLAIT_LEND_ROUND of them by each, or one of
 * PLAIT_LEND_WHOLE bytes, until all costs are known and each was tried PLAIT_LEND_FIRST times: the kernel's first copy
 * of a block finds its own books of the pages in no cache, and what was staged before drove the block out of them. So
 * lent comes first, and a round of a way that is dear, costs more than one and a half times the best, ends after
 * PLAIT_LEND_CHANCE blocks. Then the cheapest is taken, but for a round of each other in every PLAIT_LEND_EVERY, of
 * what is dear every fourth time.
 */
#ifndef PLAIT_LIB_COMM_LEND_H
#define PLAIT_LIB_COMM_LEND_H

#include "base/clock.h"

#include <plait/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_LEAST_ONCE  ((size_t)8 << 10) /* bytes of a message below which a copy by the kernel costs more: 2 us */
#define PLAIT_LEND_ROUND  8                 /* blocks in a row, as the first ones find their memory in no cache */
#define PLAIT_LEND_CHANCE 1                 /* of them, in a first round of what is dear */
#define PLAIT_LEND_FIRST  2                 /* rounds of each */
#define PLAIT_LEND_WHOLE  ((size_t)2 << 20) /* bytes of a block that is a first round by itself */
#define PLAIT_LEND_EVERY  1024
#define PLAIT_LEND_AT     192 /* where in them: trial.h asks how to write at multiples of 128 */
#define PLAIT_LEND_DEAR   4   /* times PLAIT_LEND_EVERY, for what is dear */
#define PLAIT_LEND_SIZES  14  /* of blocks, from PLAIT_LEAST_ONCE, by powers of two; the last one has all above */
#define PLAIT_LEND_ROWS   ((PLAIT_NCOLL + 1) * PLAIT_LEND_SIZES) /* of costs */

/*
 * Of shorter copies the first FIRST and one of TIMED are timed; after so many rounds only in one round of SPARED: the
 * clock, and the wait for what was stored to leave, take as long as the smallest copy.
 */
#define PLAIT_LEND_LONG   ((size_t)128 << 10)
#define PLAIT_LEND_TIMED  3
#define PLAIT_LEND_SURE   16
#define PLAIT_LEND_SPARED 4

/*
 * What was staged of blocks of this size, or above, may be written past the caches; one of so many copies tries what is
 * not in use.
 */
#define PLAIT_LEND_BEYOND 7 /* of the rows of a collective: 1 MiB, about a core's cache */
#define PLAIT_LEND_OUT    32

struct plait_comm;

/* In the order in which they are tried. */
enum plait_passing { PLAIT_PASS_LENT, PLAIT_PASS_STAGED, PLAIT_PASS_PAST, PLAIT_NPASSING };

/*
 * PAST: staged past the caches; OUT: to where it belongs past them, of what is longer than they are. What a receiver
 * reduces it takes from the stage by that, or copies by TAKING_LENT and then reduces by COMBINING.
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

struct plait_passed { /* a slice */
    size_t bytes;
    uint32_t row;    /* of its block's costs */
    size_t whole;    /* bytes of that block */
    uint32_t others; /* at most so many more take the same staged copy, while a root stages the next slice; else 0 */
    bool waits;      /* cut into slices at which, if it is staged, its sender and its receiver wait for each other */
};

struct plait_copies { /* a row: seconds per byte; 0: not known */
    _Atomic float cost[PLAIT_NCOPYING];
};

struct plait_lending { /* to one rank */
    /* Blocks that were asked for, long first ones as a round; when it wraps, all ways are tried again. */
    uint16_t n[PLAIT_LEND_ROWS];
    uint64_t sequence;      /* the latest operation, */
    uint32_t row;           /* the row of its block, */
    enum plait_passing way; /* and how that goes */
};

/* Of a collective, or of messages alone (PLAIT_NCOLL). whole: bytes of all slices of the block. */
static inline uint32_t plait_lend_row(uint32_t coll, size_t whole)
{
    const uint32_t k = 63 - (uint32_t)__builtin_clzll(whole / PLAIT_LEAST_ONCE | 1);
    return coll * PLAIT_LEND_SIZES + (k < PLAIT_LEND_SIZES ? k : PLAIT_LEND_SIZES - 1);
}

/*
 * How this block goes to rank `peer`. may: the ways that it could go, one at least (1 << way); combined: its receiver
 * reduces it. Asked once for each.
 */
enum plait_passing plait_lend(struct plait_comm *comm, uint32_t peer, struct plait_passed m, unsigned may,
                              bool combined);

/* The same of a block of operation `sequence`, asked for each of its slices, which all go one way if they may. */
enum plait_passing plait_lend_slice(struct plait_comm *comm, uint32_t peer, struct plait_passed m, unsigned may,
                                    bool combined, uint64_t sequence);

/* The clock before a copy that is to be timed, or 0. Of less than PLAIT_LEAST_ONCE bytes none is. */
double plait_lend_clock(struct plait_comm *comm, enum plait_copying which, struct plait_passed m);

/* A copy was made. start: plait_lend_clock()'s; 0: nothing happens. */
void plait_lend_copied(struct plait_comm *comm, enum plait_copying which, struct plait_passed m, double start);

/* memcpy(), or past the caches, and both. */
void *plait_lend_copy(struct plait_comm *comm, enum plait_copying which, void *to, const void *from,
                      struct plait_passed m);

/*
 * What was staged, to where it belongs and is not read again meanwhile. The sender sees what the better way to write
 * costs. Of blocks that are not beyond caches trial.h decides that, by whole operations; of messages alone nothing.
 */
void plait_lend_take(struct plait_comm *comm, bool past, void *to, const void *from, struct plait_passed m);

static inline bool plait_lend_is_beyond(struct plait_passed m)
{
    return m.row % PLAIT_LEND_SIZES >= PLAIT_LEND_BEYOND;
}

#endif
