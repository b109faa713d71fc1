/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct exchange, for small vectors and for ranks that can read each other's memory: every block goes straight from
 * its source to its destination, one message deep. Here it works among any group of ranks, and as collectives; the
 * all-reduces made of it are in shots.c.
 *
 * Sources are reduced in the canonical order; only single contributions and results travel. Sends start at the next
 * rank to spread the load.
 */
#include "algorithms.h"
#include "emit.h"

struct plait_span receive_slot(const struct job *j, uint32_t first, uint32_t i)
{
    return plait_tmp(first + (i < j->me ? i : i - 1) * j->range.nblk);
}

/* Reduce members from .. from+n-1. */
static struct plait_span combine_part(struct plait_builder *b, const struct job *j, uint32_t first, uint32_t from,
                                      uint32_t n, const struct plait_span *to)
{
    if (n == 1)
        return from == j->me ? own_at(j, j->range.blk) : receive_slot(j, first, from);
    const uint32_t m = 1u << log2_floor(n - 1); /* the largest power of two below n */
    const struct plait_span x = combine_part(b, j, first, from, m, NULL);
    const struct plait_span y = combine_part(b, j, first, from + m, n - m, NULL);
    const struct plait_span dst = to != NULL ? *to : plait_tmp(plait_slots(b, j->range.nblk));
    plait_emit_reduce(b, dst, x, y, j->range.blk, j->range.nblk);
    return dst;
}

struct plait_span combine(struct plait_builder *b, const struct job *j, uint32_t first, const struct plait_span *to)
{
    return combine_part(b, j, first, 0, j->group.n, to);
}

void direct_reduce_scatter(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    struct job own = *j;
    own.range = part(j->range, n, j->me);
    const uint32_t tmp = plait_slots(b, (n - 1) * own.range.nblk);
    const struct plait_span out = out_at(j, own.range.blk);

    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        const struct range give = part(j->range, n, to);
        plait_emit_send(b, member(&j->group, to), own_at(j, give.blk), give.blk, give.nblk);
        plait_emit_recv(b, member(&j->group, from), receive_slot(&own, tmp, from), own.range.blk, own.range.nblk);
    }
    combine(b, &own, tmp, &out);
}

void direct_all_gather(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    const struct range own = part(j->range, n, j->me);

    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        const struct range take = part(j->range, n, from);
        plait_emit_send(b, member(&j->group, to), own_at(j, own.blk), own.blk, own.nblk);
        plait_emit_recv(b, member(&j->group, from), out_at(j, take.blk), take.blk, take.nblk);
    }
}

void direct_reduce(struct plait_builder *b, const struct job *j, uint32_t root)
{
    const uint32_t n = j->group.n;
    const struct range r = j->range;
    const struct plait_span out = out_at(j, r.blk);

    if (j->me != root)
        return plait_emit_send(b, member(&j->group, root), own_at(j, r.blk), r.blk, r.nblk);
    const uint32_t tmp = plait_slots(b, (n - 1) * r.nblk);
    for (uint32_t k = 1; k < n; k++) {
        const uint32_t from = (root + k) % n;
        plait_emit_recv(b, member(&j->group, from), receive_slot(j, tmp, from), r.blk, r.nblk);
    }
    combine(b, j, tmp, &out);
}

void direct_broadcast(struct plait_builder *b, const struct job *j, uint32_t root)
{
    const uint32_t n = j->group.n;
    const struct range r = j->range;

    if (j->me != root)
        return plait_emit_recv(b, member(&j->group, root), out_at(j, r.blk), r.blk, r.nblk);
    for (uint32_t k = 1; k < n; k++)
        plait_emit_send(b, member(&j->group, (root + k) % n), own_at(j, r.blk), r.blk, r.nblk);
}

/* ---- As collectives ---------------------------------------------------------------------------- */

static void reduce_scatter(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                           uint32_t me)
{
    const struct job all = whole_comm(b, s, me, s->nrank);

    (void)self;
    if (s->nrank == 1)
        keep(b, &all, me, 1);
    else
        direct_reduce_scatter(b, &all);
}

static void all_gather(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, s->nrank);

    (void)self;
    direct_all_gather(b, &all);
    keep(b, &all, me, 1);
}

static void broadcast(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, 1);

    (void)self;
    direct_broadcast(b, &all, s->root);
    if (me == s->root)
        keep(b, &all, 0, 1);
}

