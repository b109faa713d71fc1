/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PLAIT_LAYOUT_COMPUTED: the first steps are measured, and buckets are computed from them.
 *
 * A layout is kept for one step that is not counted, and for COUNTED that are. Then rank 0 computes the next layout,
 * and all ranks lay out their buckets anew. The last of LAYOUTS computed layouts stays. Its first steps are measured,
 * too, to report what they expose.
 */
#include "fusion.h"

#include "base/clock.h"
#include "base/status.h"
#include "cut.h"

#include <plait/coll.h>

#include <math.h>
#include <stdlib.h>

enum { COUNTED = 3, STEPS = 1 + COUNTED, LAYOUTS = 2 };
#define LATENCY 65536.0 /* bytes that take about as long as none: below, times differ by chance rather than by bytes */

/*
 * Sums of the measured buckets of all layouts, for the line latency + bytes * rate: least squares, weighted such that
 * errors count as parts of the time.
 */
struct fit {
    double w, wx, wxx, wt, wxt;
};

struct next { /* layout: what rank 0 tells the others */
    double predicted;
    uint32_t ncut;
    uint32_t cuts[]; /* [ntensor] */
};

struct plait_computed {
    bool measuring;
    uint32_t base;         /* rounds that had ended when the layout began */
    _Atomic double origin; /* plait_clock() at the end of the step before: times count from it */
    double *times;         /* of the counted steps */
    struct next *next;
    size_t next_bytes;
    struct fit fit;
    struct plait_fusion_computed report;
};

/* ---- Measuring --------------------------------------------------------------------------------------------- */

/* The first rounds of a layout are its steps, from 0. */
static uint32_t step_of(const struct plait_computed *c, uint32_t round)
{
    return round - c->base - 1;
}

bool plait_computed_allows(const struct plait_fusion *f, uint32_t round)
{
    const struct plait_computed *c = f->computed;

    return c == NULL || c->report.computed == LAYOUTS || step_of(c, round) < STEPS;
}

/* Times of a counted step, from the end of the step before: of ready tensors, then begin and end of each bucket. */
static size_t size_of_step(const struct plait_fusion *f)
{
    return f->ntensor + 2 * (size_t)f->flat.nbucket;
}

static double *times_of(const struct plait_fusion *f, uint32_t counted)
{
    return f->computed->times + counted * size_of_step(f);
}

/* The clock shows time `i` of a round. */
static void note(const struct plait_fusion *f, uint32_t round, size_t i, double clock)
{
    const struct plait_computed *c = f->computed;
    const uint32_t step = step_of(c, round);

    if (step > 0 && step < STEPS)
        times_of(f, step - 1)[i] = clock - c->origin;
}

void plait_computed_ready(struct plait_fusion *f, uint32_t tensor, uint32_t round)
{
    if (f->computed != NULL && f->computed->measuring)
        note(f, round, tensor, plait_clock());
}

void plait_computed_bucket(struct plait_fusion *f, uint32_t bucket, uint32_t round, bool ends)
{
    if (f->computed == NULL || !f->computed->measuring)
        return;
    const double now = plait_clock();
    note(f, round, f->ntensor + 2 * (size_t)bucket + ends, now);
    if (ends && bucket == f->flat.nbucket - 1)
        f->computed->origin = now;
}

/* ---- Of three counted steps -------------------------------------------------------------------------------- */

_Static_assert(COUNTED == 3, "median() is of three");
static double median(const double *x)
{
    return fmax(fmin(x[0], x[1]), fmin(fmax(x[0], x[1]), x[2]));
}

static double largest(const double *x, uint32_t n)
{
    double most = x[0];

    for (uint32_t i = 1; i < n; i++)
        most = fmax(most, x[i]);
    return most;
}

/* How long the last bucket of a step ended after the last gradient was ready. */
static double exposed(const struct plait_fusion *f)
{
    double x[COUNTED];

    for (uint32_t s = 0; s < COUNTED; s++)
        x[s] = times_of(f, s)[size_of_step(f) - 1] - largest(times_of(f, s), f->ntensor);
    return median(x);
}

