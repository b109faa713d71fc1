/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing tensors into the payload and unpacking them, like lib/fusion/pass.c. A block works on one piece at a time. */
#ifndef PLAIT_CUDA_FUSE_BODY_H
#define PLAIT_CUDA_FUSE_BODY_H

#include "copy_body.h"
#include "widths.h"

#include <assert.h>

/* ---- Sums over a block ------------------------------------------------------------------------------------- */

/* Phases of a piece: its work; a tree sum over the threads; the use of the sum. */
enum { PLAIT_HALVES = 8, PLAIT_PIECE_PHASES = PLAIT_HALVES + 2 };
static_assert(1 << PLAIT_HALVES == PLAIT_CUDA_THREADS, "every halving needs a phase");

/* Each block has as many turns as the first, which has the most. */
BODY uint32_t plait_piece_phases(uint32_t npiece, const struct plait_where *at)
{
    return (npiece + at->nblock - 1) / at->nblock * PLAIT_PIECE_PHASES;
}

BODY uint32_t plait_piece_of(uint32_t phase, const struct plait_where *at)
{
    return at->block + phase / PLAIT_PIECE_PHASES * at->nblock;
}

/* Step 1 to PLAIT_HALVES of the tree sum. */
BODY void plait_halve(double *sums, uint32_t step, const struct plait_where *at)
{
    const uint32_t half = PLAIT_CUDA_THREADS >> step;

    if (at->thread < half)
        sums[at->thread] += sums[at->thread + half];
}

BODY double plait_square(double v)
{
    return v * v;
}

BODY bool plait_is_finite(double v)
{
    return v - v == 0;
}

/* ---- One piece -------------------------------------------------------------------------------------------- */

struct plait_span { /* elements being converted */
    void *to;
    const void *from;
    uint64_t start; /* in `to` */
    uint64_t first; /* in `from` */
    uint32_t to_type, from_type;
    uint32_t count;
};

struct plait_seen { /* by one thread */
    double square;
    bool infinite;
};

BODY double plait_factor(const struct plait_cuda_pack *a)
{
    return a->late != NULL ? *a->late : a->factor;
}

BODY void plait_span_copy(const struct plait_span *s, const struct plait_where *at)
{
    const uint32_t size = plait_size_of(s->to_type);
    char *to = (char *)s->to + s->start * size;
    const char *from = (const char *)s->from + s->first * size;

    if (to != from)
        plait_copy_bytes(to, from, (uint64_t)s->count * size, at->thread, at->nthread);
}

BODY void plait_see(struct plait_seen *seen, double v)
{
    seen->square += plait_square(v);
    seen->infinite |= !plait_is_finite(v);
}

BODY void plait_span_double(const struct plait_span *s, double factor, bool copied, const struct plait_where *at,
                            struct plait_seen *seen)
{
    for (uint32_t i = at->thread; i < s->count; i += at->nthread) {
        const double v = ((const double *)s->from)[s->first + i];
        const double made = copied ? v : clean_f64(prod_f64(v, factor));
        if (!copied)
            ((double *)s->to)[s->start + i] = made;
        plait_see(seen, made);
    }
}

BODY void plait_span_float(const struct plait_span *s, float factor, bool copied, const struct plait_where *at,
                           struct plait_seen *seen)
{
    for (uint32_t i = at->thread * PLAIT_EIGHT; i < s->count; i += at->nthread * PLAIT_EIGHT) {
        const uint32_t n = s->count - i < PLAIT_EIGHT ? s->count - i : (uint32_t)PLAIT_EIGHT;
        float v[PLAIT_EIGHT] = { 0 };

        plait_eight_get(v, s->from_type, s->from, s->first + i, n);
        for (uint32_t k = 0; k < PLAIT_EIGHT && !copied; k++)
            v[k] = k < n ? clean_f32(prod_f32(v[k], factor)) : 0;
        if (!copied)
            plait_eight_put(s->to_type, s->to, s->start + i, n, v);
        for (uint32_t k = 0; k < PLAIT_EIGHT; k++)
            plait_see(seen, (double)plait_stored(s->to_type, v[k]));
    }
}

/* look: check what is written, even where only bits are copied. */
BODY struct plait_seen plait_span_move(const struct plait_span *s, double factor, bool look,
                                       const struct plait_where *at)
{
    const bool copied = s->to_type == s->from_type && factor == 1;
    struct plait_seen seen = { 0, false };

    if (copied)
        plait_span_copy(s, at);
    if (copied && !look)
        return seen;
    if (s->to_type == PLAIT_FLOAT64)
        plait_span_double(s, factor, copied, at, &seen);
    else if (s->to_type == PLAIT_FLOAT32 || plait_is_narrow(s->to_type))
        plait_span_float(s, (float)factor, copied, at, &seen);
    return seen;
}

/* ---- Pack ------------------------------------------------------------------------------------------------- */

BODY uint32_t plait_pack_phases(const struct plait_cuda_pack *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

BODY void plait_zero_bytes(char *p, uint64_t bytes, const struct plait_where *at)
{
    for (uint64_t i = at->thread; i < bytes; i += at->nthread)
        p[i] = 0;
}

BODY void plait_pack_piece(const struct plait_cuda_pack *a, uint32_t piece, const struct plait_where *at)
{
    const struct plait_cuda_piece p = a->pieces[piece];
    const struct plait_cuda_tensor t = a->tensors[p.of];
    const struct plait_span s = { a->payload, t.data, t.at + p.start, p.start, a->type, t.type, p.count };
    const uint32_t size = plait_size_of(a->type);

    if (t.data == NULL)
        plait_zero_bytes((char *)a->payload + s.start * size, (uint64_t)p.count * size, at);
    else
        plait_span_move(&s, plait_factor(a), false, at);
}

BODY void plait_pack_body(const struct plait_cuda_pack *a, uint32_t phase, const struct plait_where *at, double *shared)
{
    (void)phase, (void)shared;
    for (uint32_t piece = at->block; piece < a->npiece; piece += at->nblock)
        plait_pack_piece(a, piece, at);
}

/* ---- Unpack ----------------------------------------------------------------------------------------------- */

BODY uint32_t plait_unpack_phases(const struct plait_cuda_pack *a, const struct plait_where *at)
{
    return plait_piece_phases(a->npiece, at);
}

BODY double plait_unpack_piece(const struct plait_cuda_pack *a, uint32_t piece, const struct plait_where *at)
{
    const struct plait_cuda_piece p = a->pieces[piece];
    const struct plait_cuda_tensor t = a->tensors[p.of];
    const struct plait_span s = { t.data, a->payload, p.start, t.at + p.start, t.type, a->type, p.count };

    if (t.data == NULL)
        return 0;
    const struct plait_seen seen = plait_span_move(&s, plait_factor(a), a->squares != NULL, at);
    if (seen.infinite && a->squares != NULL && a->infinite != NULL)
        *a->infinite = 1;
    return seen.square;
}

BODY void plait_unpack_body(const struct plait_cuda_pack *a, uint32_t phase, const struct plait_where *at,
                            double *shared)
{
    const uint32_t piece = plait_piece_of(phase, at), step = phase % PLAIT_PIECE_PHASES;

    if (piece >= a->npiece)
        return;
    if (step == 0)
        shared[at->thread] = plait_unpack_piece(a, piece, at);
    else if (step <= PLAIT_HALVES)
        plait_halve(shared, step, at);
    else if (at->thread == 0 && a->squares != NULL)
        a->squares[piece] = shared[0];
}

#endif