static void reduce(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, 1);

    (void)self;
    if (s->nrank == 1)
        keep(b, &all, 0, 1);
    else
        direct_reduce(b, &all, s->root);
}

static void gather(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank;
    const struct job all = whole_comm(b, s, me, n);

    (void)self;
    if (me != s->root)
        return plait_emit_send(b, s->root, own_at(&all, me), me, 1);
    for (uint32_t k = 1; k < n; k++)
        plait_emit_recv(b, (me + k) % n, out_at(&all, (me + k) % n), (me + k) % n, 1);
    keep(b, &all, me, 1);
}

static void scatter(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank;
    const struct job all = whole_comm(b, s, me, n);

    (void)self;
    if (me != s->root)
        return plait_emit_recv(b, s->root, out_at(&all, me), me, 1);
    for (uint32_t k = 1; k < n; k++)
        plait_emit_send(b, (me + k) % n, own_at(&all, (me + k) % n), (me + k) % n, 1);
    keep(b, &all, me, 1);
}

static void all_to_all(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank;

    (void)self;
    plait_blocks(b, plait_block_count(s->coll, n), 0);
    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (me + k) % n, from = (me + n - k) % n;
        plait_emit_send(b, to, plait_in(to), me * n + to, 1);
        plait_emit_recv(b, from, plait_out(from), from * n + me, 1);
    }
    plait_emit_copy(b, plait_out(me), plait_in(me), me * n + me, 1);
}

/* Traffic of a rooted collective: of the root, and of each other rank. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint64_t n = s->nrank - 1;
    const uint32_t nblk = plait_block_count(s->coll, s->nrank);
    const bool to_root = s->coll == PLAIT_REDUCE || s->coll == PLAIT_GATHER;
    const bool from_root = s->coll == PLAIT_BROADCAST || s->coll == PLAIT_SCATTER;

    (void)self;
    return (struct plait_claim){ .depth = n > 0,
                                 .rounds = n,
                                 .nblk = nblk > 0 ? nblk : 1,
                                 .sent = to_root ? n > 0 : n,
                                 .received = from_root ? n > 0 : n,
                                 .rounds_exact = true };
}

/* clang-format off */
const struct plait_alg plait_alg_reduce_scatter_direct = {
    .name = "direct", .coll = PLAIT_REDUCE_SCATTER, .params = "",
    .text = "owner j takes every rank's block j and combines them at once",
    .source = "folklore",
    .canonical = true, .no_partials = true,
    .applies = any_count, .emit = reduce_scatter, .claim = claim,
};

const struct plait_alg plait_alg_allgather_direct = {
    .name = "direct", .coll = PLAIT_ALLGATHER, .params = "",
    .text = "everyone sends its block to everyone",
    .source = "folklore",
    .applies = any_count, .emit = all_gather, .claim = claim,
};

const struct plait_alg plait_alg_broadcast_direct = {
    .name = "direct", .coll = PLAIT_BROADCAST, .params = "",
    .text = "everyone takes the vector from the root",
    .source = "folklore",
    .applies = any_count, .emit = broadcast, .claim = claim,
};

const struct plait_alg plait_alg_reduce_direct = {
    .name = "direct", .coll = PLAIT_REDUCE, .params = "",
    .text = "the root takes every vector and combines them at once",
    .source = "folklore",
    .canonical = true, .no_partials = true,
    .applies = any_count, .emit = reduce, .claim = claim,
};

const struct plait_alg plait_alg_gather_direct = {
    .name = "direct", .coll = PLAIT_GATHER, .params = "",
    .text = "the root takes every block from its rank",
    .source = "folklore",
    .applies = any_count, .emit = gather, .claim = claim,
};

const struct plait_alg plait_alg_scatter_direct = {
    .name = "direct", .coll = PLAIT_SCATTER, .params = "",
    .text = "everyone takes its block from the root",
    .source = "folklore",
    .applies = any_count, .emit = scatter, .claim = claim,
};

const struct plait_alg plait_alg_alltoall_direct = {
    .name = "direct", .coll = PLAIT_ALLTOALL, .params = "",
    .text = "everyone sends everyone its block, the next rank first",
    .source = "folklore; Thakur et al. 2005",
    .applies = any_count, .emit = all_to_all, .claim = claim,
};
