/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct exchange, for small vectors and for ranks that can read each other's memory.
 *
 * one-shot   everyone sends its vector to everyone; everyone combines all of them
 * two-shot   everyone sends block j to owner j, who combines it and sends the result to everyone
 *
 * Sources are combined in the canonical order and only single contributions and results travel: the
 * bits do not depend on which of the two runs. Sends start at the next rank to spread the load.
 */
#include "algorithms.h"
#include "emit.h"

struct plait_span receive_slot(const struct job *j, uint32_t i)
{
    return plait_tmp(j->tmp + (i < j->me ? i : i - 1) * j->range.nblk);
}

uint32_t combine_tmp(uint32_t n, uint32_t nblk)
{
    return n < 2 ? 0 : (2 * n - 3) * nblk;
}

/* Combine members first .. first+n-1; `spare` is the next free TMP slot, advanced. Returns where the result is. */
static struct plait_span combine_part(struct plait_builder *b, const struct job *j, uint32_t first, uint32_t n,
                                      uint32_t *spare, const struct plait_span *to)
{
    if (n == 1)
        return first == j->me ? span_at(j->src, j->range.blk) : receive_slot(j, first);
    const uint32_t m = 1u << log2_floor(n - 1); /* the largest power of two below n */
    const struct plait_span x = combine_part(b, j, first, m, spare, NULL);
    const struct plait_span y = combine_part(b, j, first + m, n - m, spare, NULL);
    const struct plait_span dst = to != NULL ? *to : plait_tmp(*spare);
    if (to == NULL)
        *spare += j->range.nblk;
    plait_reduce(b, dst, x, y, j->range.blk, j->range.nblk);
    return dst;
}

void combine(struct plait_builder *b, const struct job *j, struct plait_span to)
{
    uint32_t spare = j->tmp + (j->group.n - 1) * j->range.nblk;
    combine_part(b, j, 0, j->group.n, &spare, &to);
}

void direct_reduce_scatter(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    struct job own = *j;

    own.range = part(j->range, n, j->me);
    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        const struct range give = part(j->range, n, to);
        plait_send(b, member(&j->group, to), span_at(j->src, give.blk), give.blk, give.nblk);
        plait_recv(b, member(&j->group, from), receive_slot(&own, from), own.range.blk, own.range.nblk);
    }
    if (n > 1)
        combine(b, &own, plait_out(own.range.blk));
}

void direct_all_gather(struct plait_builder *b, const struct job *j)
{
    const uint32_t n = j->group.n;
    const struct range own = part(j->range, n, j->me);

    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        const struct range take = part(j->range, n, from);
        plait_send(b, member(&j->group, to), plait_out(own.blk), own.blk, own.nblk);
        plait_recv(b, member(&j->group, from), plait_out(take.blk), take.blk, take.nblk);
    }
}

/*
 * When the others read this rank's contribution from OUT, the result waits in TMP until they have: a
 * REDUCE straight into OUT would not let reading them and being read go on at the same time.
 */
static void one_shot_steps(const struct group_alg *a, struct plait_builder *b, const struct plait_shape *s,
                           const struct job *j)
{
    const uint32_t n = j->group.n;
    const struct range r = j->range;
    const struct plait_span own = span_at(j->src, r.blk), out = plait_out(r.blk);
    const bool overwrites = s->inplace || j->src == PLAIT_OUT;
    const struct plait_span last = overwrites ? plait_tmp(j->tmp + combine_tmp(n, r.nblk)) : out;

    (void)a;
    for (uint32_t k = 1; k < n; k++) {
        const uint32_t to = (j->me + k) % n, from = (j->me + n - k) % n;
        plait_send(b, member(&j->group, to), own, r.blk, r.nblk);
        plait_recv(b, member(&j->group, from), receive_slot(j, from), r.blk, r.nblk);
    }
    if (n > 1)
        combine(b, j, last);
    plait_copy(b, out, n > 1 ? last : own, r.blk, r.nblk);
}

