/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of training: its buckets' collectives, one after the other, beside the computation. */
#include "cut.h"
#include "forecast.h"

#include "base/status.h"
#include "fusion/fusion.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PS_PER_S  1000000000000ull
#define MOST_TIME ((uint64_t)1 << 63)

typedef unsigned __int128 wide;

enum plait_status plait_training_ready(const uint64_t *forward, const uint64_t *backward, uint32_t n, uint64_t rate,
                                       uint64_t *ready)
{
    wide flops = 0;

    if (rate == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_training_ready: rate is 0; it must be FLOPs per second");
    for (uint32_t t = 0; t < n; t++)
        flops += forward[t];
    for (uint32_t t = n; t-- > 0;) {
        flops += backward[t];
        if (flops > (wide)MOST_TIME * rate / PS_PER_S)
            return plait_fail(PLAIT_ERR_ARG,
                              "plait_training_ready: at %" PRIu64 " FLOPs per second the step takes "
                              "months; give a larger rate",
                              rate);
        ready[t] = (uint64_t)(flops * PS_PER_S / rate);
    }
    return PLAIT_OK;
}

/* out: another argument of the call that must not be NULL. */
static enum plait_status check(const char *call, const struct plait_forecast *f, const struct plait_training *t,
                               const char *name, const void *out)
{
    if (f == NULL || t == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL", call,
                          f == NULL   ? "forecast"
                          : t == NULL ? "training"
                                      : name);
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    o.tensors = t->tensors;
    o.ntensor = t->ntensor;
    o.layout = t->layout;
    o.payload = t->payload;
    if (plait_fusion_check_options(&o) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (t->ready == NULL || t->compute > MOST_TIME / 100)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s", call,
                          t->ready == NULL ? "ready is NULL" : "compute is above 2^63 / 100 ps");
    for (uint32_t i = 0; i < t->ntensor; i++)
        if (t->ready[i] > t->compute)
            return plait_fail(PLAIT_ERR_ARG,
                              "%s: tensor %" PRIu32 " is ready at %" PRIu64
                              " ps, after the computation's end at %" PRIu64,
                              call, i, t->ready[i], t->compute);
    return PLAIT_OK;
}

/* ---- The best cuts ---------------------------------------------------------------------------------------- */

#define SIZES 64

/* The time of a bucket at sizes that double, straight lines between. */
struct curve {
    uint32_t n;
    double bytes[SIZES], time[SIZES];
    const double *at; /* [ntensor + 1] bytes before each tensor */
};

static double time_on(const void *curve, uint32_t first, uint32_t end)
{
    const struct curve *c = curve;
    const double bytes = c->at[end] - c->at[first];
    uint32_t i = 1;

    while (i + 1 < c->n && c->bytes[i] < bytes)
        i++;
    return c->time[i - 1] + (bytes - c->bytes[i - 1]) * (c->time[i] - c->time[i - 1]) / (c->bytes[i] - c->bytes[i - 1]);
}

/* Every bucket has the first tensor's payload type here. More bytes never take less time. */
static enum plait_status draw(struct plait_forecast *f, enum plait_dtype type, double most, struct curve *out)
{
    const size_t size = plait_dtype_size(type);

    for (size_t bytes = PLAIT_FUSION_ALIGN; out->n < 2 || out->bytes[out->n - 1] < most; bytes *= 2) {
        struct plait_prediction p;
        const enum plait_status status = plait_forecast_fastest(f, type, bytes / size, NULL, &p);
        if (status != PLAIT_OK)
            return status;
        const double before = out->n > 0 ? out->time[out->n - 1] : 0, time = (double)p.time;
        out->bytes[out->n] = (double)bytes;
        out->time[out->n++] = time > before ? time : before;
    }
    return PLAIT_OK;
}

static enum plait_status find_cuts(struct plait_forecast *f, const struct plait_training *t, uint32_t *cuts,
                                   uint32_t *ncut)
{
    const uint32_t n = t->ntensor;
    double *ready = calloc(2 * (size_t)n + 1, sizeof *ready), *at = ready != NULL ? ready + n : NULL, end;
    const bool cast = t->payload != PLAIT_NDTYPE && t->tensors[0].type == PLAIT_FLOAT32;
    struct curve c = { .at = at };

    if (ready == NULL)
        return plait_fail_memory("out of memory for the step of %" PRIu32 " tensors", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct plait_tensor *x = &t->tensors[i];
        const size_t size =
            plait_dtype_size(t->payload != PLAIT_NDTYPE && x->type == PLAIT_FLOAT32 ? t->payload : x->type);
        ready[i] = (double)t->ready[i] * 100 / plait_forecast_slowest(f);
        at[i + 1] =
            at[i] + (double)((x->count * size + PLAIT_FUSION_ALIGN - 1) / PLAIT_FUSION_ALIGN) * PLAIT_FUSION_ALIGN;
    }
    const struct plait_timeline timeline = { n, ready, time_on, &c };
    enum plait_status status = draw(f, cast ? t->payload : t->tensors[0].type, at[n], &c);
    if (status == PLAIT_OK)
        status = plait_cut(&timeline, cuts, ncut, &end);
    free(ready);
    return status;
}

enum plait_status plait_forecast_cuts(struct plait_forecast *f, const struct plait_training *training, uint32_t *cuts,
                                      uint32_t *ncut)
{
    static const char call[] = "plait_forecast_cuts";
    struct plait_training t = training != NULL ? *training : (struct plait_training){ 0 };

    t.layout = (struct plait_layout){ .rule = PLAIT_LAYOUT_THRESHOLD };
    enum plait_status status = check(call, f, training != NULL ? &t : NULL, cuts == NULL ? "cuts" : "ncut",
                                     cuts == NULL ? (const void *)cuts : ncut);
    if (status == PLAIT_OK && t.ntensor > PLAIT_MOST_CUT_TENSORS)
        status = plait_fail(PLAIT_ERR_ARG, "%s: ntensor is %" PRIu32 "; cuts are found for at most %d tensors", call,
                            t.ntensor, PLAIT_MOST_CUT_TENSORS);
    return status == PLAIT_OK ? find_cuts(f, &t, cuts, ncut) : status;
}

/* ---- The step --------------------------------------------------------------------------------------------- */

/* A bucket is ready with its last gradient, on the slowest rank. */
static void find_ready(const struct plait_training *t, const struct plait_flat *flat, uint32_t percent,
                       struct plait_training_bucket *buckets)
{
    for (uint32_t k = 0; k < flat->nbucket; k++)
        buckets[k] =
            (struct plait_training_bucket){ .type = flat->buckets[k].type,
                                            .first = flat->buckets[k].first,
                                            .ntensor = flat->buckets[k].ntensor,
                                            .bytes = flat->buckets[k].count * plait_dtype_size(flat->buckets[k].type) };
    for (uint32_t i = 0; i < t->ntensor; i++) {
        struct plait_training_bucket *b = &buckets[flat->places[i].bucket];
        const uint64_t ready = t->ready[i] * 100 / percent;
        b->ready = ready > b->ready ? ready : b->ready;
    }
}

static enum plait_status run(struct plait_forecast *f, const struct plait_flat *flat,
                             struct plait_training_bucket *buckets, struct plait_step_time *out)
{
    uint64_t free = 0; /* when the collective before has ended */

    for (uint32_t k = 0; k < flat->nbucket; k++) {
        struct plait_training_bucket *b = &buckets[k];
        struct plait_prediction p;
        const char *algorithm;
        const enum plait_status status = plait_forecast_fastest(f, b->type, flat->buckets[k].count, &algorithm, &p);
        if (status != PLAIT_OK)
            return status;
        b->begin = b->ready > free ? b->ready : free;
        b->end = free = b->begin + p.time;
        snprintf(b->algorithm, sizeof b->algorithm, "%s", algorithm);
        out->communication += p.time;
        out->bytes += b->bytes;
    }
    out->nbucket = flat->nbucket;
    out->time = free > out->compute ? free : out->compute;
    out->exposed = out->time - out->compute;
    return PLAIT_OK;
}

enum plait_status plait_forecast_step(struct plait_forecast *f, const struct plait_training *t,
                                      struct plait_training_bucket *buckets, struct plait_step_time *out)
{
    enum plait_status status = check("plait_forecast_step", f, t, "out", out);
    struct plait_step_time step = { 0 };
    struct plait_flat flat = { 0 };

    if (status != PLAIT_OK)
        return status;
    struct plait_training_bucket *own = calloc(t->ntensor, sizeof *own);
    status = plait_flat_make(t->tensors, t->ntensor, &t->layout, t->payload, 1, &flat);
    if (status == PLAIT_OK && own == NULL)
        status = plait_fail_memory("out of memory for the step of %" PRIu32 " tensors", t->ntensor);
    if (status == PLAIT_OK) {
        const uint32_t percent = plait_forecast_slowest(f);
        step.compute = t->compute * 100 / percent;
        find_ready(t, &flat, percent, own);
        status = run(f, &flat, own, &step);
    }
    for (uint32_t k = 0; status == PLAIT_OK && buckets != NULL && k < step.nbucket; k++)
        buckets[k] = own[k];
    if (status == PLAIT_OK)
        *out = step;
    plait_flat_free(&flat);
    free(own);
    return status;
}
