/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser's three passes, like lib/optim/optim.c. */
#ifndef PLAIT_CUDA_OPTIM_BODY_H
#define PLAIT_CUDA_OPTIM_BODY_H

#include "fuse_body.h"

#include <plait/optim.h>

BODY struct plait_cuda_step plait_step_of(const struct plait_cuda_optim *a)
{
    return a->late != NULL ? *a->late : a->step;
}

BODY bool plait_has_trust(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return a->lars != 0 && (p->flags & PLAIT_OPTIM_NO_TRUST) == 0;
}

BODY double plait_decay_of(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return (p->flags & PLAIT_OPTIM_NO_DECAY) != 0 ? 0 : a->decay * plait_step_of(a).decay;
}

BODY struct plait_optim_rule plait_rule_of(const struct plait_cuda_optim *a)
{
    const struct plait_cuda_step step = plait_step_of(a);
    const struct plait_optim_rule rule = { a->momentum, a->decay * step.decay, step.lr, a->nesterov != 0,
                                           a->lr_in_momentum != 0 };

    return rule;
}

/* The same, until the sums are complete. */
BODY bool plait_looks(const struct plait_cuda_optim *a)
{
    return a->look != 0 || plait_optim_must_look(*a->bounds, plait_rule_of(a));
}

/* ---- The first pass --------------------------------------------------------------------------------------- */

enum { PLAIT_GRADIENTS, PLAIT_WEIGHTS, PLAIT_MOMENTA };

BODY uint32_t plait_optim_squares_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    return (plait_looks(a) ? 3 : 2) * plait_piece_phases(a->npiece, at);
}

/* Squares of one thread's share of a piece. */
BODY double plait_squares_of(uint32_t type, const void *array, const struct plait_cuda_piece *p,
                             const struct plait_where *at)
{
    double sum = 0;

    for (uint32_t i = at->thread * PLAIT_EIGHT; i < p->count; i += at->nthread * PLAIT_EIGHT) {
        const uint32_t n = p->count - i < PLAIT_EIGHT ? p->count - i : (uint32_t)PLAIT_EIGHT;
        float v[PLAIT_EIGHT] = { 0 };

        plait_eight_get(v, type, array, p->start + i, n);
        for (uint32_t k = 0; k < PLAIT_EIGHT; k++)
            sum += plait_square((double)v[k]);
    }
    return sum;
}

BODY double plait_part_squares(const struct plait_cuda_optim *a, uint32_t which, const struct plait_cuda_piece *p,
                               const struct plait_where *at)
{
    const struct plait_cuda_part *part = &a->parts[p->of];

    if (!plait_has_trust(a, part) && !(which == PLAIT_GRADIENTS ? a->check != 0 : plait_looks(a)))
        return 0;
    return which == PLAIT_GRADIENTS
               ? plait_squares_of(part->type, part->gradient, p, at)
               : plait_squares_of(PLAIT_FLOAT32, which == PLAIT_WEIGHTS ? part->master : part->momentum, p, at);
}

/* First the gradients of all pieces of a block, then the weights, then the momenta. */
BODY void plait_optim_squares_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                   double *shared)
{
    const uint32_t each = plait_piece_phases(a->npiece, at), which = phase / each;
    const uint32_t piece = plait_piece_of(phase % each, at), step = phase % PLAIT_PIECE_PHASES;
    double *const sums[] = { a->gradient_squares, a->weight_squares, a->momentum_squares };

    if (piece >= a->npiece || (which == PLAIT_GRADIENTS && a->known != 0))
        return;
    if (step == 0) {
        const struct plait_cuda_piece p = a->pieces[piece];
        shared[at->thread] = plait_part_squares(a, which, &p, at);
    } else if (step <= PLAIT_HALVES) {
        plait_halve(shared, step, at);
    } else if (at->thread == 0) {
        sums[which][piece] = shared[0];
    }
}

/* ---- The second pass -------------------------------------------------------------------------------------- */

/* One block. LANES threads sum a tensor's pieces, and the first of them adds up; gradients, then weights. */
enum { PLAIT_LANES = 16, PLAIT_TENSORS = PLAIT_CUDA_THREADS_TRUST / PLAIT_LANES, PLAIT_ROUND_PHASES = 4 };
/*
 * Then for each sum: every thread sums its share, every LANES-th thread those of LANES threads, the first thread all.
 */
