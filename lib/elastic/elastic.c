/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, creation, destruction, and all that the modes share: periods, the local step, the order of calls. */
#include "elastic.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/status.h"
#include "memory/devices.h"

#include <plait/memory.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plait_extent plait_elastic_part(size_t count, uint32_t n, uint32_t k)
{
    const size_t line = PLAIT_LINE / sizeof(float);
    const size_t share = ((count + n - 1) / n + line - 1) / line * line;
    const size_t start = share * k < count ? share * k : count;

    return (struct plait_extent){ start, count - start < share ? count - start : share };
}

#define PLAIT_X(symbol, name, served) [symbol] = { name, served },
static const struct {
    const char *name;
    bool served;
} modes[PLAIT_NELASTIC] = { PLAIT_ELASTIC_LIST(PLAIT_X) };
#undef PLAIT_X

const char *plait_elastic_name(enum plait_elastic_mode mode)
{
    return (unsigned)mode < PLAIT_NELASTIC ? modes[mode].name : "?";
}

int plait_elastic_find(const char *name)
{
    for (int m = 0; name != NULL && m < PLAIT_NELASTIC; m++)
        if (plait_same_name(modes[m].name, name))
            return m;
    return -1;
}

/* ---- Options ------------------------------------------------------------------------------------------ */

static enum plait_status check_numbers(const struct plait_elastic_options *o, uint32_t nrank)
{
    const bool known = (unsigned)o->mode < PLAIT_NELASTIC, served = known && modes[o->mode].served;
    const struct plait_number all[] = {
        { "mode", "one of PLAIT_ELASTIC_LIST", o->mode, known },
        { "count", "1 to 2^45", (double)o->count, o->count > 0 && o->count <= PLAIT_MOST_BYTES / sizeof(float) },
        { "period", "1 or more", o->period, o->period > 0 },
        { "beta", "above 0 and at most 1, or 0 if rho is above 0", o->beta,
          o->beta >= 0 && o->beta <= 1 && (o->beta > 0) != (o->rho > 0) },
        { "lr", "0 (not needed) or above; above 0 with rho, as the pull is lr rho", o->lr,
          o->lr >= 0 && isfinite(o->lr) && (o->lr > 0 || !(o->rho > 0)) },
        { "rho", "0 (beta is given) or above, and lr rho, the pull, at most 1", o->rho,
          o->rho >= 0 && isfinite(o->rho) && !(o->lr * o->rho > 1) },
        { "momentum", "0 to below 1", o->momentum, o->momentum >= 0 && o->momentum < 1 },
        { "payload", "PLAIT_FLOAT32, PLAIT_FLOAT16 or PLAIT_BFLOAT16", o->payload,
          o->payload == PLAIT_FLOAT32 || o->payload == PLAIT_FLOAT16 || o->payload == PLAIT_BFLOAT16 },
        { "nserver", "0, as this mode has no servers", o->nserver, served || o->nserver == 0 },
        { "nserver", "below the number of ranks: this mode needs 2 ranks or more, a server and a worker", o->nserver,
          !served || (o->nserver < nrank && nrank > 1) },
        { "threads", "0 or 1, and only hogwild may have up to 256", o->threads,
          o->threads <= (o->mode == PLAIT_ELASTIC_HOGWILD ? 256 : 1) },
        { "reproducible", "0, as this mode sums nothing", o->reproducible, !served || o->reproducible == 0 },
    };

    return plait_check_numbers("plait_elastic_create", all, sizeof all / sizeof *all);
}

static enum plait_status check_options(const struct plait_elastic_options *o, const struct plait_comm *comm)
{
    const uint32_t rank = plait_comm_rank(comm), nrank = plait_comm_nrank(comm);

    if (plait_check_struct("plait_elastic_create", "options", o, sizeof *o, "PLAIT_ELASTIC_OPTIONS_DEFAULT") !=
            PLAIT_OK ||
        check_numbers(o, nrank) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (o->algorithm != NULL && o->mode != PLAIT_ELASTIC_SYNC2 && o->mode != PLAIT_ELASTIC_SYNC3)
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_elastic_create: algorithm is '%s', but mode %s has none to choose; sync2 and sync3 have",
            o->algorithm, modes[o->mode].name);
    const uint32_t nserver = modes[o->mode].served && o->nserver == 0 ? 1 : o->nserver;
    if (o->weights == NULL && rank < nrank - nserver)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: weights is NULL, and rank %u is a worker", rank);
    return plait_device_refuse("plait_elastic_create", ": weights", o->weights);
}

