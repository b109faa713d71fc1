/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring: neighbours pass one part at a time. Reduce-scatter and all-gather among any group of ranks, and as
 * collectives; the all-reduce made of them is a grid of one dimension (decompose.c).
 */
#include "algorithms.h"
#include "emit.h"

/* Every step passes the part that was just reduced to the next member; after n-1 steps member i has all of part i. */
void ring_reduce_scatter(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n, window = least(j->window, n - 1);
    const uint32_t next = member(&j->group, (j->me + 1) % n), prev = member(&j->group, (j->me + n - 1) % n);
    const uint32_t room = (j->range.nblk + n - 1) / n; /* blocks in the largest part */
    const uint32_t tmp = plait_slots(b, window * room);
    struct plait_span held = own_at(j, part(j->range, n, (j->me + n - 1) % n).blk);

    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (j->me + n - 1 - k) % n);
        const struct range take = part(j->range, n, (j->me + 2 * n - 2 - k) % n);
        const struct plait_span slot = plait_tmp(tmp + k % window * room);
        plait_emit_send(b, next, held, give.blk, give.nblk);
        plait_emit_recv(b, prev, slot, take.blk, take.nblk);
        held = j->sums_in_tmp && k + 2 < n ? slot : out_at(j, take.blk);
        reduce_pair(b, take, held, own_at(j, take.blk), slot, j->me == 0);
    }
}

void ring_all_gather(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    const uint32_t next = member(&j->group, (j->me + 1) % n), prev = member(&j->group, (j->me + n - 1) % n);

    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (j->me + n - k) % n);
        const struct range take = part(j->range, n, (j->me + n - 1 - k) % n);
        plait_emit_send(b, next, k == 0 ? own_at(j, give.blk) : out_at(j, give.blk), give.blk, give.nblk);
        plait_emit_recv(b, prev, out_at(j, take.blk), take.blk, take.nblk);
    }
}

/* ---- As collectives ---------------------------------------------------------------------------- */

static void reduce_scatter(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                           uint32_t me)
{
    const struct job all = whole_comm(b, s, me, s->nrank);

    (void)self;
    if (s->nrank == 1)
        keep(b, &all, me, 1);
    ring_reduce_scatter(b, &all);
}

static void all_gather(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, s->nrank);

    (void)self;
    ring_all_gather(b, &all);
    keep(b, &all, me, 1);
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint64_t n = s->nrank - 1;

    (void)self;
    return (struct plait_claim){ n, n, s->nrank, n, n, true };
}

/* clang-format off */
const struct plait_alg plait_alg_reduce_scatter_ring = {
    .name = "ring", .coll = PLAIT_REDUCE_SCATTER, .params = "",
    .text = "neighbours pass and add one block at a time",
    .source = "Patarasuk & Yuan 2009",
    .applies = any_count, .emit = reduce_scatter, .claim = claim,
};

const struct plait_alg plait_alg_allgather_ring = {
    .name = "ring", .coll = PLAIT_ALLGATHER, .params = "",
    .text = "neighbours pass one block at a time",
    .source = "folklore; Thakur et al. 2005",
    .applies = any_count, .emit = all_gather, .claim = claim,
};