/* ---- The time of bytes ------------------------------------------------------------------------------------- */

/* Of a tensor, as it travels. */
static size_t bytes_of(const struct plait_fusion *f, uint32_t tensor)
{
    const enum plait_dtype type = f->flat.buckets[f->flat.places[tensor].bucket].type;
    const size_t bytes = f->tensors[tensor].count * plait_dtype_size(type);

    return (bytes + PLAIT_FUSION_ALIGN - 1) / PLAIT_FUSION_ALIGN * PLAIT_FUSION_ALIGN;
}

/*
 * A bucket takes the time from when it has begun on all ranks, and the one before has ended on all, to its end. Means:
 * what disturbs a bucket now and then is a part of its price.
 */
static void add_buckets(struct plait_fusion *f)
{
    struct fit *fit = &f->computed->fit;

    for (uint32_t k = 0; k < f->flat.nbucket; k++) {
        const struct plait_slab *slab = &f->flat.buckets[k];
        const double x = (double)(slab->count * plait_dtype_size(slab->type)), w = 1 / ((x + LATENCY) * (x + LATENCY));
        double time = 0;
        for (uint32_t s = 0; s < COUNTED; s++) {
            const double *of = times_of(f, s) + f->ntensor + 2 * (size_t)k; /* begin and end */
            const double begin = k > 0 ? fmax(of[0], of[-1]) : of[0];
            time += fmax(of[1] - begin, 1e-9) / COUNTED;
        }
        fit->w += w;
        fit->wx += w * x;
        fit->wxx += w * x * x;
        fit->wt += w * time;
        fit->wxt += w * x * time;
    }
}

struct prices {
    double latency, rate; /* s, s per byte */
    const double *bytes;  /* [ntensor + 1] of the tensors before */
};

static void fit(const struct fit *x, struct prices *out)
{
    const double det = x->w * x->wxx - x->wx * x->wx;

    out->rate = det > 1e-9 * x->w * x->wxx ? fmax((x->w * x->wxt - x->wx * x->wt) / det, 0) : 0;
    out->latency = (x->wt - out->rate * x->wx) / x->w;
    if (det <= 1e-9 * x->w * x->wxx || out->latency < 0) {
        out->latency = 0;
        out->rate = x->wxt / x->wxx;
    }
}

static double price(const void *prices, uint32_t first, uint32_t end)
{
    const struct prices *p = prices;

    return p->latency + (p->bytes[end] - p->bytes[first]) * p->rate;
}

/* ---- The layout -------------------------------------------------------------------------------------------- */

/* Each bucket has an eighth of what is left: many sizes, whose times say most about others. */
static void make_first_cuts(const struct plait_fusion *f)
{
    struct next *next = f->computed->next;
    size_t left = 0, bytes = 0;

    for (uint32_t t = 0; t < f->ntensor; t++)
        left += bytes_of(f, t);
    for (uint32_t t = 0; t + 1 < f->ntensor; t++) {
        bytes += bytes_of(f, t);
        if (bytes >= left / 8) {
            next->cuts[next->ncut++] = t + 1;
            left -= bytes;
            bytes = 0;
        }
    }
}

/* When each tensor is ready on the slowest rank: medians of the steps, from the first tensor of each. */
static void find_ready(const struct plait_fusion *f, double *ready)
{
    double first[COUNTED], x[COUNTED];

    for (uint32_t s = 0; s < COUNTED; s++) {
        first[s] = times_of(f, s)[0];
        for (uint32_t t = 1; t < f->ntensor; t++)
            first[s] = fmin(first[s], times_of(f, s)[t]);
    }
    for (uint32_t t = 0; t < f->ntensor; t++) {
        for (uint32_t s = 0; s < COUNTED; s++)
            x[s] = times_of(f, s)[t] - first[s];
        ready[t] = median(x);
    }
}

/* Rank 0, from the maxima over the ranks: the next cuts, and the exposed time that is predicted. */
static enum plait_status compute(struct plait_fusion *f)
{
    struct next *next = f->computed->next;
    const size_t n = (size_t)f->ntensor + 1;
    double *x = calloc(2 * n, sizeof *x), end;

