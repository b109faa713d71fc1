/* SPDX-License-Identifier: BSD-3-Clause */
#include "candidates.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_SIMULATED \
    (1u << 12)      /* messages of all candidates in a slice: some ms of each rank, which may share processors */
#define CLOSE     8 /* an eighth */
#define PS_PER_NS 1000
#define PS_PER_S  1e12

struct candidate {
    const struct plait_alg *alg;
    struct plait_claim claim;
    uint64_t least; /* ps: no plan with this claim is faster */
    uint64_t time;  /* ps; 0: not known yet */
    bool estimated; /* by the claim, not simulated */
};

static size_t block_bytes(const struct plait_shape *shape, const struct plait_claim *c, size_t bytes)
{
    const bool vector = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    return vector && c->nblk > 0 ? bytes / c->nblk : bytes;
}

/* Most blocks that a rank moves. Through memory, only receivers do. */
static uint64_t most_moved(const struct plait_machine *m, const struct plait_claim *c)
{
    return m->level[m->nlevel - 1].links > 0 && c->sent > c->received ? c->sent : c->received;
}

/*
 * Each message takes the least latency, and a rank's bytes the fastest link. A sum of n vectors reads n and writes one,
 * so through memory each takes at least a third of the time of a sum of two.
 */
static uint64_t least_time(const struct plait_machine *m, const struct plait_shape *shape, const struct plait_claim *c,
                           size_t bytes)
{
    uint64_t latency = UINT64_MAX, rate = 0;

    for (uint32_t k = 0; k < m->nlevel; k++) {
        latency = m->level[k].latency < latency ? m->level[k].latency : latency;
        rate = m->level[k].bandwidth > rate ? m->level[k].bandwidth : rate;
    }
    if (plait_geometry_of(shape->coll, 1, 0, 0, 1).combines && m->level[0].links == 0 && rate < 3 * m->reduce)
        rate = 3 * m->reduce;
    const double moved = (double)most_moved(m, c) * (double)block_bytes(shape, c, bytes) / (double)rate * PS_PER_S;
    const uint64_t waits = c->depth * latency * PS_PER_NS;
    return waits > (uint64_t)moved ? waits : (uint64_t)moved;
}

/* Without a simulation: messages and bytes take what they take in the largest unit, whose ranks share processors. */
static uint64_t estimated_time(const struct plait_machine *m, const struct plait_shape *shape,
                               const struct plait_claim *c, size_t bytes)
{
    const struct plait_level *top = &m->level[m->nlevel - 1], *host = &m->level[0];
    const double turns = host->processors > 0 ? (double)host->children / host->processors : 1,
                 moved = (double)most_moved(m, c) * (double)block_bytes(shape, c, bytes) / (double)top->bandwidth,
                 busy = 2 * (double)(c->rounds * top->overhead) * PS_PER_NS + moved * PS_PER_S;

    return c->depth * top->latency * PS_PER_NS + (uint64_t)(turns * busy);
}

static uint32_t find_candidates(const struct plait_machine *m, const struct plait_shape *shape, size_t bytes,
                                bool canonical, struct candidate *out)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    uint32_t n = 0;

    for (const struct plait_alg *const *a = plait_algs; *a != NULL && n < PLAIT_MOST_CANDIDATES; a++) {
        struct plait_shape s = *shape;
        const struct plait_alg *alg;
        if ((*a)->coll != shape->coll || (canonical && combines && !(*a)->canonical) ||
            plait_alg_find(plait_algs, (*a)->name, &s, &alg) != PLAIT_OK)
            continue;
        out[n] = (struct candidate){ .alg = alg, .claim = alg->claim(alg, &s) };
        out[n].least = least_time(m, shape, &out[n].claim, bytes);
        n++;
    }
    return n;
}

