/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy_mode.h"

#include "comm.h"

#include <string.h>

/*
 * Weight of the old average when a new cost is higher; a lower one counts for half. Occasional slow copies have other
 * causes: a dozen copies in a row with cold caches, after another program ran, should not change the copy mode.
 */
#define KEPT 0.94F
/* A new cost is capped at this multiple of the average: one preempted copy would rule its copy mode out. */
#define MOST 2
/*
 * Factor on the cost of staging a block of several slices, which no copy's time contains: sender and receiver wait for
 * each other (but see plait_copied.others), and staging evicts other data from caches. RATIONALE has the measurement.
 */
#define WAITS 1.4F
/* A copy mode that costs more than this multiple of the best is dear, see copy_mode.h. */
#define DEAR 1.5F

/* The variant of this copy with streaming stores; the copy itself if there is none. */
static enum plait_copying out_of(enum plait_copying which)
{
    return which == PLAIT_TAKING_STAGED ? PLAIT_TAKING_STAGED_OUT
           : which == PLAIT_TAKING_PAST ? PLAIT_TAKING_PAST_OUT
                                        : which;
}

/* Cost with the better kind of stores; 0: not known. */
static float best_of(const struct plait_copy_costs *c, enum plait_copying which)
{
    const float x = atomic_load_explicit(&c->cost[which], memory_order_relaxed);
    const float y = atomic_load_explicit(&c->cost[out_of(which)], memory_order_relaxed);

    return y > 0 && (x == 0 || y < x) ? y : x;
}

/* Mean cost of both ranks, or the cost of the only rank that knows it. */
static float mean(const struct plait_copy_costs *a, const struct plait_copy_costs *b, enum plait_copying which)
{
    const float x = best_of(a, which), y = best_of(b, which);

    return x == 0 || y == 0 ? x + y : (x + y) / 2;
}

/* Seconds per byte of one copy mode, over both ranks; 0: not known. */
static float cost_of(const struct plait_copy_costs *own, const struct plait_copy_costs *other, enum plait_copy_mode way,
                     struct plait_copied m, bool combined)
{
    static const enum plait_copying first[] = { PLAIT_TAKING_LENT, PLAIT_STAGING, PLAIT_STAGING_PAST };
    static const enum plait_copying then[] = { PLAIT_COMBINING, PLAIT_TAKING_STAGED, PLAIT_TAKING_PAST };
    const bool two = way != PLAIT_COPY_SINGLE || combined;
    const float x = mean(own, other, first[way]), y = two ? mean(own, other, then[way]) : 0;

    if (x == 0 || (two && y == 0))
        return 0;
    return way == PLAIT_COPY_SINGLE ? x + y : (x / (float)(1 + m.others) + y) * (m.waits ? WAITS : 1);
}

/* The copy modes that a block may use, and their costs. */
struct choice {
    enum plait_copy_mode way[PLAIT_NCOPY_MODE];
    float cost[PLAIT_NCOPY_MODE]; /* 0: not known */
    uint32_t n, best;
    bool known; /* all costs are known */
};

static struct choice choice_of(const struct plait_comm *comm, uint32_t peer, struct plait_copied m, unsigned may,
                               bool combined)
{
    const struct plait_copy_costs *own = &comm->own->copies[m.row], *other = &comm->peers[peer].control->copies[m.row];
    struct choice c = { .known = true };

    for (unsigned w = 0; w < PLAIT_NCOPY_MODE; w++) {
        if ((may & 1U << w) == 0)
            continue;
        const float cost = cost_of(own, other, (enum plait_copy_mode)w, m, combined);
        c.way[c.n] = (enum plait_copy_mode)w;
        c.cost[c.n] = cost;
        c.known &= cost > 0;
        if (cost > 0 && (c.cost[c.best] == 0 || cost < c.cost[c.best]))
            c.best = c.n;
        c.n++;
    }
    return c;
}

static bool is_dear(const struct choice *c, uint32_t i)
{
    return c->cost[i] > DEAR * c->cost[c->best];
}

static bool is_first(const struct choice *c, uint32_t n)
{
    return !c->known || n < PLAIT_COPY_FIRST * PLAIT_COPY_ROUND * c->n;
}

/* End a first round whose copy mode has proved dear. */
static void skip_dear(const struct choice *c, uint16_t *n)
{
    const uint32_t place = *n % PLAIT_COPY_ROUND;

    if (is_first(c, *n) && place >= PLAIT_COPY_CHANCE && is_dear(c, *n / PLAIT_COPY_ROUND % c->n))
        *n = (uint16_t)(*n - place + PLAIT_COPY_ROUND);
}