/* The options that must be equal on all ranks. */
static void describe(const void *options, FILE *f)
{
    const struct plait_elastic_options *o = options;

    fprintf(f, "name %s\n", o->name);
    fprintf(f, "mode %s\n", modes[o->mode].name);
    fprintf(f, "count %zu\n", o->count);
    fprintf(f, "period %u\n", o->period);
    plait_describe_real(f, "beta", o->beta);
    plait_describe_real(f, "rho", o->rho);
    plait_describe_real(f, "lr", o->lr);
    fprintf(f, "payload %s\n", plait_dtype_name(o->payload));
    plait_describe_real(f, "momentum", o->momentum);
    fprintf(f, "nserver %u\n", o->nserver);
    fprintf(f, "threads %u\n", o->threads);
    fprintf(f, "reproducible %d\n", o->reproducible != 0);
    fprintf(f, "algorithm %s\n", o->algorithm != NULL ? o->algorithm : "chosen by the library");
}

/* ---- Life -------------------------------------------------------------------------------------------------- */

static void copy_options(struct plait_elastic *e, const struct plait_elastic_options *o)
{
    e->options = *o;
    snprintf(e->name, sizeof e->name, "%s", o->name != NULL ? o->name : "elastic");
    snprintf(e->algorithm, sizeof e->algorithm, "%s", o->algorithm != NULL ? o->algorithm : "");
    e->options.name = e->name;
    e->options.algorithm = o->algorithm != NULL ? e->algorithm : NULL;
    if (o->mode == PLAIT_ELASTIC_ASYNC_MOMENTUM && o->momentum <= 0)
        e->options.momentum = 0.9;
    if (o->threads == 0)
        e->options.threads = o->mode == PLAIT_ELASTIC_HOGWILD ? 2 : 1;
    e->nserver = !modes[o->mode].served ? 0 : o->nserver > 0 ? o->nserver : 1;
    e->nworker = e->nrank - e->nserver;
    e->serves = e->rank >= e->nworker;
    e->exchanger = e->nserver > 0 ? &plait_elastic_served : &plait_elastic_sync;
    e->weights = e->serves ? NULL : o->weights;
    e->count = o->count;
    e->counts.workers = e->nworker;
}

/* With servers, exchanges do not use the comm of all ranks. So its failure, as by a dead rank, is no error here. */
static enum plait_status discard(struct plait_elastic *e)
{
    e->exchanger->leave(e);
    const enum plait_status status = plait_comm_destroy(e->comm);
    const struct plait_error left = plait_error_of(e->nserver == 0 ? status : PLAIT_OK);
    plait_mem_free(e->centre);
    plait_mem_free(e->sums);
    plait_mem_free(e->differences);
    free(e->velocity);
    free(e);
    return plait_restore_error(&left);
}

/* The caller's comm stays usable. Aborting the duplicate fails the ranks that have come further. */
static enum plait_status give_up(struct plait_elastic *e, enum plait_status status)
{
    const struct plait_error why = plait_error_of(status);

    if (e->comm != NULL)
        plait_comm_abort(e->comm, why.text);
    discard(e);
    return plait_restore_error(&why);
}

/* Rank 0's weights become the centre: all of it on every rank, or a part on each server. */
static enum plait_status spread(struct plait_elastic *e)
{
    if (e->nserver == 0) {
        PLAIT_KNOWN(e->centre != NULL && (e->rank != 0 || e->weights != NULL));
        if (e->rank == 0)
            memcpy(e->centre, e->weights, e->count * sizeof(float));
        return plait_broadcast(e->comm, e->centre, e->centre, e->count, PLAIT_FLOAT32, 0, NULL);
    }
    size_t *const counts = calloc(2 * (size_t)e->nrank, sizeof *counts);
    if (counts == NULL)
        return plait_object_fail(e->comm, plait_fail_memory("out of memory for %u servers", e->nserver));
    size_t *const starts = counts + e->nrank;
    for (uint32_t s = 0; s < e->nserver; s++) {
        const struct plait_extent part = plait_elastic_part(e->count, e->nserver, s);
        counts[e->nworker + s] = part.count;
        starts[e->nworker + s] = part.start;
    }
    const enum plait_status status =
        plait_scatterv(e->comm, e->weights, counts, starts, e->centre, e->own.count, PLAIT_FLOAT32, 0, NULL);
    free(counts);
    return status;
}