enum { PLAIT_OWN, PLAIT_LANES_OWN, PLAIT_ALL, PLAIT_ADD_PHASES };
/* VERDICT, WEIGHTS and MOMENTA. */
enum { PLAIT_VERDICT_PHASES = 3 * PLAIT_ADD_PHASES };

BODY uint32_t plait_trust_rounds(const struct plait_cuda_optim *a)
{
    return (a->what & PLAIT_CUDA_ADD) != 0 ? (a->ntensor + PLAIT_TENSORS - 1) / PLAIT_TENSORS : 0;
}

BODY uint32_t plait_optim_trust_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    (void)at;
    return plait_trust_rounds(a) * PLAIT_ROUND_PHASES + PLAIT_VERDICT_PHASES + PLAIT_ADD_PHASES;
}

/* Are the squares of the tensor's gradients (or weights) needed? */
BODY bool plait_is_wanted(const struct plait_cuda_optim *a, struct plait_cuda_range range, bool weights)
{
    return range.count > 0 && (plait_has_trust(a, &a->parts[a->pieces[range.first].of]) || (!weights && a->check != 0));
}

BODY void plait_trust_round(const struct plait_cuda_optim *a, uint32_t round, uint32_t step, uint32_t thread,
                            double *shared)
{
    const uint32_t tensor = round * PLAIT_TENSORS + thread / PLAIT_LANES, lane = thread % PLAIT_LANES;
    const bool weights = step >= 2;
    const double *squares = weights ? a->weight_squares : a->gradient_squares;
    double sum = 0;

    if (tensor >= a->ntensor)
        return;
    if (step % 2 == 0) {
        const struct plait_cuda_range range = a->ranges[tensor];
        const bool wanted = plait_is_wanted(a, range, weights);
        for (uint32_t i = lane; wanted && i < range.count; i += PLAIT_LANES)
            sum += squares[range.first + i];
        shared[thread] = sum;
    } else if (lane == 0) {
        const struct plait_cuda_range range = a->ranges[tensor];
        for (uint32_t i = 0; i < PLAIT_LANES; i++)
            sum += shared[thread + i];
        if (weights && range.count > 0 && (a->parts[a->pieces[range.first].of].flags & PLAIT_OPTIM_NO_DECAY) != 0)
            sum = -sum;
        a->sums[PLAIT_CUDA_NORMS + (weights ? 0 : a->ntensor) + tensor] = sum;
    }
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

/* Like trust_of() of lib/optim/optim.c. */
BODY double plait_trust(const struct plait_cuda_optim *a, double w, double g, double decay)
{
    return w > 0 && g > 0 ? a->eta * w / (g + (a->norm_decay < 0 ? decay : a->norm_decay) * w + a->eps) : 1;
}

/* The norm of a tensor's weights, and that of its gradients times the factor. */
BODY double plait_weights_of(const struct plait_cuda_optim *a, uint32_t tensor)
{
    const double square = a->sums[PLAIT_CUDA_NORMS + tensor];

    return sqrt(square < 0 ? -square : square);
}

BODY double plait_gradients_of(const struct plait_cuda_optim *a, uint32_t tensor)
{
    return sqrt(a->sums[PLAIT_CUDA_NORMS + a->ntensor + tensor]) * plait_step_of(a).factor;
}

BODY double plait_trust_of(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return !plait_has_trust(a, p)
               ? 1
               : plait_trust(a, plait_weights_of(a, p->tensor), plait_gradients_of(a, p->tensor), plait_decay_of(a, p));
}

/* As lib/optim/optim.c's. */
BODY float plait_as_factor(double x)
{
    const float most = 3.40282346638528859812e38F;

    return x < (double)most ? (float)x : most;
}

BODY void plait_make_updates(const struct plait_cuda_optim *a, uint32_t thread)
{
    const struct plait_cuda_step step = plait_step_of(a);

    for (uint32_t k = thread; k < a->npart; k += PLAIT_CUDA_THREADS_TRUST) {
        const double inside = plait_trust_of(a, &a->parts[k]) * (a->lr_in_momentum != 0 ? step.lr : 1);
        a->updates[k].gradient = plait_as_factor(inside * step.factor);
        a->updates[k].decay = plait_as_factor(inside * plait_decay_of(a, &a->parts[k]));
    }
}

/* Computed norms replace the bounds. This is done with the last sum, after which no thread calls plait_looks(). */
BODY void plait_add_bounds(const struct plait_cuda_optim *a, uint32_t which, double read)
{
    const double w = a->bounds->weights, v = a->bounds->momenta;

    if (which == PLAIT_WEIGHTS) {
        a->sums[PLAIT_CUDA_WEIGHTS] = plait_looks(a) ? read : read + w * w;
    } else if (plait_looks(a)) {
        a->sums[PLAIT_CUDA_MOMENTA] = read;
        a->bounds->weights = sqrt(a->sums[PLAIT_CUDA_WEIGHTS]);
        a->bounds->momenta = sqrt(read);
    } else {
        a->sums[PLAIT_CUDA_MOMENTA] = v * v;
    }
}

BODY void plait_add_verdict(const struct plait_cuda_optim *a, uint32_t phase, uint32_t thread, double *shared)
{
    const uint32_t which = phase / PLAIT_ADD_PHASES, step = phase % PLAIT_ADD_PHASES;
    const uint32_t n = which == PLAIT_GRADIENTS                                          ? a->ntensor
                       : which == PLAIT_WEIGHTS || (step == PLAIT_OWN && plait_looks(a)) ? a->npiece
                                                                                         : 0;
    const double *from = which == PLAIT_GRADIENTS ? a->sums + PLAIT_CUDA_NORMS + a->ntensor
                         : which == PLAIT_WEIGHTS ? a->weight_squares
                                                  : a->momentum_squares;
    double own = 0;

    for (uint32_t i = thread; step == PLAIT_OWN && i < n; i += PLAIT_CUDA_THREADS_TRUST)
        own += from[i];
    plait_add_all(step, thread, own, shared);
    if (step != PLAIT_ALL || thread != 0)
        return;
    if (which != PLAIT_GRADIENTS) {
        plait_add_bounds(a, which, shared[0]);
    } else {
        a->sums[PLAIT_CUDA_VERDICT] = shared[0];
        a->sums[PLAIT_CUDA_CALL] = a->call;
        a->sums[PLAIT_CUDA_CALL_SQUARE] = a->call * a->call;
    }
}

/* Are all ranks at the same step? As in lib/optim/optim.c: if one is not, no rank finds its own number. */
BODY bool plait_is_alike(const struct plait_cuda_optim *a)
{
    return a->sums[PLAIT_CUDA_CALL] == a->nrank * a->call &&
           a->sums[PLAIT_CUDA_CALL_SQUARE] == a->nrank * (a->call * a->call);
}

/* Like added_by() of lib/optim/optim.c, before lr: for all, and for a tensor. */
BODY double plait_added_by_all(const struct plait_cuda_optim *a)
{
    const struct plait_cuda_step step = plait_step_of(a);

    return sqrt(a->sums[PLAIT_CUDA_VERDICT]) * step.factor + a->decay * step.decay * sqrt(a->sums[PLAIT_CUDA_WEIGHTS]);
}

BODY double plait_added_by(const struct plait_cuda_optim *a, uint32_t tensor)
{
    const double w = plait_weights_of(a, tensor), g = plait_gradients_of(a, tensor);
    const double decay = a->sums[PLAIT_CUDA_NORMS + tensor] > 0 ? a->decay * plait_step_of(a).decay : 0;

    return w > 0 ? plait_trust(a, w, g, decay) * (g + decay * w) : 0;
}

/* Like is_finite() of lib/optim/optim.c. */
BODY bool plait_verdict(const struct plait_cuda_optim *a, double most)
{
    const struct plait_optim_rule rule = plait_rule_of(a);
    const struct plait_optim_bounds all = { sqrt(a->sums[PLAIT_CUDA_WEIGHTS]), sqrt(a->sums[PLAIT_CUDA_MOMENTA]) };
    const double added = most * (a->lr_in_momentum != 0 ? rule.lr : 1);

    if (!plait_is_alike(a) || !plait_optim_fits(plait_optim_after(all, rule, added)))
        return false;
    *a->bounds = plait_optim_after(*a->bounds, rule, added);
    return true;
}

BODY void plait_judge(const struct plait_cuda_optim *a, uint32_t step, uint32_t thread, double *shared)
{
    double own = step == PLAIT_OWN && thread == 0 ? plait_added_by_all(a) : 0;

    for (uint32_t t = thread; step == PLAIT_OWN && a->lars != 0 && t < a->ntensor; t += PLAIT_CUDA_THREADS_TRUST)
        own += plait_added_by(a, t);
    plait_add_all(step, thread, own, shared);
    if (step == PLAIT_OWN)
        plait_make_updates(a, thread);
    if (step == PLAIT_ALL && thread == 0) {
        a->result->finite = plait_verdict(a, shared[0]) ? 1 : 0;
        a->result->ndiffer += plait_is_alike(a) ? 0 : 1;
        a->result->norm = sqrt(a->sums[PLAIT_CUDA_VERDICT]) * plait_step_of(a).factor;
    }
}

BODY void plait_optim_trust_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                 double *shared)
{
    const uint32_t rounds = plait_trust_rounds(a) * PLAIT_ROUND_PHASES;

    if (phase < rounds)
        plait_trust_round(a, phase / PLAIT_ROUND_PHASES, phase % PLAIT_ROUND_PHASES, at->thread, shared);
    else if (phase < rounds + PLAIT_VERDICT_PHASES && (a->what & PLAIT_CUDA_ADD) != 0)
        plait_add_verdict(a, phase - rounds, at->thread, shared);
    else if (phase >= rounds + PLAIT_VERDICT_PHASES && (a->what & PLAIT_CUDA_TRUST) != 0)
        plait_judge(a, phase - rounds - PLAIT_VERDICT_PHASES, at->thread, shared);
}

