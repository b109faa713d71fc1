/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser's three passes, like lib/optim/optim.c. */
#ifndef PLAIT_CUDA_OPTIM_BODY_H
#define PLAIT_CUDA_OPTIM_BODY_H

#include "fuse_body.h"

#include <string.h>

BODY struct plait_cuda_step plait_step_of(const struct plait_cuda_optim *a)
{
    return a->late != NULL ? *a->late : a->step;
}

/* Until the scale is updated. */
BODY double plait_factor_of(const struct plait_cuda_optim *a)
{
    const double factor = plait_step_of(a).factor;

    return a->scale != NULL ? factor / a->scale->scale : factor;
}

/* The 18-bit number of the step with the scale mixed in. Scales with one mantissa never collide. */
BODY double plait_call_of(const struct plait_cuda_optim *a)
{
    uint64_t h;

    if (a->scale == NULL)
        return a->call;
    memcpy(&h, &a->scale->scale, sizeof h);
    h ^= h >> 18 ^ h >> 36 ^ h >> 54;
    return (double)(((uint32_t)a->call ^ (uint32_t)h) & 0x3ffff);
}

BODY bool plait_has_trust(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return a->lars != 0 && (p->flags & PLAIT_OPTIM_NO_TRUST) == 0;
}

BODY double plait_decay_of(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return (p->flags & PLAIT_OPTIM_NO_DECAY) != 0 ? 0 : a->decay * plait_step_of(a).decay;
}

/* ---- The first pass --------------------------------------------------------------------------------------- */

BODY uint32_t plait_optim_squares_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    return plait_piece_phases(a->npiece, at);
}

/* Squares of one lane's share of a piece. */
BODY double plait_squares_by(uint32_t type, const char *from, uint32_t count, uint32_t lane, uint32_t least)
{
    const uint32_t size = plait_size_of(type);
    double sum = 0;

    for (uint32_t i = 0; i < count; i += PLAIT_ROW * PLAIT_CUDA_WARP) {
        const struct plait_row r = { lane, plait_shift_of(least), least, count - i, false };
        uint32_t word[PLAIT_ROW] = { 0 };
        float v[PLAIT_ROW];
        plait_row_get(word, from + (uint64_t)i * size, size, &r, PLAIT_ROW);
        plait_widen(v, type, word, &r, PLAIT_ROW);
        sum = plait_row_squares(sum, v);
    }
    return sum;
}

BODY double plait_squares_of(uint32_t type, const void *array, const struct plait_cuda_piece *p, uint32_t lane)
{
    const char *from = (const char *)array + p->start * plait_size_of(type);

#define SQUARES(least) plait_squares_by(type, from, p->count, lane, least)
    return PLAIT_BY_SIZE(plait_size_of(type), SQUARES);
#undef SQUARES
}

/* Gradients of any type, then masters. */
BODY void plait_optim_squares_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                   double *shared)
{
    const uint32_t piece = plait_piece_of(phase, at);

    if (piece >= a->npiece)
        return;
    const struct plait_cuda_piece p = a->pieces[piece];
    const struct plait_cuda_part *part = &a->parts[p.of];
    const bool trust = plait_has_trust(a, part);
    double g = trust || a->check != 0 ? plait_squares_of(part->type, part->gradient, &p, plait_lane(at)) : 0;
    double w = trust ? plait_squares_of(PLAIT_FLOAT32, part->master, &p, plait_lane(at)) : 0;

    if (plait_warp_sum(&g, at, shared))
        a->gradient_squares[piece] = g;
    if (plait_warp_sum(&w, at, shared + PLAIT_CUDA_THREADS))
        a->weight_squares[piece] = w;
}

/* ---- The second pass -------------------------------------------------------------------------------------- */

/* One block. A warp sums a tensor's pieces: gradients' and weights'. */
enum { PLAIT_LANES = PLAIT_CUDA_WARP, PLAIT_TENSORS = PLAIT_CUDA_THREADS_TRUST / PLAIT_LANES };
/* Then for the verdict: every thread sums its share, every LANES-th one those of LANES threads, the first one all. */
enum { PLAIT_OWN, PLAIT_LANES_OWN, PLAIT_ALL, PLAIT_ADD_PHASES };
/* At the end every thread makes updates, then the first one concludes. */
enum { PLAIT_UPDATES, PLAIT_CONCLUSION, PLAIT_JUDGE_PHASES };