/* Sets the candidate's time. Errors: PLAIT_ERR_NOMEM. */
static enum plait_status time_candidate(const struct plait_machine *m, const uint32_t *place,
                                        const struct plait_shape *shape, size_t bytes, struct candidate *c,
                                        uint64_t *left)
{
    const uint64_t messages = c->claim.rounds * shape->nrank;
    const struct plait_sim_options options = { .place = place, .algorithms = plait_algs };
    struct plait_prediction p = { 0 };
    enum plait_status status = PLAIT_ERR_UNSUPPORTED;

    if (messages <= *left) {
        *left -= messages;
        status = plait_simulate(m, c->alg->name, shape, PLAIT_UINT8, bytes, &options, &p);
    }
    if (status == PLAIT_ERR_NOMEM)
        return status;
    c->estimated = status != PLAIT_OK;
    c->time = status == PLAIT_OK ? p.time : estimated_time(m, shape, &c->claim, bytes);
    c->time += c->time == 0;
    return PLAIT_OK;
}

/* The next candidate to time is the one that may be the fastest of those left; UINT32_MAX: none may be. */
static uint32_t next_candidate(const struct candidate *all, uint32_t n, uint64_t best)
{
    uint32_t next = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (all[i].time == 0 && all[i].least < best && (next == UINT32_MAX || all[i].least < all[next].least))
            next = i;
    return next;
}

/*
 * Is x to be preferred to y, which takes about as long? Times that differ by less than an eighth decide nothing, as the
 * model is not so exact. Then the canonical order is preferred, since results do not depend on the size then, after
 * that few steps in a row, and few messages.
 */
static bool is_preferred(const struct candidate *x, const struct candidate *y)
{
    if (x->alg->canonical != y->alg->canonical)
        return x->alg->canonical;
    if (x->claim.depth != y->claim.depth)
        return x->claim.depth < y->claim.depth;
    return x->claim.rounds != y->claim.rounds ? x->claim.rounds < y->claim.rounds : x->time < y->time;
}

/* Of those that take at most an eighth longer than the least time. */
static uint32_t find_best(const struct candidate *all, uint32_t n, uint64_t least)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (all[i].time > 0 && all[i].time - all[i].time / CLOSE <= least &&
            (best == UINT32_MAX || is_preferred(&all[i], &all[best])))
            best = i;
    return best;
}

/* The rest of the candidates by time. */
static void sort(struct candidate *all, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const struct candidate c = all[i];
        uint32_t at = i;
        for (; at > 0 && c.time < all[at - 1].time; at--)
            all[at] = all[at - 1];
        all[at] = c;
    }
}

/* Time the candidates of a class, those first that may be the fastest. */
static enum plait_status time_all(const struct plait_machine *m, const uint32_t *place, const struct plait_shape *shape,
                                  struct plait_pick *out, struct candidate *all, uint32_t n)
{
    uint64_t left = MOST_SIMULATED;
    uint64_t least = UINT64_MAX;
    uint32_t i;

    while ((i = next_candidate(all, n, least)) != UINT32_MAX) {
        const enum plait_status status = time_candidate(m, place, shape, out->bytes, &all[i], &left);
        if (status != PLAIT_OK)
            return status;
        least = all[i].time < least ? all[i].time : least;
    }
    const uint32_t best = find_best(all, n, least);
    const struct candidate first = all[best];
    all[best] = all[0];
    all[0] = first;
    for (i = 1; i < n; i++)
        all[i].time = all[i].time > 0 ? all[i].time : UINT64_MAX;
    sort(all + 1, n - 1);
    for (i = 0; i < n && all[i].time < UINT64_MAX; i++) {
        struct plait_candidate *c = &out->candidates[out->n++];
        snprintf(c->algorithm, sizeof c->algorithm, "%s", all[i].alg->name);
        c->predicted = (double)all[i].time / PS_PER_S;
        c->estimated = all[i].estimated;
    }
    return PLAIT_OK;
}

enum plait_status plait_candidates_time(const struct plait_machine *m, const uint32_t *place,
                                        const struct plait_shape *shape, bool canonical, struct plait_pick *out)
{
    struct candidate all[PLAIT_MOST_CANDIDATES];
    const uint32_t n = find_candidates(m, shape, out->bytes, canonical, all);

    if (n == 0)
        return plait_fail(PLAIT_ERR_CONFIG, "no algorithm for %s of %" PRIu32 " ranks%s", plait_coll_name(shape->coll),
                          shape->nrank, canonical ? " combines in the canonical order" : "");
    return time_all(m, place, shape, out, all, n);
}
