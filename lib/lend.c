/* SPDX-License-Identifier: BSD-3-Clause */
#include "lend.h"

#include "comm.h"
#include "select.h"

#include <string.h>

/*
 * Of a cost that was less than the last one. What is slow now and then is mostly something else: a dozen copies in a row
 * that find nothing in their caches, after another program's turn, are not to change the way.
 */
#define KEPT 0.94F

static uint32_t size_of(size_t bytes)
{
    const uint32_t k = 63 - (uint32_t)__builtin_clzll(bytes / PLAIT_LEAST_LENT | 1);
    return k < PLAIT_LEND_SIZES ? k : PLAIT_LEND_SIZES - 1;
}

/* Of both ranks, or of the one that knows it. */
static float mean(const struct plait_copies *a, const struct plait_copies *b, enum plait_copying which)
{
    const float x = atomic_load_explicit(&a->cost[which], memory_order_relaxed);
    const float y = atomic_load_explicit(&b->cost[which], memory_order_relaxed);

    return x == 0 || y == 0 ? x + y : (x + y) / 2;
}

bool plait_lend(struct plait_comm *comm, uint32_t peer, size_t bytes)
{
    const uint32_t k = size_of(bytes), n = comm->peers[peer].lending.n[k]++, within = n % PLAIT_LEND_EVERY;
    const struct plait_copies *own = &comm->own->copies[k], *other = &comm->peers[peer].control->copies[k];

    if (comm->config.cma != PLAIT_CMA_MEASURED)
        return true;
    const float staging = mean(own, other, PLAIT_STAGING), staged = mean(own, other, PLAIT_TAKING_STAGED);
    const float lent = mean(own, other, PLAIT_TAKING_LENT);
    if (n < PLAIT_LEND_FIRST || staging == 0 || staged == 0 || lent == 0)
        return n / PLAIT_LEND_ROUND % 2 == 1;
    return (lent <= staging + staged) !=
           (within >= PLAIT_LEND_EVERY / 2 && within < PLAIT_LEND_EVERY / 2 + PLAIT_LEND_ROUND);
}

bool plait_lend_number(struct plait_comm *comm, uint32_t peer, size_t bytes, uint32_t number)
{
    struct plait_lending *l = &comm->peers[peer].lending;

    if (l->number != number + 1) {
        l->number = number + 1;
        l->lent = plait_lend(comm, peer, bytes);
    }
    return l->lent;
}

double plait_lend_clock(struct plait_comm *comm, enum plait_copying which, size_t bytes)
{
    if (bytes < PLAIT_LEAST_LENT || comm->config.cma != PLAIT_CMA_MEASURED)
        return 0;
    return comm->ncopy[size_of(bytes)][which]++ % PLAIT_LEND_TIMED == 0 ? plait_clock() : 0;
}

void plait_lend_copied(struct plait_comm *comm, enum plait_copying which, size_t bytes, double start)
{
    if (start == 0)
        return;
    _Atomic float *cost = &comm->own->copies[size_of(bytes)].cost[which];
    const float now = (float)((plait_clock() - start) / (double)bytes);
    const float last = atomic_load_explicit(cost, memory_order_relaxed);
    atomic_store_explicit(cost, last == 0 || now < last ? now : KEPT * last + (1 - KEPT) * now, memory_order_relaxed);
}

void *plait_lend_copy(struct plait_comm *comm, enum plait_copying which, void *to, const void *from, size_t bytes)
{
    const double start = plait_lend_clock(comm, which, bytes);

    memcpy(to, from, bytes);
    plait_lend_copied(comm, which, bytes, start);
    return to;
}
