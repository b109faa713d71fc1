/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by direct exchange, for small vectors and for ranks that can read each other's memory.
 *
 * one-shot   every rank sends its vector to all; every rank reduces all of them
 * two-shot   every rank sends block j to owner j, which reduces it and sends the result to all
 *
 * The bits do not depend on the form.
 */
#include "algorithms.h"
#include "emit.h"

/*
 * If the others read this rank's contribution from OUT, the result stays in TMP until they have read it. A REDUCE
 * straight into OUT would serialise reading and being read.
 */
static void one_shot(struct plait_builder *b, const struct plait_shape *s, const struct job *j)
{
    const uint32_t n = j->group.n;
    const struct range r = j->range;
    const struct plait_span own = own_at(j, r.blk), out = plait_out(r.blk);
    const bool overwrites = s->inplace || j->src == PLAIT_OUT;
    const uint32_t tmp = plait_slots(b, (n - 1) * r.nblk);

    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        plait_emit_send(b, member(&j->group, to), own, r.blk, r.nblk);
        plait_emit_recv(b, member(&j->group, from), receive_slot(j, tmp, from), r.blk, r.nblk);
    }
    plait_emit_copy(b, out, combine(b, j, tmp, overwrites ? NULL : &out), r.blk, r.nblk);
}

static void two_shot(struct plait_builder *b, const struct job *j)
{
    struct job back = *j;

    back.src = PLAIT_OUT;
    if (j->group.n == 1)
        keep(b, j, j->range.blk, j->range.nblk);
    direct_reduce_scatter(b, j);
    direct_all_gather(b, &back);
}

/* ---- Presets: how many shots -------------------------------------------------------------------- */

static uint32_t shots(const struct plait_alg *self)
{
    return *(const uint32_t *)self->preset;
}

/* A shot is one message to every other member. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint64_t m = shots(self) * ((uint64_t)s->nrank - 1);
    struct plait_claim c = { .rounds = m, .sent = m, .received = m, .rounds_exact = true };

    c.depth = s->nrank > 1 ? shots(self) : 0;
    c.nblk = shots(self) > 1 ? s->nrank : 1;
    return c;
}

static void emit_in_group(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          const struct job *j)
{
    if (shots(self) == 1)
        one_shot(b, s, j);
    else
        two_shot(b, j);
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_comm(b, s, me, (uint32_t)claim(self, s).nblk);
    emit_in_group(self, b, s, &all);
}

static uint64_t moved(const struct plait_alg *self, const struct plait_shape *s, uint32_t me)
{
    (void)me;
    return claim(self, s).sent;
}

/* With one shot a member's own result waits until the others have read its contribution. */
static uint64_t path(const struct plait_alg *self, const struct plait_shape *s, uint32_t from, uint32_t to,
                     uint32_t piece, struct range *first, struct range *last)
{
    *first = *last = (struct range){ piece, 1 };
    return shots(self) == 1 ? s->nrank > 1 : (from != piece) + (to != piece);
}

const struct family direct_family = { emit_in_group, moved, path };

/* clang-format off */
const struct plait_alg plait_alg_one_shot = {
    .name = "one-shot", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "everyone sends all to everyone and combines all",
    .source = "folklore",
    .canonical = true, .no_partials = true,
    .preset = &(const uint32_t){ 1 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_two_shot = {
    .name = "two-shot", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "owner j combines block j and sends it to everyone",
    .source = "folklore",
    .canonical = true, .no_partials = true,
    .preset = &(const uint32_t){ 2 },
    .applies = any_count, .emit = emit, .claim = claim,
};
