/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lend or stage: a message from memory that the receiver does not map is read by it through the kernel, once, or copied
 * by its sender into shared memory and by the receiver out of it.
 *
 * Which takes less time is a matter of the machine (how much a call costs, whether the two share a cache) and changes
 * while a virtual one runs. So both are measured as messages go: each rank says in its control block what its copies
 * cost, and now and then the way that is not in use is tried. The sender decides alone, for each message, and nothing is
 * agreed; but two that send to each other had better go the same way, so it is the mean of both ranks' costs that
 * counts, which both see alike. Costs are of messages of one size to within a factor of two.
 *
 * The first PLAIT_LEND_FIRST messages of a size are staged and lent in turn, PLAIT_LEND_ROUND of each; then the cheaper
 * way is taken, but for a round in the middle of every PLAIT_LEND_EVERY: at their beginning trial.h asks how to stage.
 */
#ifndef PLAIT_LIB_LEND_H
#define PLAIT_LIB_LEND_H

#include "clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_LEND_ROUND 8 /* messages in a row, as the first ones find staging memory in no cache */
#define PLAIT_LEND_FIRST 32
#define PLAIT_LEND_EVERY 128
#define PLAIT_LEND_TIMED 3  /* of the copies one of so many is timed, as the clock takes a tenth of the smallest */
#define PLAIT_LEND_SIZES 12 /* from PLAIT_LEAST_LENT, by powers of two; the last one has all above */

struct plait_comm;

enum plait_copying { PLAIT_STAGING, PLAIT_TAKING_STAGED, PLAIT_TAKING_LENT, PLAIT_NCOPYING };

struct plait_copies { /* of messages of one size, seconds per byte; 0: not known */
    _Atomic float cost[PLAIT_NCOPYING];
};

struct plait_lending {            /* to one rank */
    uint32_t n[PLAIT_LEND_SIZES]; /* messages that could be lent */
    uint32_t number;              /* of the last that plait_lend_number() was asked for, + 1; */
    bool lent;                    /* its answer */
};

/* Lend this message to rank `peer`, which could read it? Else stage it. Asked once for each. */
bool plait_lend(struct plait_comm *comm, uint32_t peer, size_t bytes);

/* The same of message `number`; asked again, as there was no room to stage it, the answer is the same. */
bool plait_lend_number(struct plait_comm *comm, uint32_t peer, size_t bytes, uint32_t number);

/* The clock before a copy that is to be timed, or 0. */
double plait_lend_clock(struct plait_comm *comm, enum plait_copying which, size_t bytes);

/* A copy was made. start: plait_lend_clock()'s; 0: nothing happens. */
void plait_lend_copied(struct plait_comm *comm, enum plait_copying which, size_t bytes, double start);

/* memcpy() and both. */
void *plait_lend_copy(struct plait_comm *comm, enum plait_copying which, void *to, const void *from, size_t bytes);

#endif
