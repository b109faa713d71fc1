/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing tensors into the payload and unpacking them, like lib/fusion/pass.c. A warp works on one piece at a time. */
#ifndef PLAIT_CUDA_FUSE_BODY_H
#define PLAIT_CUDA_FUSE_BODY_H

#include "copy_body.h"
#include "widths.h"

/* ---- Pieces ------------------------------------------------------------------------------------------------ */

BODY uint32_t plait_nwarp(const struct plait_where *at)
{
    return at->nblock * (at->nthread / PLAIT_CUDA_WARP);
}

/* A phase for each piece of the first warp, which has the most. */
BODY uint32_t plait_piece_phases(uint32_t npiece, const struct plait_where *at)
{
    return (npiece + plait_nwarp(at) - 1) / plait_nwarp(at);
}

/* The piece of this warp; npiece or more: none. */
BODY uint32_t plait_piece_of(uint32_t phase, const struct plait_where *at)
{
    return phase * plait_nwarp(at) + (uint32_t)(plait_thread(at) / PLAIT_CUDA_WARP);
}

BODY bool plait_is_finite(double v)
{
    return v - v == 0;
}

/* ---- One piece -------------------------------------------------------------------------------------------- */

enum { PLAIT_ROW = 16 }; /* elements of a lane in flight */

struct plait_span { /* elements being converted */
    char *to;
    const char *from;
    uint32_t to_type, from_type;
    uint32_t count;
    double factor;
    bool sums;   /* add up squares, even where bits are copied */
    bool copied; /* bits are */
};

struct plait_seen { /* by one lane */
    double square;
    bool infinite;
};

BODY double plait_factor(const struct plait_cuda_pack *a)
{
    return a->late != NULL ? *a->late : a->factor;
}

BODY struct plait_seen plait_span_double(const struct plait_span *s, uint32_t lane)
{
    const double *from = (const double *)(const void *)s->from;
    double *to = (double *)(void *)s->to;
    struct plait_seen seen = { 0, false };

    for (uint32_t i = lane; i < s->count; i += PLAIT_CUDA_WARP) {
        const double v = s->copied ? from[i] : clean_f64(prod_f64(from[i], s->factor));
        if (to != from || !s->copied)
            to[i] = v;
        seen.square += v * v;
        seen.infinite |= !plait_is_finite(v);
    }
    return seen;
}

/* v[j] = the product that is stored, 0 behind the end. */
BODY void plait_row_scale(float *v, float factor, const struct plait_row *r)
{
    UNROLL for (uint32_t j = 0; j < PLAIT_ROW; j++) v[j] = clean_f32(prod_f32(v[j], factor));
    if (r->left < PLAIT_ROW * PLAIT_CUDA_WARP)
        UNROLL for (uint32_t j = 0; j < PLAIT_ROW; j++) v[j] = plait_row_at(r, j) < r->left ? v[j] : 0;
}

BODY double plait_row_squares(double sum, const float *v)
{
    UNROLL for (uint32_t j = 0; j < PLAIT_ROW; j++) sum = plait_add_square(sum, v[j]);
    return sum;
}

/* Returns sum + the squares of what is stored. */
BODY double plait_span_row(const struct plait_span *s, uint32_t first, const struct plait_row *r, double sum)
{
    const uint32_t to_size = plait_size_of(s->to_type), from_size = plait_size_of(s->from_type);
    const char *from = s->from + (uint64_t)first * from_size;
    char *to = s->to + (uint64_t)first * to_size;
    uint32_t word[PLAIT_ROW] = { 0 };
    float v[PLAIT_ROW];

    plait_row_get(word, from, from_size, r, PLAIT_ROW);
    if (!s->copied) {
        plait_widen(v, s->from_type, word, r, PLAIT_ROW);
        plait_row_scale(v, (float)s->factor, r);
        plait_narrow(word, s->to_type, v, r, PLAIT_ROW);
    }
    if (to != from || !s->copied)
        plait_row_put(to, word, to_size, r, PLAIT_ROW);
    if (!s->sums)
        return sum;
    plait_widen(v, s->to_type, word, r, PLAIT_ROW);
    return plait_row_squares(sum, v);
}

BODY double plait_span_rows(const struct plait_span *s, uint32_t lane, uint32_t least)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->count; i += PLAIT_ROW * PLAIT_CUDA_WARP) {
        const struct plait_row r = { lane, plait_shift_of(least), least, s->count - i, false };
        sum = plait_span_row(s, i, &r, sum);
    }
    return sum;
}

