/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss, as train/loss.c computes it. A block takes an image. */
#ifndef PLAIT_TRAIN_CUDA_LOSS_BODY_H
#define PLAIT_TRAIN_CUDA_LOSS_BODY_H

#include "body.h"

/* Rows of shared memory, each with a number of every thread. */
enum { TRAIN_LARGEST, TRAIN_EXPONENTIALS, TRAIN_LOGITS, TRAIN_BEFORE, TRAIN_NROW };
/*
 * For the largest logit, then for the sums: each thread's own, WARP threads add up some, one all. Then the result.
 */
enum { TRAIN_OWN, TRAIN_SOME_OF, TRAIN_ALL_OF, TRAIN_STEPS };
enum { TRAIN_SHARES = TRAIN_THREADS / PLAIT_CUDA_WARP, TRAIN_LOSS_PHASES = 2 * TRAIN_STEPS + 1 };

BODY double *train_row(union train_shared *shared, uint32_t row)
{
    return shared->d + row * TRAIN_STRIDE;
}

/* Does class c rank before the label? Of equal ones the first does. */
BODY bool train_is_before(const float *x, uint32_t c, uint32_t label)
{
    return c != label && !(x[c] < x[label]) && (c < label || x[c] != x[label]);
}

/* The first entry becomes the largest one, or the sum of all: by WARP threads, then by one. */
BODY void train_fold(double *row, uint32_t step, uint32_t thread, bool largest)
{
    const uint32_t apart = step == TRAIN_SOME_OF ? PLAIT_CUDA_WARP : 1;
    const uint32_t n = step == TRAIN_SOME_OF ? TRAIN_SHARES : PLAIT_CUDA_WARP;
    double all = row[thread];

    for (uint32_t i = 1; i < n; i++) {
        const double one = row[thread + i * apart];
        all = !largest ? all + one : one > all ? one : all;
    }
    row[thread] = all;
}

BODY void train_largest(const struct train_loss *a, const float *x, uint32_t step, uint32_t thread,
                        union train_shared *shared)
{
    double *row = train_row(shared, TRAIN_LARGEST);
    float most = x[0];

    if (step == TRAIN_OWN) {
        for (uint32_t c = thread; c < a->nclass; c += TRAIN_THREADS)
            most = x[c] > most ? x[c] : most;
        row[thread] = (double)most;
    } else if (thread < (step == TRAIN_SOME_OF ? PLAIT_CUDA_WARP : 1)) {
        train_fold(row, step, thread, true);
    }
}

BODY void train_loss_sum(const struct train_loss *a, const float *x, int32_t label, uint32_t step, uint32_t thread,
                         union train_shared *shared)
{
    const double most = train_row(shared, TRAIN_LARGEST)[0];
    double sum = 0, logits = 0, before = 0;

    if (step == TRAIN_OWN) {
        for (uint32_t c = thread; c < a->nclass; c += TRAIN_THREADS) {
            sum += exp((double)x[c] - most);
            logits += (double)x[c];
            before += train_is_before(x, c, (uint32_t)label) ? 1 : 0;
        }
        train_row(shared, TRAIN_EXPONENTIALS)[thread] = sum;
        train_row(shared, TRAIN_LOGITS)[thread] = logits;
        train_row(shared, TRAIN_BEFORE)[thread] = before;
    } else if (thread < (step == TRAIN_SOME_OF ? PLAIT_CUDA_WARP : 1)) {
        for (uint32_t row = TRAIN_EXPONENTIALS; row < TRAIN_NROW; row++)
            train_fold(train_row(shared, row), step, thread, false);
    }
}

/* The logarithm of the sum of exponentials, after the sums. */
BODY double train_log_sum(union train_shared *shared)
{
    return train_row(shared, TRAIN_LARGEST)[0] + log(train_row(shared, TRAIN_EXPONENTIALS)[0]);
}

/* The phases before the last one, of image k. */
BODY void train_loss_phase(const struct train_loss *a, uint32_t k, uint32_t phase, uint32_t thread,
                           union train_shared *shared)
{
    const float *x = a->logits + (uint64_t)k * a->nclass;

    if (phase < TRAIN_STEPS)
        train_largest(a, x, phase, thread, shared);
    else
        train_loss_sum(a, x, a->labels[k], phase - TRAIN_STEPS, thread, shared);
}