/* Phases, one for each row of tensors. */
BODY uint32_t plait_trust_rounds(const struct plait_cuda_optim *a)
{
    return (a->what & PLAIT_CUDA_ADD) != 0 ? (a->ntensor + PLAIT_TENSORS - 1) / PLAIT_TENSORS : 0;
}

BODY uint32_t plait_optim_trust_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    (void)at;
    return plait_trust_rounds(a) + PLAIT_ADD_PHASES + PLAIT_JUDGE_PHASES;
}

BODY double plait_lane_sum(const double *squares, uint32_t n, uint32_t lane)
{
    double sum = 0;

    UNROLL_BY for (uint32_t i = lane; i < n; i += PLAIT_LANES) sum += squares[i];
    return sum;
}

BODY void plait_trust_round(const struct plait_cuda_optim *a, uint32_t round, const struct plait_where *at,
                            double *shared)
{
    const uint32_t tensor = round * PLAIT_TENSORS + at->thread / PLAIT_LANES, lane = plait_lane(at);

    if (tensor >= a->ntensor)
        return;
    const struct plait_cuda_range range = a->ranges[tensor];
    const uint32_t flags = range.count > 0 ? a->parts[a->pieces[range.first].of].flags : 0;
    const bool trust = a->lars != 0 && (flags & PLAIT_OPTIM_NO_TRUST) == 0;
    double g = plait_lane_sum(a->gradient_squares + range.first, trust || a->check != 0 ? range.count : 0, lane);
    double w = plait_lane_sum(a->weight_squares + range.first, trust ? range.count : 0, lane);

    if (plait_warp_sum(&g, at, shared))
        a->sums[PLAIT_CUDA_NORMS + a->ntensor + tensor] = g;
    if (plait_warp_sum(&w, at, shared + PLAIT_CUDA_THREADS_TRUST))
        a->sums[PLAIT_CUDA_NORMS + tensor] = w;
}

/* shared[0] = the sum of every thread's `own`, in three phases. */
BODY void plait_add_all(uint32_t step, uint32_t thread, double own, double *shared)
{
    const uint32_t each = step == PLAIT_ALL ? PLAIT_TENSORS : PLAIT_LANES;
    const uint32_t apart = step == PLAIT_ALL ? PLAIT_LANES : 1;

    if (step == PLAIT_OWN)
        shared[thread] = own;
    else if (thread == 0 || (step == PLAIT_LANES_OWN && thread % PLAIT_LANES == 0))
        for (uint32_t i = 1; i < each; i++)
            shared[thread] += shared[thread + i * apart];
}

/* Like trust() of lib/optim/optim.c. */
BODY double plait_trust_of(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    if (!plait_has_trust(a, p))
        return 1;
    const double w = sqrt(a->sums[PLAIT_CUDA_NORMS + p->tensor]);
    const double g = sqrt(a->sums[PLAIT_CUDA_NORMS + a->ntensor + p->tensor]) * plait_factor_of(a);
    const double decay = a->norm_decay < 0 ? plait_decay_of(a, p) : a->norm_decay;
    return w > 0 && g > 0 ? a->eta * w / (g + decay * w + a->eps) : 1;
}

/* As lib/optim/optim.c's. */
BODY float plait_as_factor(double x)
{
    const float most = 3.40282346638528859812e38F;

    return x < (double)most ? (float)x : most;
}

BODY void plait_make_updates(const struct plait_cuda_optim *a, uint32_t thread)
{
    const double lr = plait_step_of(a).lr, factor = plait_factor_of(a);

    for (uint32_t k = thread; k < a->npart; k += PLAIT_CUDA_THREADS_TRUST) {
        const double inside = plait_trust_of(a, &a->parts[k]) * (a->lr_in_momentum != 0 ? lr : 1);
        a->updates[k].gradient = plait_as_factor(inside * factor);
        a->updates[k].decay = plait_as_factor(inside * plait_decay_of(a, &a->parts[k]));
    }
}