BODY struct plait_seen plait_span_float(const struct plait_span *s, uint32_t lane)
{
    const uint32_t to_size = plait_size_of(s->to_type), from_size = plait_size_of(s->from_type);
    struct plait_seen seen = { 0, false };

#define ROWS(least) plait_span_rows(s, lane, least)
    seen.square = PLAIT_BY_SIZE(to_size < from_size ? to_size : from_size, ROWS);
#undef ROWS
    seen.infinite = !plait_is_finite(seen.square); /* squares of float32 are finite doubles, and so are their sums */
    return seen;
}

BODY struct plait_seen plait_span_move(const struct plait_span *s, const struct plait_where *at)
{
    const bool is_float = s->to_type == PLAIT_FLOAT32 || plait_is_narrow(s->to_type);
    struct plait_seen seen = { 0, false };

    if (s->copied && !(s->sums && (is_float || s->to_type == PLAIT_FLOAT64))) {
        if (s->to != s->from)
            plait_copy_bytes(s->to, s->from, (uint64_t)s->count * plait_size_of(s->to_type), plait_lane(at),
                             PLAIT_CUDA_WARP);
    } else if (is_float) {
        seen = plait_span_float(s, plait_lane(at));
    } else if (s->to_type == PLAIT_FLOAT64) {
        seen = plait_span_double(s, plait_lane(at));
    }
    return seen;
}

/* ---- Pack ------------------------------------------------------------------------------------------------- */

BODY uint32_t plait_pack_phases(const struct plait_cuda_pack *a, const struct plait_where *at)
{
    return plait_piece_phases(a->npiece, at);
}

/* The part of lane `lane`. */
BODY void plait_zero_bytes(char *p, uint64_t bytes, uint32_t lane)
{
    const uint64_t head = plait_head(p, 1, bytes), whole = (bytes - head) / 16 * 16;
    const struct plait_line zero = { { 0, 0, 0, 0 } };

    for (uint64_t i = lane * (uint64_t)16; i < whole; i += PLAIT_CUDA_WARP * (uint64_t)16)
        plait_line_put(p + head + i, zero);
    for (uint64_t i = lane; i < bytes - whole; i += PLAIT_CUDA_WARP)
        p[i < head ? i : i + whole] = 0;
}

BODY void plait_pack_body(const struct plait_cuda_pack *a, uint32_t phase, const struct plait_where *at, double *shared)
{
    const uint32_t piece = plait_piece_of(phase, at), size = plait_size_of(a->type);

    (void)shared;
    if (piece >= a->npiece)
        return;
    const struct plait_cuda_piece p = a->pieces[piece];
    const struct plait_cuda_tensor t = a->tensors[p.of];
    const double factor = plait_factor(a);
    char *to = (char *)a->payload + (t.at + p.start) * size;
    const struct plait_span s = { to,      (const char *)t.data + p.start * plait_size_of(t.type),
                                  a->type, t.type,
                                  p.count, factor,
                                  false,   a->type == t.type && factor == 1 };

    if (t.data == NULL)
        plait_zero_bytes(to, (uint64_t)p.count * size, plait_lane(at));
    else
        plait_span_move(&s, at);
}

/* ---- Unpack ----------------------------------------------------------------------------------------------- */

BODY uint32_t plait_unpack_phases(const struct plait_cuda_pack *a, const struct plait_where *at)
{
    return plait_piece_phases(a->npiece, at);
}

BODY void plait_unpack_body(const struct plait_cuda_pack *a, uint32_t phase, const struct plait_where *at,
                            double *shared)
{
    const uint32_t piece = plait_piece_of(phase, at);
    const bool sums = a->squares != NULL;
    struct plait_seen seen = { 0, false };

    if (piece >= a->npiece)
        return;
    const struct plait_cuda_piece p = a->pieces[piece];
    const struct plait_cuda_tensor t = a->tensors[p.of];
    const double factor = plait_factor(a);
    const struct plait_span s = { (char *)t.data + p.start * plait_size_of(t.type),
                                  (const char *)a->payload + (t.at + p.start) * plait_size_of(a->type),
                                  t.type,
                                  a->type,
                                  p.count,
                                  factor,
                                  sums,
                                  a->type == t.type && factor == 1 };

    if (t.data != NULL)
        seen = plait_span_move(&s, at);
    if (!sums)
        return;
    if (seen.infinite && a->infinite != NULL)
        *a->infinite = 1;
    if (plait_warp_sum(&seen.square, at, shared))
        a->squares[piece] = seen.square;
}

#endif
