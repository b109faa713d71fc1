/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter along a binomial tree from the root: a rank passes on all blocks of its subtree as one message.
 * Positions count from the root. Blocks travel through TMP with PLAIT_AS_LIES: those of a subtree are consecutive but
 * for the step from the last rank to rank 0.
 */
#include "algorithms.h"
#include "emit.h"

/* The positions below and including `pos`: pos, pos + 1, ... */
static uint32_t subtree(uint32_t n, uint32_t pos)
{
    return pos == 0 ? n : least(pos & -pos, n - pos);
}

static uint32_t rank_at(const struct plait_shape *s, uint32_t pos)
{
    return (s->root + pos) % s->nrank;
}

/* One block is named; several use PLAIT_AS_LIES. */
static uint32_t first_block(const struct plait_shape *s, uint32_t pos, uint32_t nblk)
{
    return nblk == 1 ? rank_at(s, pos) : PLAIT_AS_LIES;
}

static void take_at_root(struct plait_builder *b, const struct plait_shape *s, const struct job *j, uint32_t child)
{
    const uint32_t n = subtree(s->nrank, child), from = rank_at(s, child);

    if (n == 1)
        return plait_emit_recv(b, from, out_at(j, from), from, 1);
    const uint32_t tmp = plait_slots(b, n);
    plait_emit_recv(b, from, plait_tmp(tmp), PLAIT_AS_LIES, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t blk = rank_at(s, child + i);
        plait_emit_copy(b, out_at(j, blk), plait_tmp(tmp + i), blk, 1);
    }
}

static void give_at_root(struct plait_builder *b, const struct plait_shape *s, const struct job *j, uint32_t child)
{
    const uint32_t n = subtree(s->nrank, child), to = rank_at(s, child);

    if (n == 1)
        return plait_emit_send(b, to, own_at(j, to), to, 1);
    const uint32_t tmp = plait_slots(b, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t blk = rank_at(s, child + i);
        plait_emit_copy(b, plait_tmp(tmp + i), own_at(j, blk), blk, 1);
    }
    plait_emit_send(b, to, plait_tmp(tmp), PLAIT_AS_LIES, n);
}

/* The largest subtree arrives last. */
static void gather(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job j = whole_comm(b, s, me, s->nrank);
    const uint32_t pos = (me + s->nrank - s->root) % s->nrank, n = subtree(s->nrank, pos);
    const uint32_t up = rank_at(s, pos & (pos - 1)), tmp = pos > 0 && n > 1 ? plait_slots(b, n) : 0;

    (void)self;
    if (pos > 0 && n == 1)
        return plait_emit_send(b, up, own_at(&j, me), me, 1);
    plait_emit_copy(b, pos > 0 ? plait_tmp(tmp) : out_at(&j, me), own_at(&j, me), me, 1);
    for (uint32_t i = 1; i < n; i *= 2) {
        const uint32_t nblk = subtree(s->nrank, pos + i);
        if (pos == 0)
            take_at_root(b, s, &j, i);
        else
            plait_emit_recv(b, rank_at(s, pos + i), plait_tmp(tmp + i), first_block(s, pos + i, nblk), nblk);
    }
    if (pos > 0)
        plait_emit_send(b, up, plait_tmp(tmp), PLAIT_AS_LIES, n);
}

/* The largest subtree leaves first. */
static void scatter(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job j = whole_comm(b, s, me, s->nrank);
    const uint32_t pos = (me + s->nrank - s->root) % s->nrank, n = subtree(s->nrank, pos);
    const uint32_t up = rank_at(s, pos & (pos - 1)), tmp = pos > 0 && n > 1 ? plait_slots(b, n) : 0;

    (void)self;
    if (pos > 0 && n == 1)
        return plait_emit_recv(b, up, out_at(&j, me), me, 1);
    if (pos > 0)
        plait_emit_recv(b, up, plait_tmp(tmp), PLAIT_AS_LIES, n);
    for (uint32_t i = n > 1 ? 1u << log2_floor(n - 1) : 0; i > 0; i /= 2) {
        const uint32_t nblk = subtree(s->nrank, pos + i);
        if (pos == 0)
            give_at_root(b, s, &j, i);
        else
            plait_emit_send(b, rank_at(s, pos + i), plait_tmp(tmp + i), first_block(s, pos + i, nblk), nblk);
    }
    plait_emit_copy(b, out_at(&j, me), pos > 0 ? plait_tmp(tmp) : own_at(&j, me), me, 1);
}

/* The root moves all blocks but its own. Of the others, the rank with the largest subtree moves most. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t n = s->nrank, half = n > 1 ? 1u << log2_floor(n - 1) : 0;
    const uint64_t root = n - 1, other = n > 1 ? most(half / 2, n - half) : 0;
    const bool gathers = s->coll == PLAIT_GATHER;

    (void)self;
    return (struct plait_claim){ .depth = log2_floor(n),
                                 .rounds = log2_ceil(n),
                                 .nblk = n,
                                 .sent = gathers ? other : root,
                                 .received = gathers ? root : other,
                                 .rounds_exact = true };
}

/* clang-format off */
const struct plait_alg plait_alg_gather_binomial = {
    .name = "binomial", .coll = PLAIT_GATHER, .params = "",
    .text = "one binomial tree to the root, whole subtrees in one message",
    .source = "folklore",
    .applies = any_count, .emit = gather, .claim = claim,
};

const struct plait_alg plait_alg_scatter_binomial = {
    .name = "binomial", .coll = PLAIT_SCATTER, .params = "",
    .text = "one binomial tree from the root, whole subtrees in one message",
    .source = "folklore",
    .applies = any_count, .emit = scatter, .claim = claim,
};