BODY void plait_add_verdict(const struct plait_cuda_optim *a, uint32_t step, uint32_t thread, double *shared)
{
    const double *from = a->sums + PLAIT_CUDA_NORMS + a->ntensor, call = plait_call_of(a);
    const uint32_t n = step == PLAIT_OWN ? a->ntensor : 0;
    double own = 0;

    UNROLL_BY for (uint32_t i = thread; i < n; i += PLAIT_CUDA_THREADS_TRUST) own += from[i];
    plait_add_all(step, thread, own, shared);
    if (step != PLAIT_ALL || thread != 0)
        return;
    a->sums[PLAIT_CUDA_VERDICT] = shared[0];
    a->sums[PLAIT_CUDA_CALL] = call;
    a->sums[PLAIT_CUDA_CALL_SQUARE] = call * call;
}

/* Are all ranks at the same step? As in lib/optim/optim.c: if one is not, no rank finds its own number. */
BODY bool plait_is_alike(const struct plait_cuda_optim *a)
{
    const double call = plait_call_of(a);

    return a->sums[PLAIT_CUDA_CALL] == a->nrank * call && a->sums[PLAIT_CUDA_CALL_SQUARE] == a->nrank * (call * call);
}

/* One thread does this last, when no other reads the scale. A scale that is 0, negative or a NaN skips the step. */
BODY void plait_conclude(const struct plait_cuda_optim *a)
{
    const double largest = 3.40282346638528859812e38; /* float32 */
    const double norm = sqrt(a->sums[PLAIT_CUDA_VERDICT]) * plait_factor_of(a);
    const bool scaled = a->scale == NULL || a->scale->scale > 0;
    const bool alike = plait_is_alike(a), finite = scaled && norm <= largest;

    a->result->finite = alike && finite ? 1 : 0;
    a->result->ndiffer += alike ? 0 : 1;
    a->result->norm = norm;
    if (a->scale != NULL && alike)
        plait_optim_rescale(a->scale, finite);
}

BODY void plait_optim_trust_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                 double *shared)
{
    const uint32_t rounds = plait_trust_rounds(a);

    if (phase < rounds)
        plait_trust_round(a, phase, at, shared);
    else if (phase < rounds + PLAIT_ADD_PHASES && (a->what & PLAIT_CUDA_ADD) != 0)
        plait_add_verdict(a, phase - rounds, at->thread, shared);
    else if (phase == rounds + PLAIT_ADD_PHASES + PLAIT_UPDATES && (a->what & PLAIT_CUDA_TRUST) != 0)
        plait_make_updates(a, at->thread);
    else if (phase > rounds + PLAIT_ADD_PHASES && (a->what & PLAIT_CUDA_TRUST) != 0 && at->thread == 0)
        plait_conclude(a);
}

/* ---- The third pass --------------------------------------------------------------------------------------- */

enum { PLAIT_UPDATED = 8 }; /* elements of a lane in flight, of three arrays */

BODY uint32_t plait_optim_update_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    return a->result->finite != 0 ? plait_piece_phases(a->npiece, at) : 0;
}

struct plait_rates { /* of a part */
    struct plait_cuda_update u;
    float momentum, rate;
    bool nesterov;
};

BODY struct plait_rates plait_rates_of(const struct plait_cuda_optim *a, uint32_t part)
{
    const struct plait_rates r = { a->updates[part], (float)a->momentum,
                                   a->lr_in_momentum != 0 ? 1 : (float)plait_step_of(a).lr, a->nesterov != 0 };

    return r;
}

/* Like update() of lib/reduce/set.h. */
BODY void plait_update_one(float *w, float *v, float g, const struct plait_rates *r)
{
    const float d = r->u.gradient * g + r->u.decay * *w;

    *v = r->momentum * *v + d;
    *w -= r->rate * (r->nesterov ? r->momentum * *v + d : *v);
}