/* ---- The third pass --------------------------------------------------------------------------------------- */

BODY uint32_t plait_optim_update_phases(const struct plait_cuda_optim *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

/* Like update() of lib/reduce/set.h. */
BODY void plait_update_one(float *w, float *v, float g, const struct plait_cuda_optim *a, struct plait_cuda_update u)
{
    const float momentum = (float)a->momentum, rate = a->lr_in_momentum != 0 ? 1 : (float)plait_step_of(a).lr;
    const float d = u.gradient * g + u.decay * *w;

    *v = momentum * *v + d;
    *w -= rate * (a->nesterov != 0 ? momentum * *v + d : *v);
}

BODY void plait_update_eight(const struct plait_cuda_optim *a, const struct plait_cuda_part *p, uint32_t part,
                             uint64_t i, uint32_t n)
{
    const struct plait_cuda_update u = a->updates[part];
    float g[PLAIT_EIGHT] = { 0 }, w[PLAIT_EIGHT] = { 0 }, v[PLAIT_EIGHT] = { 0 };

    plait_eight_get(g, p->type, p->gradient, i, n);
    plait_eight_get(w, PLAIT_FLOAT32, p->master, i, n);
    plait_eight_get(v, PLAIT_FLOAT32, p->momentum, i, n);
    UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++) if (k < n) plait_update_one(&w[k], &v[k], g[k], a, u);
    plait_eight_put(PLAIT_FLOAT32, p->master, i, n, w);
    plait_eight_put(PLAIT_FLOAT32, p->momentum, i, n, v);
    if (p->copy == NULL)
        return;
    UNROLL for (uint32_t k = 0; k < PLAIT_EIGHT; k++) if (k < n && p->copy_type != PLAIT_FLOAT32) w[k] =
        clean_f32(w[k]);
    plait_eight_put(p->copy_type, p->copy, i, n, w);
}

BODY void plait_optim_update_body(const struct plait_cuda_optim *a, uint32_t phase, const struct plait_where *at,
                                  double *shared)
{
    (void)phase, (void)shared;
    for (uint32_t k = at->block; k < a->npiece && a->result->finite != 0; k += at->nblock) {
        const struct plait_cuda_piece piece = a->pieces[k];
        const struct plait_cuda_part p = a->parts[piece.of];
        for (uint32_t i = at->thread * PLAIT_EIGHT; i < piece.count; i += at->nthread * PLAIT_EIGHT)
            plait_update_eight(a, &p, piece.of, piece.start + i,
                               piece.count - i < PLAIT_EIGHT ? piece.count - i : (uint32_t)PLAIT_EIGHT);
    }
}

#endif
