/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step has three passes. The first sums the squares of every part, in pieces that stay in the L1 cache. The second
 * computes a few numbers for every tensor, after an all-reduce if the optimiser is sharded. The third updates every
 * part. One thread forms each sum, in the order of the parts. Nothing is written before the verdict, so a skipped step
 * changes nothing.
 */
#include "optim.h"

#include "base/bytes.h"
#include "base/config.h"
#include "base/hash.h"
#include "base/status.h"
#include "call/call.h"
#include "fusion/pass.h"

#include <plait/coll.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = PLAIT_PASS_PIECE };

/* ---- Create and destroy ----------------------------------------------------------------------------------- */

static enum plait_status find_kernels(struct plait_optim *o)
{
    struct plait_config config;

    if (o->options.comm != NULL) {
        o->kernels = o->options.comm->kernels;
        return PLAIT_OK;
    }
    const enum plait_status status = plait_config_load(&config);
    if (status != PLAIT_OK)
        return status;
    o->kernels = plait_kernels_find(config.isa);
    return o->kernels != NULL
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_CONFIG, "PLAIT_ISA is '%s', which this processor or build lacks", config.isa);
}

static enum plait_status take_sums(struct plait_optim *o, size_t weights)
{
    o->sums = calloc(o->nsum, sizeof *o->sums);
    o->momentum = aligned_alloc(PLAIT_LINE, PLAIT_ROUND_UP(weights * sizeof *o->momentum + 1));
    if (o->sums == NULL || o->momentum == NULL)
        return plait_fail_memory("out of memory for the momentum of %zu weights", weights);
    memset(o->momentum, 0, weights * sizeof *o->momentum);
    return PLAIT_OK;
}

static enum plait_status take_memory(struct plait_optim *o)
{
    const uint32_t n = o->options.npart;

    o->nsum = NORMS + (o->options.method == PLAIT_OPTIM_LARS ? 2 * (size_t)o->options.ntensor : 0);
    o->parts = calloc(n + 1, sizeof *o->parts);
    o->at = calloc(n + 1, sizeof *o->at);
    if (o->parts == NULL || o->at == NULL)
        return plait_fail_memory("out of memory for %u parts", n);
    for (uint32_t k = 0; k < n; k++) {
        o->parts[k] = o->options.parts[k];
        o->at[k + 1] = o->at[k] + PLAIT_ROUND_UP(o->parts[k].count * sizeof(float)) / sizeof(float);
    }
    o->options.parts = o->parts;
    return o->queue != NULL ? plait_optim_device_make(o, o->at[n]) : take_sums(o, o->at[n]);
}

/* After an error *out is the half-made optimiser, or NULL. */
static enum plait_status make(const struct plait_optim_options *options, struct plait_optim **out)
{
    enum plait_status status = plait_optim_check_options(options);

    if (status != PLAIT_OK)
        return status;
    struct plait_optim *o = calloc(1, sizeof *o);
    if (o == NULL)
        return plait_fail_memory("out of memory for an optimiser");
    *out = o;
    o->options = *options;
    status = plait_stream_queue("plait_optim_create", options->stream, &o->queue);
    if (status == PLAIT_OK && o->queue == NULL)
        status = find_kernels(o);
    return status == PLAIT_OK ? take_memory(o) : status;
}

enum plait_status plait_optim_create(const struct plait_optim_options *options, struct plait_optim **out)
{
    struct plait_optim *o = NULL;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_create: out is NULL");
    enum plait_status status =
        plait_check_struct("plait_optim_create", "options", options, sizeof *options, "PLAIT_OPTIM_OPTIONS_DEFAULT");
    if (status != PLAIT_OK)
        return status;
    if (options->comm != NULL)
        status = plait_object_enter(options->comm, "plait_optim_create");
    if (status != PLAIT_OK)
        return status;
    status = make(options, &o);
    if (options->comm != NULL)
        status = plait_all_alike(options->comm, "plait_optim_create", "plait_optim_create", plait_optim_describe,
                                 options, status);
    if (status == PLAIT_OK)
        *out = o;
    else
        plait_optim_destroy(o);
    return status;
}

