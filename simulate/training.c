/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of training: its buckets' collectives, one after the other, beside the computation. */
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

static enum plait_status check(const struct plait_forecast *f, const struct plait_training *t,
                               const struct plait_step_time *out)
{
    if (f == NULL || t == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_step: %s is NULL",
                          f == NULL   ? "forecast"
                          : t == NULL ? "training"
                                      : "out");
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    o.tensors = t->tensors;
    o.ntensor = t->ntensor;
    o.layout = t->layout;
    o.payload = t->payload;
    if (plait_fusion_check_options(&o) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (t->ready == NULL || t->compute > MOST_TIME / 100)
        return plait_fail(PLAIT_ERR_ARG, "plait_forecast_step: %s",
                          t->ready == NULL ? "ready is NULL" : "compute is above 2^63 / 100 ps");
    for (uint32_t i = 0; i < t->ntensor; i++)
        if (t->ready[i] > t->compute)
            return plait_fail(PLAIT_ERR_ARG,
                              "plait_forecast_step: tensor %" PRIu32 " is ready at %" PRIu64
                              " ps, after the computation's end at %" PRIu64,
                              i, t->ready[i], t->compute);
    return PLAIT_OK;
}

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
    enum plait_status status = check(f, t, out);
    struct plait_step_time step = { 0 };
    struct plait_flat flat;

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