    if (x == NULL)
        return plait_fail_memory("out of memory for the layout of %u tensors", f->ntensor);
    double *bytes = x + n;
    struct prices p = { .bytes = bytes };
    const struct plait_timeline t = { f->ntensor, x, price, &p };
    find_ready(f, x);
    for (uint32_t k = 0; k < f->ntensor; k++)
        bytes[k + 1] = bytes[k] + (double)bytes_of(f, k);
    add_buckets(f);
    fit(&f->computed->fit, &p);
    const enum plait_status status = plait_cut(&t, next->cuts, &next->ncut, &end);
    if (status == PLAIT_OK)
        next->predicted = end - largest(x, f->ntensor);
    free(x);
    return status;
}

static enum plait_status lay_out(struct plait_fusion *f, uint32_t round)
{
    const struct next *next = f->computed->next;
    const struct plait_layout l = { .rule = PLAIT_LAYOUT_CUTS, .cuts = next->cuts, .ncut = next->ncut };

    return plait_fusion_change_layout(f, &l, round);
}

/* Rank 0 computes for all. A rank that fails by itself fails the comm. Until this returns, no round begins. */
static enum plait_status change(struct plait_fusion *f)
{
    struct plait_computed *c = f->computed;
    enum plait_status status =
        plait_reduce(f->comm, c->times, c->times, COUNTED * size_of_step(f), PLAIT_FLOAT64, PLAIT_MAX, 0, NULL);

    if (status == PLAIT_OK && f->rank == 0)
        status = plait_object_fail(f->comm, compute(f));
    if (status == PLAIT_OK)
        status = plait_broadcast(f->comm, c->next, c->next, c->next_bytes, PLAIT_UINT8, 0, NULL);
    if (status == PLAIT_OK)
        status = plait_object_fail(f->comm, lay_out(f, c->base + STEPS));
    if (status != PLAIT_OK)
        return status;
    c->base += STEPS;
    c->report = (struct plait_fusion_computed){ c->report.computed + 1, c->next->predicted, 0, c->report.first };
    return PLAIT_OK;
}

enum plait_status plait_computed_step(struct plait_fusion *f)
{
    struct plait_computed *c = f->computed;

    if (c == NULL || !c->measuring || step_of(c, plait_bucket_ended(&f->buckets[f->flat.nbucket - 1])) != STEPS - 1)
        return PLAIT_OK;
    c->report.seen = exposed(f);
    if (c->report.computed == 0)
        c->report.first = c->report.seen;
    if (c->report.computed == LAYOUTS) {
        c->measuring = false;
        return PLAIT_OK;
    }
    const enum plait_status status = plait_object_ungrouped("plait_fusion_wait_all");
    return status == PLAIT_OK ? change(f) : status;
}

/* ---- Life -------------------------------------------------------------------------------------------------- */

enum plait_status plait_computed_create(struct plait_fusion *f)
{
    const size_t n = f->ntensor, bytes = sizeof(struct next) + n * sizeof(uint32_t);
    struct plait_computed *c = f->computed = calloc(1, sizeof *c);

    if (c == NULL || (c->times = calloc(COUNTED * 3 * n, sizeof *c->times)) == NULL ||
        (c->next = calloc(1, bytes)) == NULL)
        return plait_fail_memory("out of memory for the times of %zu tensors", n);
    c->next_bytes = bytes;
    c->measuring = true;
    make_first_cuts(f);
    return lay_out(f, 0);
}

void plait_computed_destroy(struct plait_computed *c)
{
    if (c == NULL)
        return;
    free(c->times);
    free(c->next);
    free(c);
}

enum plait_status plait_fusion_computed(struct plait_fusion *f, struct plait_fusion_computed *out)
{
    if (f == NULL || out == NULL || f->computed == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_fusion_computed: %s",
                          f == NULL     ? "fusion is NULL"
                          : out == NULL ? "out is NULL"
                                        : "the fusion's layout is not PLAIT_LAYOUT_COMPUTED");
    *out = f->computed->report;
    return PLAIT_OK;
}