/* The copy mode of the n-th block, after the first rounds. */
static uint32_t later_round(const struct choice *c, uint32_t n)
{
    uint32_t from = PLAIT_COPY_AT;

    for (uint32_t i = 0; i < c->n; i++) {
        if (i == c->best || (is_dear(c, i) && n / PLAIT_COPY_EVERY % PLAIT_COPY_DEAR != 0))
            continue;
        if (n % PLAIT_COPY_EVERY - from < PLAIT_COPY_ROUND)
            return i;
        from += PLAIT_COPY_ROUND;
    }
    return c->best;
}

enum plait_copy_mode plait_copy_mode_of(struct plait_comm *comm, uint32_t peer, struct plait_copied m, unsigned may,
                                        bool combined)
{
    uint16_t *n = &comm->peers[peer].lending.n[m.row];

    if (comm->config.cma != PLAIT_CMA_MEASURED && (may & 1U << PLAIT_COPY_SINGLE))
        return PLAIT_COPY_SINGLE;
    const struct choice c = choice_of(comm, peer, m, may, combined);
    skip_dear(&c, n);
    const uint32_t at = *n;
    const bool first = is_first(&c, at);
    *n = (uint16_t)(at + (first && m.whole >= PLAIT_COPY_WHOLE ? PLAIT_COPY_ROUND : 1));
    return c.way[first ? at / PLAIT_COPY_ROUND % c.n : later_round(&c, at)];
}

enum plait_copy_mode plait_copy_mode_of_slice(struct plait_comm *comm, uint32_t peer, struct plait_copied m,
                                              unsigned may, bool combined, uint64_t sequence)
{
    struct plait_copy_choice *l = &comm->peers[peer].lending;

    if (l->sequence != sequence || l->row != m.row || (may & 1U << l->way) == 0) {
        l->sequence = sequence;
        l->row = m.row;
        l->way = plait_copy_mode_of(comm, peer, m, may, combined);
    }
    return l->way;
}

double plait_copy_clock(struct plait_comm *comm, enum plait_copying which, struct plait_copied m)
{
    if (m.bytes < PLAIT_LEAST_ONCE)
        return 0;
    const uint32_t n = comm->ncopy[m.row][which]++, round = n / PLAIT_COPY_ROUND;
    const bool timed = (n < PLAIT_COPY_FIRST || n % PLAIT_COPY_TIMED == 0) &&
                       (round < PLAIT_COPY_SURE || round % PLAIT_COPY_SPARED == 0);
    return m.bytes >= PLAIT_COPY_LONG || timed ? plait_clock() : 0;
}

void plait_copy_timed(struct plait_comm *comm, enum plait_copying which, struct plait_copied m, double start)
{
    if (start == 0)
        return;
    _Atomic float *cost = &comm->own->copies[m.row].cost[which];
    atomic_thread_fence(memory_order_seq_cst); /* wait for the stores to drain: half of a small copy's time */
    const float now = (float)((plait_clock() - start) / (double)m.bytes);
    const float last = atomic_load_explicit(cost, memory_order_relaxed);
    const float most = MOST * last;
    const float risen = KEPT * last + (1 - KEPT) * (now < most ? now : most);
    atomic_store_explicit(cost, last == 0 ? now : now < last ? (last + now) / 2 : risen, memory_order_relaxed);
}

void *plait_copy_now(struct plait_comm *comm, enum plait_copying which, void *to, const void *from,
                     struct plait_copied m)
{
    const double start = plait_copy_clock(comm, which, m);

    if (which == PLAIT_STAGING_PAST || which == PLAIT_TAKING_STAGED_OUT || which == PLAIT_TAKING_PAST_OUT)
        comm->kernels->stream(to, from, m.bytes);
    else
        plait_copy(comm->kernels, to, from, m.bytes);
    plait_copy_timed(comm, which, m, start);
    return to;
}

void plait_copy_out(struct plait_comm *comm, bool past, void *to, const void *from, struct plait_copied m)
{
    const enum plait_copying through = past ? PLAIT_TAKING_PAST : PLAIT_TAKING_STAGED, out = out_of(through);
    const struct plait_copy_costs *own = &comm->own->copies[m.row];
    const uint32_t n = comm->ncopy[m.row][through] + comm->ncopy[m.row][out];
    const float x = atomic_load_explicit(&own->cost[through], memory_order_relaxed);
    const float y = atomic_load_explicit(&own->cost[out], memory_order_relaxed);
    const bool tried = x > 0 && y > 0, other = tried ? n % PLAIT_COPY_OUT == 0 : n % 2 == 1;

    plait_copy_now(comm, plait_copy_is_beyond_caches(m) && (tried && y < x) != other ? out : through, to, from, m);
}