BODY void plait_update_row(const struct plait_cuda_part *p, const struct plait_rates *rates, uint64_t i,
                           const struct plait_row *r)
{
    const uint32_t size = plait_size_of(p->type), copy_size = plait_size_of(p->copy_type);
    char *master = (char *)(p->master + i), *momentum = (char *)(p->momentum + i);
    uint32_t gs[PLAIT_UPDATED] = { 0 }, ws[PLAIT_UPDATED] = { 0 }, vs[PLAIT_UPDATED] = { 0 };
    float g[PLAIT_UPDATED], w[PLAIT_UPDATED], v[PLAIT_UPDATED];

    plait_row_get(gs, (const char *)p->gradient + i * size, size, r, PLAIT_UPDATED);
    plait_row_get(ws, master, 4, r, PLAIT_UPDATED);
    plait_row_get(vs, momentum, 4, r, PLAIT_UPDATED);
    plait_widen(g, p->type, gs, r, PLAIT_UPDATED);
    plait_widen(w, PLAIT_FLOAT32, ws, r, PLAIT_UPDATED);
    plait_widen(v, PLAIT_FLOAT32, vs, r, PLAIT_UPDATED);
    UNROLL for (uint32_t k = 0; k < PLAIT_UPDATED; k++) plait_update_one(&w[k], &v[k], g[k], rates);
    plait_narrow(ws, PLAIT_FLOAT32, w, r, PLAIT_UPDATED);
    plait_narrow(vs, PLAIT_FLOAT32, v, r, PLAIT_UPDATED);
    plait_row_put(master, ws, 4, r, PLAIT_UPDATED);
    plait_row_put(momentum, vs, 4, r, PLAIT_UPDATED);
    if (p->copy == NULL)
        return;
    UNROLL for (uint32_t k = 0; k < PLAIT_UPDATED; k++) w[k] = p->copy_type != PLAIT_FLOAT32 ? clean_f32(w[k]) : w[k];
    plait_narrow(gs, p->copy_type, w, r, PLAIT_UPDATED);
    plait_row_put((char *)p->copy + i * copy_size, gs, copy_size, r, PLAIT_UPDATED);
}

/* Are all arrays of the row accessed by lines? */
BODY bool plait_update_is_wide(const struct plait_cuda_part *p, uint64_t i, const struct plait_row *r)
{
    return plait_row_is_wide(r, (const char *)p->gradient + i * plait_size_of(p->type), PLAIT_UPDATED) &&
           plait_row_is_wide(r, p->master + i, PLAIT_UPDATED) && plait_row_is_wide(r, p->momentum + i, PLAIT_UPDATED) &&
           (p->copy == NULL || plait_row_is_wide(r, (char *)p->copy + i * plait_size_of(p->copy_type), PLAIT_UPDATED));
}

/* The loads have no branch between them if all accesses are lines. */
BODY void plait_update_rows(const struct plait_cuda_part *p, const struct plait_rates *rates,
                            const struct plait_cuda_piece *piece, uint32_t lane, uint32_t least)
{
    for (uint32_t i = 0; i < piece->count; i += PLAIT_UPDATED * PLAIT_CUDA_WARP) {
        struct plait_row r = { lane, least == 4 ? 2U : 3U, least, piece->count - i, false };
        if (plait_update_is_wide(p, piece->start + i, &r)) {
            r.wide = true;
            plait_update_row(p, rates, piece->start + i, &r);
        } else {
            plait_update_row(p, rates, piece->start + i, &r);
        }
    }
}

/* Is all of a part float32? */
BODY bool plait_is_single(const struct plait_cuda_part *p)
{
    return p->type == PLAIT_FLOAT32 && (p->copy == NULL || p->copy_type == PLAIT_FLOAT32);
}

BODY void plait_optim_update_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                  double *shared)
{
    const uint32_t k = plait_piece_of(phase, at);

    (void)shared;
    if (k >= a->npiece)
        return;
    const struct plait_cuda_piece piece = a->pieces[k];
    const struct plait_cuda_part p = a->parts[piece.of];
    const struct plait_rates rates = plait_rates_of(a, piece.of);

    if (plait_is_single(&p))
        plait_update_rows(&p, &rates, &piece, plait_lane(at), 4);
    else
        plait_update_rows(&p, &rates, &piece, plait_lane(at), 1);
}

#endif
