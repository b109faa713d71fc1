/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree     a binomial tree
 * jia      ring reduce-scatter and gather to the master, then scatter and ring all-gather back; the master has
 *          everything, so it only sends in the last ring
 * direct   the master receives every vector and reduces them in one step
 */
#include "inside.h"

/* A member has a child for each bit below its lowest one, if there is such a member. */
static struct inside_cost tree_cost(uint32_t k, uint32_t nblk, uint32_t me)
{
    uint64_t children = 0;

    for (uint32_t bit = 1; bit < k && (me & bit) == 0; bit *= 2)
        children += me + bit < k;
    const uint64_t moved = (children + (me > 0)) * nblk;
    return (struct inside_cost){ log2_ceil(k), moved, moved };
}

static uint64_t tree_hops(uint32_t me)
{
    return (uint64_t)__builtin_popcount(me);
}

/* ---- Jia et al. -------------------------------------------------------------------------------- */

static void jia_reduce(struct plait_builder *b, const struct job *j)
{
    const struct group *g = &j->group;

    ring_reduce_scatter(b, j);
    for (uint32_t i = 1; i < g->n; i++) {
        const struct range r = part(j->range, g->n, i);
        if (j->me == i)
            plait_emit_send(b, member(g, 0), plait_out(r.blk), r.blk, r.nblk);
        else if (j->me == 0)
            plait_emit_recv(b, member(g, i), plait_out(r.blk), r.blk, r.nblk);
    }
}

static void jia_broadcast(struct plait_builder *b, const struct job *j)
{
    const struct group *g = &j->group;
    const uint32_t n = g->n, me = j->me;

    for (uint32_t i = 1; i < n; i++) {
        const struct range r = part(j->range, n, i);
        if (me == 0)
            plait_emit_send(b, member(g, i), plait_out(r.blk), r.blk, r.nblk);
        else if (me == i)
            plait_emit_recv(b, member(g, 0), plait_out(r.blk), r.blk, r.nblk);
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (me + n - k) % n), take = part(j->range, n, (me + n - 1 - k) % n);
        if (me != n - 1)
            plait_emit_send(b, member(g, me + 1), plait_out(give.blk), give.blk, give.nblk);
        if (me != 0)
            plait_emit_recv(b, member(g, me - 1), plait_out(take.blk), take.blk, take.nblk);
    }
}

/*
 * The master sends, in ring, gather and scatter, all parts but part 0; in the ring back all but the next member's. It
 * receives, in ring and gather, all but its own and the last member's. Another member moves all parts each way, but for
 * the one that it gives first in the ring, and the one that the next member has from the master.
 */
static struct inside_cost jia_cost(uint32_t k, uint32_t nblk, uint32_t me)
{
    const struct range all = { 0, nblk };
    struct inside_cost c = { .rounds = 2 * ((uint64_t)k - 1) };

    if (k > 1 && me == 0) {
        c.sent = 3 * (uint64_t)nblk - 2 * part(all, k, 0).nblk - part(all, k, 1).nblk;
        c.received = 2 * (uint64_t)nblk - part(all, k, 0).nblk - part(all, k, k - 1).nblk;
    } else if (k > 1) {
        c.sent = nblk + (me < k - 1 ? nblk - part(all, k, me + 1).nblk : 0);
        c.received = 2 * (uint64_t)nblk - part(all, k, me - 1).nblk;
    }
    return c;
}

/* The part, of k, that holds a block. */
static uint32_t part_of(uint32_t k, uint32_t nblk, uint32_t blk)
{
    return (uint32_t)((((uint64_t)blk + 1) * k - 1) / nblk);
}

/* Part 0 is reduced at the master; the other parts need one message more. */
static uint64_t jia_up(uint32_t k, uint32_t nblk, struct range r)
{
    return k == 1 ? 0 : k - (part_of(k, nblk, r.blk + r.nblk - 1) == 0);
}

/* Part i goes from member i on to the last member, and from the master on to member i-1. */
static uint64_t jia_down(uint32_t k, uint32_t nblk, struct range r)
{
    const uint64_t first = part_of(k, nblk, r.blk), last = part_of(k, nblk, r.blk + r.nblk - 1);
    return k == 1 ? 0 : first == 0 ? k - 1 : most(k - first, last - 1);
}

/* ---- Direct ------------------------------------------------------------------------------------ */

static void reduce_to_master(struct plait_builder *b, const struct job *j)
{
    direct_reduce(b, j, 0);
}

static void broadcast_from_master(struct plait_builder *b, const struct job *j)
{
    struct job back = *j;

    back.src = PLAIT_OUT;
    direct_broadcast(b, &back, 0);
}

static struct inside_cost direct_cost(uint32_t k, uint32_t nblk, uint32_t me)
{
    const uint64_t n = me == 0 ? k - 1 : 1;
    return (struct inside_cost){ k - 1, n * nblk, n * nblk };
}

static uint64_t direct_hops(uint32_t me)
{
    return me > 0;
}

const struct inside insides[NINSIDE] = {
    { "tree", false, binomial_reduce, binomial_broadcast, tree_cost, tree_hops, NULL, NULL },
    { "jia", true, jia_reduce, jia_broadcast, jia_cost, NULL, jia_up, jia_down },
    { "direct", false, reduce_to_master, broadcast_from_master, direct_cost, direct_hops, NULL, NULL },
};
