/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck et al.: all-gather and all-to-all in ceil(log2 p) messages per rank, for small blocks. In step k every rank
 * sends to the rank 2^k away. Blocks go through TMP with PLAIT_AS_LIES, as they are not consecutive.
 */
#include "algorithms.h"
#include "emit.h"

/* Slot i holds the block of rank me + i. Each step doubles the blocks of a rank, from the rank 2^k after it. */
static void all_gather(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank;
    const struct job j = whole_comm(b, s, me, n);
    const uint32_t tmp = plait_slots(b, n > 1 ? n : 0);

    (void)self;
    if (n > 1)
        plait_emit_copy(b, plait_tmp(tmp), own_at(&j, me), me, 1);
    for (uint32_t have = 1; have < n; have *= 2) {
        const uint32_t more = least(have, n - have);
        plait_emit_send(b, (me + n - have) % n, plait_tmp(tmp), more == 1 ? me : PLAIT_AS_LIES, more);
        plait_emit_recv(b, (me + have) % n, plait_tmp(tmp + have), more == 1 ? (me + have) % n : PLAIT_AS_LIES, more);
    }
    keep(b, &j, me, 1);
    for (uint32_t i = 1; i < n; i++)
        plait_emit_copy(b, out_at(&j, (me + i) % n), plait_tmp(tmp + i), (me + i) % n, 1);
}

/* The count of numbers below n with bit k. */
static uint32_t count_with(uint32_t n, uint32_t k)
{
    const uint32_t bit = 1u << k, rest = n & (2 * bit - 1);
    return (n - rest) / 2 + (rest > bit ? rest - bit : 0);
}

/* The slot of block i after the steps of the bits of `done`: the last step brought all numbers with its bit. */
static struct plait_span came_slot(const uint32_t *came, uint32_t i, uint32_t done)
{
    const uint32_t k = log2_floor(done);
    return plait_tmp(came[k] + count_with(i, k));
}

/*
 * A block that travels i ranks takes the steps of i's bits, the lowest first. It leaves IN, or the slot of its last
 * arrival, for a slot next to the other blocks of this step.
 */
static void all_to_all(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank;
    uint32_t came[32]; /* first slot of the blocks that came with each step */

    (void)self;
    plait_blocks(b, plait_block_count(s->coll, n), 0);
    plait_emit_copy(b, plait_out(me), plait_in(me), me * n + me, 1);
    for (uint32_t k = 0; 1u << k < n; k++) {
        const uint32_t bit = 1u << k, nblk = count_with(n, k);
        const uint32_t leave = plait_slots(b, nblk);
        uint32_t at = leave;
        came[k] = plait_slots(b, nblk);
        for (uint32_t i = bit; i < n; i++) {
            const uint32_t before = i & (bit - 1), from = (me + n - before) % n, to = (from + i) % n;
            if (i & bit)
                plait_emit_copy(b, plait_tmp(at++), before == 0 ? plait_in(to) : came_slot(came, i, before),
                                from * n + to, 1);
        }
        plait_emit_send(b, (me + bit) % n, plait_tmp(leave), PLAIT_AS_LIES, nblk);
        plait_emit_recv(b, (me + n - bit) % n, plait_tmp(came[k]), PLAIT_AS_LIES, nblk);
    }
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t from = (me + n - i) % n;
        plait_emit_copy(b, plait_out(from), came_slot(came, i, i), from * n + me, 1);
    }
}

/* A step depends on earlier steps whose blocks it passes on; the last one has only numbers from 2^k on. */
static uint64_t depth_of(uint32_t n)
{
    const uint32_t last = log2_ceil(n); /* steps */
    return n <= 2 ? n - 1 : most(last - 1, log2_ceil(n - (1u << (last - 1))) + 1);
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t n = s->nrank, steps = log2_ceil(n);
    struct plait_claim c = { depth_of(n), steps, plait_block_count(s->coll, n), n - 1, n - 1, true };

    (void)self;
    if (s->coll == PLAIT_ALLGATHER)
        return c;
    c.sent = 0;
    for (uint32_t k = 0; k < steps; k++)
        c.sent += count_with(n, k);
    c.received = c.sent;
    return c;
}

/* clang-format off */
const struct plait_alg plait_alg_allgather_bruck = {
    .name = "bruck", .coll = PLAIT_ALLGATHER, .params = "",
    .text = "every step doubles what a rank has",
    .source = "Bruck et al. 1997",
    .applies = any_count, .emit = all_gather, .claim = claim,
};

const struct plait_alg plait_alg_alltoall_bruck = {
    .name = "bruck", .coll = PLAIT_ALLTOALL, .params = "",
    .text = "step k passes on the blocks whose way has bit k",
    .source = "Bruck et al. 1997",
    .applies = any_count, .emit = all_to_all, .claim = claim,
};
