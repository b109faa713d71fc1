/* SPDX-License-Identifier: BSD-3-Clause */
#include "algorithms.h"

static void ring_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank, next = (me + 1) % n, prev = (me + n - 1) % n;

    plait_blocks(b, n, 2);
    if (n == 1)
        plait_copy(b, plait_out(0), plait_in(0), 0, 1);
    for (uint32_t k = 0; k + 1 < n; k++) {
        const uint32_t give = (me + n - k) % n, take = (me + n - k - 1) % n;
        plait_send(b, next, k == 0 ? plait_in(give) : plait_out(give), give, 1);
        plait_recv(b, prev, plait_tmp(k % 2), take, 1);
        plait_reduce(b, plait_out(take), plait_tmp(k % 2), plait_in(take), take, 1);
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        const uint32_t give = (me + 1 + n - k) % n, take = (me + n - k) % n;
        plait_send(b, next, plait_out(give), give, 1);
        plait_recv(b, prev, plait_out(take), take, 1);
    }
}

static bool any_count(const struct plait_shape *s)
{
    return s->nrank >= 1;
}

static struct plait_claim ring_claim(const struct plait_shape *s)
{
    const uint64_t m = 2 * ((uint64_t)s->nrank - 1);
    return (struct plait_claim){ .depth = m, .rounds = m, .nblk = s->nrank, .sent = m, .received = m, .rounds_exact = true };
}

const struct plait_alg plait_alg_ring = {
    .name = "ring", .coll = PLAIT_ALLREDUCE, .params = "", .text = "neighbours pass and add one block at a time",
    .source = "Patarasuk & Yuan 2009", .applies = any_count, .emit = ring_emit, .claim = ring_claim,
};