BODY struct train_loss_sums train_loss_of(const struct train_loss *a, uint32_t k, union train_shared *shared)
{
    const float *x = a->logits + (uint64_t)k * a->nclass;
    const double whole = train_log_sum(shared), before = train_row(shared, TRAIN_BEFORE)[0];
    const double all = a->nclass * whole - train_row(shared, TRAIN_LOGITS)[0];
    struct train_loss_sums s;

    s.loss = (1 - a->smoothing) * (whole - (double)x[a->labels[k]]) + a->smoothing * all / a->nclass;
    s.n = 1;
    s.top1 = before < 1 ? 1 : 0;
    s.top5 = before < 5 ? 1 : 0;
    return s;
}

BODY uint32_t train_loss_phases(const struct train_loss *a, const struct plait_where *at)
{
    return TRAIN_LOSS_PHASES * train_units(a->n, at);
}

BODY void train_loss_body(const struct train_loss *a, uint32_t phase, const struct plait_where *at,
                          union train_shared *shared)
{
    const uint32_t k = (uint32_t)train_unit(phase / TRAIN_LOSS_PHASES, at), step = phase % TRAIN_LOSS_PHASES;
    const struct train_loss_sums none = { 0, 0, 0, 0 };

    if (step < TRAIN_LOSS_PHASES - 1 && a->labels[k] >= 0)
        train_loss_phase(a, k, step, at->thread, shared);
    else if (step == TRAIN_LOSS_PHASES - 1 && at->thread == 0)
        a->images[k] = a->labels[k] < 0 ? none : train_loss_of(a, k, shared);
}

/* ---- Over the images ---- */

BODY uint32_t train_loss_total_phases(const struct train_loss *a, const struct plait_where *at)
{
    (void)a;
    return at->block == 0 ? TRAIN_STEPS : 0;
}

/* The rows: loss, n, top1, top5. Counts are exact in double. */
BODY void train_loss_total_body(const struct train_loss *a, uint32_t phase, const struct plait_where *at,
                                union train_shared *shared)
{
    double sums[TRAIN_NROW] = { 0 };

    for (uint32_t k = phase == TRAIN_OWN ? at->thread : a->n; k < a->n; k += TRAIN_THREADS) {
        sums[0] += a->images[k].loss;
        sums[1] += (double)a->images[k].n;
        sums[2] += (double)a->images[k].top1;
        sums[3] += (double)a->images[k].top5;
    }
    UNROLL for (uint32_t row = 0; row < TRAIN_NROW; row++)
    {
        if (phase == TRAIN_OWN)
            train_row(shared, row)[at->thread] = sums[row];
        else if (at->thread < (phase == TRAIN_SOME_OF ? PLAIT_CUDA_WARP : 1))
            train_fold(train_row(shared, row), phase, at->thread, false);
    }
    if (phase != TRAIN_ALL_OF || at->thread != 0)
        return;
    a->result->loss += train_row(shared, 0)[0];
    a->result->n += (uint64_t)train_row(shared, 1)[0];
    a->result->top1 += (uint64_t)train_row(shared, 2)[0];
    a->result->top5 += (uint64_t)train_row(shared, 3)[0];
}

/* ---- The backward pass ---- */

BODY uint32_t train_loss_back_phases(const struct train_loss *a, const struct plait_where *at)
{
    return TRAIN_LOSS_PHASES * train_units(a->n, at);
}

BODY void train_gradient_of(const struct train_loss *a, uint32_t k, uint32_t thread, union train_shared *shared)
{
    const double factor = a->factor * (a->late != NULL ? *a->late : 1);
    const float *x = a->logits + (uint64_t)k * a->nclass;
    float *to = a->gradient + (uint64_t)k * a->nclass;
    const int32_t label = a->labels[k];
    const double whole = label < 0 ? 0 : train_log_sum(shared);

    for (uint32_t c = thread; c < a->nclass; c += TRAIN_THREADS) {
        const double wanted = a->smoothing / a->nclass + (c == (uint32_t)label ? 1 - a->smoothing : 0);

        to[c] = label < 0 ? 0 : (float)(factor * (exp((double)x[c] - whole) - wanted));
    }
}

BODY void train_loss_back_body(const struct train_loss *a, uint32_t phase, const struct plait_where *at,
                               union train_shared *shared)
{
    const uint32_t k = (uint32_t)train_unit(phase / TRAIN_LOSS_PHASES, at), step = phase % TRAIN_LOSS_PHASES;

    if (step == TRAIN_LOSS_PHASES - 1)
        train_gradient_of(a, k, at->thread, shared);
    else if (a->labels[k] >= 0)
        train_loss_phase(a, k, step, at->thread, shared);
}

#endif