enum plait_status plait_elastic_create(struct plait_comm *comm, const struct plait_elastic_options *options,
                                       struct plait_elastic **out)
{
    enum plait_status status = plait_object_enter(comm, "plait_elastic_create");

    if (status == PLAIT_OK && out == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: out is NULL");
    if (status != PLAIT_OK)
        return status;
    struct plait_elastic *e = calloc(1, sizeof *e);
    if (e == NULL)
        return plait_fail_memory("out of memory for elastic averaging");
    e->exchanger = &plait_elastic_sync;
    e->kernels = comm->kernels;
    e->rank = plait_comm_rank(comm);
    e->nrank = plait_comm_nrank(comm);
    status = check_options(options, comm);
    if (status == PLAIT_OK)
        copy_options(e, options);
    status = plait_all_alike(comm, "plait_elastic_create", "plait_elastic_create", describe, &e->options, status);
    if (status == PLAIT_OK)
        status = plait_comm_duplicate(comm, e->name, &e->comm);
    if (status == PLAIT_OK)
        status = e->exchanger->prepare(e);
    if (status == PLAIT_OK)
        status = spread(e);
    if (status != PLAIT_OK)
        return give_up(e, status);
    *out = e;
    return PLAIT_OK;
}

enum plait_status plait_elastic_destroy(struct plait_elastic *e)
{
    if (e == NULL || plait_comm_inherited(e->comm)) /* in a forked child: it belongs to the parent */
        return PLAIT_OK;
    if (plait_not_in_group(PLAIT_OK, "plait_elastic_destroy") != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (e->started)
        plait_elastic_finish(e);
    const struct plait_error failure = e->failure;
    const enum plait_status status = discard(e);
    return failure.status != PLAIT_OK ? plait_restore_error(&failure) : status;
}

/* ---- Exchanges --------------------------------------------------------------------------------------------- */

enum plait_status plait_elastic_enter(const struct plait_elastic *e, const char *call, enum plait_elastic_role role)
{
    if (e == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: elastic is NULL", call);
    if (plait_comm_inherited(e->comm))
        return plait_object_check(e->comm, call, e->name);
    if (plait_not_in_group(PLAIT_OK, call) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (e->failure.status != PLAIT_OK)
        return plait_fail(PLAIT_ERR_FAILED, "%s: %s failed earlier: %s", call, e->name, e->failure.text);
    if (e->serves && role == PLAIT_ELASTIC_WORKER)
        return plait_fail(PLAIT_ERR_ARG, "%s: rank %u of %s is a server; it calls plait_elastic_serve()", call, e->rank,
                          e->name);
    if (!e->serves && role == PLAIT_ELASTIC_SERVER)
        return plait_fail(PLAIT_ERR_ARG, "%s: rank %u of %s is a worker; servers are the last %u ranks", call, e->rank,
                          e->name, e->nserver);
    return PLAIT_OK;
}

/* The same, and no exchange may be in progress. */
static enum plait_status enter_idle(const struct plait_elastic *e, const char *call, enum plait_elastic_role role)
{
    const enum plait_status status = plait_elastic_enter(e, call, role);

    if (status == PLAIT_OK && e->started)
        return plait_fail(PLAIT_ERR_ARG, "%s: an exchange of %s is under way; call plait_elastic_finish() first", call,
                          e->name);
    return status;
}

/* Keep an exchange's error: every later call returns it. */
static enum plait_status keep(struct plait_elastic *e, enum plait_status status)
{
    if (status != PLAIT_OK && e->failure.status == PLAIT_OK)
        e->failure = plait_error_of(status);
    return status;
}

static enum plait_status start(struct plait_elastic *e, const char *call)
{
    enum plait_status status = enter_idle(e, call, PLAIT_ELASTIC_WORKER);

    if (status != PLAIT_OK)
        return status;
    e->exchanges = e->calls % e->options.period == 0;
    if (e->exchanges)
        status = keep(e, e->exchanger->start(e));
    if (status != PLAIT_OK)
        return status;
    e->calls++;
    e->started = true;
    return PLAIT_OK;
}

enum plait_status plait_elastic_start(struct plait_elastic *e)
{
    return start(e, "plait_elastic_start");
}

enum plait_status plait_elastic_finish(struct plait_elastic *e)
{
    enum plait_status status = plait_elastic_enter(e, "plait_elastic_finish", PLAIT_ELASTIC_WORKER);

    if (status == PLAIT_OK && !e->started)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_finish: no exchange of %s was started", e->name);
    if (status != PLAIT_OK)
        return status;
    if (e->exchanges) {
        const uint32_t environment = plait_fpenv_enter();
        status = keep(e, e->exchanger->finish(e));
        plait_fpenv_leave(environment);
        e->counts.exchanges += status == PLAIT_OK;
    }
    e->started = false;
    return status;
}

enum plait_status plait_elastic_exchange(struct plait_elastic *e)
{
    const enum plait_status status = start(e, "plait_elastic_exchange");
    return status == PLAIT_OK ? plait_elastic_finish(e) : status;
}

enum plait_status plait_elastic_centre(struct plait_elastic *e, float *out)
{
    enum plait_status status = enter_idle(e, "plait_elastic_centre", PLAIT_ELASTIC_BOTH);

    if (status == PLAIT_OK && out == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_elastic_centre: out is NULL");
    return status == PLAIT_OK ? keep(e, e->exchanger->read(e, out)) : status;
}

/* ---- The local step ---------------------------------------------------------------------------------------- */

enum plait_status plait_elastic_step(struct plait_elastic *e, const float *gradient)
{
    enum plait_status status = enter_idle(e, "plait_elastic_step", PLAIT_ELASTIC_WORKER);

    if (status == PLAIT_OK && gradient == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_elastic_step: gradient is NULL");
    if (status == PLAIT_OK && e->options.lr <= 0)
        status =
            plait_fail(PLAIT_ERR_ARG, "plait_elastic_step: lr is 0; set options.lr or call plait_elastic_set_lr()");
    if (status == PLAIT_OK && e->options.momentum > 0 && e->velocity == NULL) {
        e->velocity = calloc(e->count, sizeof *e->velocity);
        if (e->velocity == NULL)
            status = plait_fail_memory("out of memory for momenta of %zu weights", e->count);
    }
    if (status != PLAIT_OK)
        return status;
    const uint32_t environment = plait_fpenv_enter();
    if (e->velocity == NULL)
        plait_elastic_add(e->kernels, PLAIT_FLOAT32, e->weights, gradient, e->count, -(float)e->options.lr);
    else
        e->kernels->update(e->weights, e->velocity, gradient, e->count,
                           &(struct plait_update){ (float)e->options.lr, 0, (float)e->options.momentum, 1, false });
    plait_fpenv_leave(environment);
    return PLAIT_OK;
}

static void describe_lr(const void *lr, FILE *f)
{
    plait_describe_real(f, "lr", *(const double *)lr);
}

enum plait_status plait_elastic_set_lr(struct plait_elastic *e, double lr)
{
    enum plait_status status = enter_idle(e, "plait_elastic_set_lr", PLAIT_ELASTIC_WORKER);

    if (status != PLAIT_OK)
        return status;
    if (!(lr > 0 && isfinite(lr) && lr * e->options.rho <= 1))
        status = plait_fail(PLAIT_ERR_ARG,
                            "plait_elastic_set_lr: lr is %g; it must be finite, above 0, and lr rho at most 1", lr);
    if (e->options.rho > 0 && e->nserver == 0)
        status = plait_all_alike(e->comm, "plait_elastic_set_lr", e->name, describe_lr, &lr, status);
    if (status == PLAIT_OK)
        e->options.lr = lr;
    return status;
}

void plait_elastic_counts(const struct plait_elastic *e, struct plait_elastic_counts *out)
{
    const uint32_t ncomm = e == NULL || e->serves ? 0 : e->nserver > 0 ? e->nserver : 1;
    struct plait_comm_stats stats;

    if (e == NULL || out == NULL)
        return;
    *out = e->counts;
    if (e->serves) {
        out->workers = e->alive;
        out->left = e->left;
        out->died = e->died;
        out->exchanges = e->updates;
        out->behind = e->behind;
        out->behind_max = e->behind_max;
        out->pull = e->last_pull;
        out->forces = e->forces;
        out->movement = e->movement;
    }
    for (uint32_t i = 0; i < ncomm; i++) {
        plait_comm_stats(e->nserver > 0 ? e->ends[i].comm : e->comm, &stats);
        out->staged += stats.bytes_staged;
    }
}