void plait_optim_destroy(struct plait_optim *o)
{
    if (o == NULL)
        return;
    if (o->queue != NULL) {
        plait_optim_device_drop(o);
    } else {
        free(o->momentum);
        free(o->sums);
    }
    free(o->parts);
    free(o->at);
    free(o);
}

float *plait_optim_momentum(struct plait_optim *o, uint32_t part)
{
    return o != NULL && part < o->options.npart ? o->momentum + o->at[part] : NULL;
}

/* ---- The first pass --------------------------------------------------------------------------------------- */

/* Indices into the sums: the squares of a tensor's weights, and of its gradients. */
static size_t weights_at(uint32_t tensor)
{
    return NORMS + tensor;
}

static size_t gradients_at(const struct plait_optim *o, uint32_t tensor)
{
    return NORMS + o->options.ntensor + tensor;
}

static bool has_trust(const struct plait_optim *o, const struct plait_optim_part *p)
{
    return o->options.method == PLAIT_OPTIM_LARS && (p->flags & PLAIT_OPTIM_NO_TRUST) == 0;
}

static void add_gradient(struct plait_optim *o, const struct plait_optim_part *p, const double *known)
{
    const double g = known != NULL ? *known : plait_pass_squares(o->kernels, p->gradient, p->type, p->count);

    o->sums[VERDICT] += g;
    if (has_trust(o, p))
        o->sums[gradients_at(o, p->tensor)] += g;
}

static void add_squares(struct plait_optim *o, const struct plait_optim_step *s)
{
    memset(o->sums, 0, o->nsum * sizeof *o->sums);
    for (uint32_t k = 0; k < o->options.npart; k++) {
        const struct plait_optim_part *p = &o->parts[k];
        if (has_trust(o, p) || o->options.check)
            add_gradient(o, p, s->squares != NULL ? &s->squares[k] : NULL);
        if (has_trust(o, p))
            o->sums[weights_at(p->tensor)] += plait_pass_squares(o->kernels, p->master, PLAIT_FLOAT32, p->count);
    }
}

/* ---- The second pass -------------------------------------------------------------------------------------- */

/* The hash includes the step number: arguments that differ and collide in one step are found in the next. */
double plait_optim_call(struct plait_optim *o, const struct plait_optim_step *s)
{
    const double numbers[] = { s->lr, s->factor, s->decay, (double)o->nstep++ };
    const uint64_t h = plait_hash(PLAIT_HASH_START, numbers, sizeof numbers);

    return (double)((h ^ h >> 18 ^ h >> 36) & 0x3ffff);
}

/*
 * All x are equal exactly when (sum x)^2 / n is sum x^2 (Cauchy-Schwarz), and then nothing rounds. Otherwise it is less
 * by at least 1/2, which rounding does not hide below 32,768 ranks. Every rank finds the same.
 */
static enum plait_status meet(struct plait_optim *o, const struct plait_optim_step *s)
{
    const double call = plait_optim_call(o, s);

    o->sums[CALL] = call;
    o->sums[CALL_SQUARE] = call * call;
    const enum plait_status status =
        plait_allreduce(o->options.comm, o->sums, o->sums, o->nsum, PLAIT_FLOAT64, PLAIT_SUM, NULL);
    if (status != PLAIT_OK)
        return status;
    const double mean = o->sums[CALL] / plait_comm_nrank(o->options.comm);
    if (mean * o->sums[CALL] == o->sums[CALL_SQUARE])
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_MISMATCH,
        "plait_optim_step: lr, factor, decay or the loss scale differ between ranks; here lr is %.17g, factor (divided "
        "by the scale) %.17g, decay %.17g",
        s->lr, s->factor, s->decay);
}

static double decay_of(const struct plait_optim *o, const struct plait_optim_part *p, const struct plait_optim_step *s)
{
    return (p->flags & PLAIT_OPTIM_NO_DECAY) != 0 ? 0 : o->options.decay * s->decay;
}

static double trust(const struct plait_optim *o, const struct plait_optim_part *p, const struct plait_optim_step *s)
{
    const struct plait_optim_options *x = &o->options;

    if (!has_trust(o, p))
        return 1;
    const double w = sqrt(o->sums[weights_at(p->tensor)]), g = sqrt(o->sums[gradients_at(o, p->tensor)]) * s->factor;
    return w > 0 && g > 0 ? x->eta * w / (g + (x->norm_decay < 0 ? decay_of(o, p, s) : x->norm_decay) * w + x->eps) : 1;
}