static uint32_t one_shot_tmp(const struct group_alg *a, const struct plait_shape *s, const struct job *j)
{
    (void)a;
    const bool overwrites = s->inplace || j->src == PLAIT_OUT;
    return combine_tmp(j->group.n, j->range.nblk) + (j->group.n > 1 && overwrites ? j->range.nblk : 0);
}

static void two_shot_steps(const struct group_alg *a, struct plait_builder *b, const struct plait_shape *s,
                           const struct job *j)
{
    (void)a, (void)s;
    if (j->group.n == 1)
        plait_copy(b, plait_out(j->range.blk), span_at(j->src, j->range.blk), j->range.blk, j->range.nblk);
    direct_reduce_scatter(b, j);
    direct_all_gather(b, j);
}

static uint32_t two_shot_tmp(const struct group_alg *a, const struct plait_shape *s, const struct job *j)
{
    (void)a, (void)s;
    return combine_tmp(j->group.n, j->range.nblk / j->group.n);
}

static bool any_count(const struct plait_shape *s)
{
    return s->nrank >= 1;
}

static struct plait_claim one_shot_claim(const struct plait_shape *s)
{
    const uint64_t m = s->nrank - 1;
    return (
        struct plait_claim){ .depth = m > 0, .rounds = m, .nblk = 1, .sent = m, .received = m, .rounds_exact = true };
}

static struct plait_claim two_shot_claim(const struct plait_shape *s)
{
    const uint64_t m = 2 * ((uint64_t)s->nrank - 1);
    return (struct plait_claim){
        .depth = least(m, 2), .rounds = m, .nblk = s->nrank, .sent = m, .received = m, .rounds_exact = true
    };
}

static uint64_t one_shot_moved(const struct group_alg *a, const struct plait_shape *s, uint32_t me)
{
    (void)a, (void)me;
    return one_shot_claim(s).sent;
}

static uint64_t one_shot_path(const struct group_alg *a, const struct plait_shape *s, uint32_t from, uint32_t to,
                              uint32_t piece, struct range *first, struct range *last)
{
    (void)a, (void)from, (void)to; /* a member's own result waits until the others have read its contribution */
    *first = *last = (struct range){ piece, 1 };
    return s->nrank > 1;
}

static uint64_t two_shot_moved(const struct group_alg *a, const struct plait_shape *s, uint32_t me)
{
    (void)a, (void)me;
    return two_shot_claim(s).sent;
}

static uint64_t two_shot_path(const struct group_alg *a, const struct plait_shape *s, uint32_t from, uint32_t to,
                              uint32_t piece, struct range *first, struct range *last)
{
    (void)a, (void)s;
    *first = *last = (struct range){ piece, 1 };
    return (from != piece) + (to != piece);
}

static const struct group_alg one_shot = { &plait_alg_one_shot, one_shot_tmp, one_shot_steps, one_shot_moved,
                                           one_shot_path };
static const struct group_alg two_shot = { &plait_alg_two_shot, two_shot_tmp, two_shot_steps, two_shot_moved,
                                           two_shot_path };
const struct group_alg *const plait_group_one_shot = &one_shot, *const plait_group_two_shot = &two_shot;

static void one_shot_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    emit_whole(b, &one_shot, s, me);
}

static void two_shot_emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    emit_whole(b, &two_shot, s, me);
}

const struct plait_alg plait_alg_one_shot = {
    .name = "one-shot",
    .coll = PLAIT_ALLREDUCE,
    .params = "",
    .text = "everyone sends all to everyone and combines all",
    .source = "folklore",
    .canonical = true,
    .no_partials = true,
    .applies = any_count,
    .emit = one_shot_emit,
    .claim = one_shot_claim,
};

const struct plait_alg plait_alg_two_shot = {
    .name = "two-shot",
    .coll = PLAIT_ALLREDUCE,
    .params = "",
    .text = "owner j combines block j and sends it to everyone",
    .source = "folklore",
    .canonical = true,
    .no_partials = true,
    .applies = any_count,
    .emit = two_shot_emit,
    .claim = two_shot_claim,
};