/* With a tiny |g| the trust may exceed float32, and infinity times 0 is NaN: cap it. */
static float as_factor(double x)
{
    return x < FLT_MAX ? (float)x : FLT_MAX;
}

static struct plait_update update_of(const struct plait_optim *o, const struct plait_optim_part *p,
                                     const struct plait_optim_step *s)
{
    const struct plait_optim_options *x = &o->options;
    const double inside = trust(o, p, s) * (x->lr_in_momentum ? s->lr : 1);

    return (struct plait_update){ as_factor(inside * s->factor), as_factor(inside * decay_of(o, p, s)),
                                  (float)x->momentum, x->lr_in_momentum ? 1 : (float)s->lr, x->nesterov != 0 };
}

/* ---- The third pass --------------------------------------------------------------------------------------- */

static const float *widened(const struct plait_optim *o, const struct plait_optim_part *p, size_t at, size_t n,
                            float *room)
{
    const size_t size = plait_dtype_size(p->type);
    const char *g = (const char *)p->gradient + at * size;

    plait_pass_fetch(g, n * size);
    if (p->type == PLAIT_FLOAT32)
        return (const float *)p->gradient + at;
    o->kernels->widen[p->type](room, g, n, 1);
    return room;
}

static void write_copy(const struct plait_optim *o, const struct plait_optim_part *p, size_t at, size_t n)
{
    void *to = (char *)p->copy + at * plait_dtype_size(p->copy_type);

    if (p->copy_type == PLAIT_FLOAT32)
        memcpy(to, p->master + at, n * sizeof *p->master);
    else
        o->kernels->narrow[p->copy_type](to, p->master + at, n, 1);
}

static void update_part(const struct plait_optim *o, uint32_t k, const struct plait_optim_step *s)
{
    const struct plait_optim_part *p = &o->parts[k];
    const struct plait_update u = update_of(o, p, s);
    float *w = p->master, *v = o->momentum + o->at[k];
    _Alignas(64) float room[PIECE];

    for (size_t at = 0; at < p->count; at += PIECE) {
        const size_t n = p->count - at < PIECE ? p->count - at : PIECE;
        const float *g = widened(o, p, at, n, room);
        plait_pass_fetch(w + at, n * sizeof *w);
        plait_pass_fetch(v + at, n * sizeof *v);
        o->kernels->update(w + at, v + at, g, n, &u);
        if (p->copy != NULL)
            write_copy(o, p, at, n);
    }
}

static enum plait_status step_on_host(struct plait_optim *o, const struct plait_optim_step *s,
                                      struct plait_optim_result *result)
{
    enum plait_status status = PLAIT_OK;

    add_squares(o, s);
    if (o->options.comm != NULL)
        status = meet(o, s);
    if (status != PLAIT_OK)
        return status;
    const double norm = sqrt(o->sums[VERDICT]) * s->factor;
    const bool finite = norm <= FLT_MAX; /* false for a NaN; the same on all ranks */
    for (uint32_t k = 0; finite && k < o->options.npart; k++)
        update_part(o, k, s);
    if (o->options.scale != NULL)
        plait_optim_rescale(o->options.scale, finite);
    if (result != NULL)
        *result = (struct plait_optim_result){ finite, norm };
    return PLAIT_OK;
}

enum plait_status plait_optim_step(struct plait_optim *o, const struct plait_optim_step *s,
                                   struct plait_optim_result *result)
{
    enum plait_status status = plait_optim_check_step(o, s);

    if (status == PLAIT_OK && o->options.comm != NULL)
        status = plait_object_enter(o->options.comm, "plait_optim_step");
    if (status != PLAIT_OK)
        return status;
    if (o->queue != NULL)
        return plait_optim_device_step(o, s, result);
    const uint32_t environment = plait_fpenv_enter();
    struct plait_optim_step scaled = *s;
    if (o->options.scale != NULL)
        scaled.factor /= o->options.scale->scale;
    status = step_on_host(o, &scaled, result);
    plait_fpenv_leave(environment);
    return status;
}
