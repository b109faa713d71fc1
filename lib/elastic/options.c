/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the options, on this rank and between ranks. */
#include "elastic.h"

#include "base/hash.h"
#include "base/status.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "operation/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool served;
} modes[PLAIT_NELASTIC] = {
#define PLAIT_X(symbol, name, served) [symbol] = { name, served },
    PLAIT_ELASTIC_LIST(PLAIT_X)
#undef PLAIT_X
};

const char *plait_elastic_name(enum plait_elastic_mode mode)
{
    return (unsigned)mode < PLAIT_NELASTIC ? modes[mode].name : "?";
}

int plait_elastic_find(const char *name)
{
    for (int m = 0; name != NULL && m < PLAIT_NELASTIC; m++)
        if (strcmp(modes[m].name, name) == 0)
            return m;
    return -1;
}

bool plait_elastic_has_servers(enum plait_elastic_mode mode)
{
    return modes[mode].served;
}

/* ---- On this rank ------------------------------------------------------------------------------------------ */

static enum plait_status check_numbers(const struct plait_elastic_options *o)
{
    const struct {
        const char *name, *remedy;
        double value;
        bool good;
    } rows[] = {
        { "count", "1 to 2^45 elements", (double)o->count,
          o->count > 0 && o->count <= PLAIT_MOST_BYTES / sizeof(float) },
        { "period", "1 or more", o->period, o->period > 0 },
        { "beta", "above 0 to 1, or 0 with rho", o->beta, o->beta >= 0 && o->beta <= 1 },
        { "rho", "0 (beta is given) or above", o->rho, o->rho >= 0 && isfinite(o->rho) },
        { "lr", "0 (not needed) or above", o->lr, o->lr >= 0 && isfinite(o->lr) },
        { "momentum", "0 to below 1", o->momentum, o->momentum >= 0 && o->momentum < 1 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].good)
            return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: %s is %g; %s is possible", rows[i].name,
                              rows[i].value, rows[i].remedy);
    if ((o->beta > 0) == (o->rho > 0))
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_create: beta is %g and rho is %g; give one and set the other to 0", o->beta,
                          o->rho);
    if (o->rho > 0 && o->lr <= 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: rho is %g, but lr is %g; the pull is lr rho", o->rho,
                          o->lr);
    return PLAIT_OK;
}

static enum plait_status check_servers(const struct plait_elastic_options *o, uint32_t nrank)
{
    const bool served = modes[o->mode].served;

    if (!served && o->nserver > 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: nserver is %u, but mode %s has no servers", o->nserver,
                          modes[o->mode].name);
    if (served && (o->nserver >= nrank || nrank < 2))
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_create: nserver is %u of %u ranks; at least one must be a worker, and mode %s "
                          "needs a server",
                          o->nserver, nrank, modes[o->mode].name);
    if (o->threads > 1 && o->mode != PLAIT_ELASTIC_HOGWILD)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: threads is %u; only hogwild may have more than 1",
                          o->threads);
    if (o->threads > 256)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: threads is %u; 256 are possible", o->threads);
    return PLAIT_OK;
}

/* Options of some modes only. */
static enum plait_status check_collective(const struct plait_elastic_options *o)
{
    const bool one = o->mode == PLAIT_ELASTIC_SYNC2 || o->mode == PLAIT_ELASTIC_SYNC3;

    if (o->algorithm != NULL && !one)
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_elastic_create: algorithm is '%s', but mode %s has none to choose; sync2 and sync3 have",
            o->algorithm, modes[o->mode].name);
    if (o->reproducible && modes[o->mode].served)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_create: reproducible is %d, but mode %s sums nothing; the sync modes do",
                          o->reproducible, modes[o->mode].name);
    return PLAIT_OK;
}

static const char *const centres[] = { "default", "master", "replicated", "sharded" };

static enum plait_status check_centre(const struct plait_elastic_options *o)
{
    const bool served = modes[o->mode].served;
    bool good;

    if ((unsigned)o->centre > PLAIT_CENTRE_SHARDED)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: centre is %d, which is no enum plait_centre",
                          (int)o->centre);
    if (o->centre == PLAIT_CENTRE_DEFAULT)
        return PLAIT_OK;
    if (served)
        good = o->centre == PLAIT_CENTRE_SHARDED || (o->centre == PLAIT_CENTRE_MASTER && o->nserver <= 1);
    else
        good = (o->centre == PLAIT_CENTRE_MASTER) == (o->mode == PLAIT_ELASTIC_SYNC1);
    if (!good)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_create: centre is %s, which mode %s%s has not; see enum "
                          "plait_centre",
                          centres[o->centre], modes[o->mode].name,
                          served && o->nserver > 1 ? " with several servers" : "");
    if (!served && o->centre == PLAIT_CENTRE_SHARDED && o->payload != PLAIT_FLOAT32)
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_elastic_create: centre is sharded and payload is %s; a centre that is spread travels as "
            "float32: take it replicated",
            plait_dtype_name(o->payload));
    return PLAIT_OK;
}

enum plait_status plait_elastic_check_options(const struct plait_elastic_options *o, const struct plait_comm *comm)
{
    if (plait_check_struct("plait_elastic_create", "options", o, sizeof *o, "PLAIT_ELASTIC_OPTIONS_DEFAULT") !=
        PLAIT_OK)
        return PLAIT_ERR_ARG;
    if ((unsigned)o->mode >= PLAIT_NELASTIC)
        return plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: mode is %d; there are 0 to %d, see PLAIT_ELASTIC_LIST",
                          (int)o->mode, PLAIT_NELASTIC - 1);
    if (o->payload != PLAIT_FLOAT32 && o->payload != PLAIT_FLOAT16 && o->payload != PLAIT_BFLOAT16)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_elastic_create: payload is %s; float32, float16 and bfloat16 are possible",
                          plait_dtype_name(o->payload));
    enum plait_status status = check_numbers(o);
    if (status == PLAIT_OK)
        status = check_servers(o, comm->nrank);
    if (status == PLAIT_OK)
        status = check_centre(o);
    if (status == PLAIT_OK)
        status = check_collective(o);
    const uint32_t nserver = modes[o->mode].served && o->nserver == 0 ? 1 : o->nserver;
    if (status == PLAIT_OK && o->weights == NULL && comm->rank < comm->nrank - nserver)
        status =
            plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: weights is NULL, and rank %u is a worker", comm->rank);
    return status == PLAIT_OK ? plait_device_refuse("plait_elastic_create", "weights", o->weights) : status;
}

/* ---- Between ranks ----------------------------------------------------------------------------------------- */

static const char *name_of_mode(double v)
{
    return plait_elastic_name((enum plait_elastic_mode)v);
}

static const char *name_of_type(double v)
{
    return plait_dtype_name((enum plait_dtype)v);
}

static const char *name_of_centre(double v)
{
    return centres[(enum plait_centre)v];
}

static const char *own_algorithm(const struct plait_elastic *e)
{
    return e->algorithm;
}

static const char *own_name(const struct plait_elastic *e)
{
    return e->name;
}

/* The compared values, shown by `name` or as numbers. Ranks send hashes of texts: an error shows this rank's text. */
static const struct {
    const char *what;
    const char *(*name)(double value);
    const char *(*text)(const struct plait_elastic *e);
} rows[] = {
    { "status", NULL, NULL },       { "mode", name_of_mode, NULL },
    { "count", NULL, NULL },        { "period", NULL, NULL },
    { "beta", NULL, NULL },         { "rho", NULL, NULL },
    { "lr", NULL, NULL },           { "payload", name_of_type, NULL },
    { "momentum", NULL, NULL },     { "centre", name_of_centre, NULL },
    { "nserver", NULL, NULL },      { "threads", NULL, NULL },
    { "reproducible", NULL, NULL }, { "algorithm", NULL, own_algorithm },
    { "name", NULL, own_name },
};
enum { NFIELD = sizeof rows / sizeof *rows };

static double hash_of(const char *text)
{
    return (double)(plait_hash(PLAIT_HASH_START, text, strlen(text)) >> 16);
}

static void describe(const struct plait_elastic *e, enum plait_status status, double fields[NFIELD])
{
    const struct plait_elastic_options *o = &e->options;
    const double all[] = { status,
                           o->mode,
                           (double)o->count,
                           o->period,
                           o->beta,
                           o->rho,
                           o->lr,
                           o->payload,
                           o->momentum,
                           o->centre,
                           o->nserver,
                           o->threads,
                           o->reproducible != 0,
                           hash_of(e->algorithm),
                           hash_of(e->name) };

    _Static_assert(sizeof all / sizeof *all == NFIELD, "a name for each");
    memcpy(fields, all, sizeof all);
}

static enum plait_status mismatch(const struct plait_elastic *e, size_t row, double first, double other, uint32_t rank)
{
    if (rows[row].text != NULL)
        return plait_fail(PLAIT_ERR_MISMATCH,
                          "plait_elastic_create: %s is '%s' here, and differs between rank 0 and rank %u",
                          rows[row].what, rows[row].text(e), rank);
    if (rows[row].name != NULL)
        return plait_fail(PLAIT_ERR_MISMATCH, "plait_elastic_create: %s is %s on rank 0 and %s on rank %u",
                          rows[row].what, rows[row].name(first), rows[row].name(other), rank);
    return plait_fail(PLAIT_ERR_MISMATCH, "plait_elastic_create: %s is %.17g on rank 0 and %.17g on rank %u",
                      rows[row].what, first, other, rank);
}

/* A rank whose own options are wrong is reported before any difference. */
static enum plait_status compare(const struct plait_elastic *e, const double *all, uint32_t nrank)
{
    for (uint32_t r = 0; r < nrank; r++)
        if (all[(size_t)r * NFIELD] != PLAIT_OK)
            return plait_fail(PLAIT_ERR_MISMATCH, "plait_elastic_create: rank %u failed: %s", r,
                              plait_status_text((enum plait_status)all[(size_t)r * NFIELD]));
    for (size_t i = 1; i < NFIELD; i++)
        for (uint32_t r = 1; r < nrank; r++)
            if (all[r * NFIELD + i] != all[i])
                return mismatch(e, i, all[i], all[r * NFIELD + i], r);
    return PLAIT_OK;
}

/* Gather all ranks' numbers. Out of memory fails the comm. */
static enum plait_status ask(struct plait_comm *comm, const double *own, size_t n, double **all)
{
    *all = calloc((size_t)comm->nrank * n, sizeof **all);
    if (*all == NULL)
        return plait_comm_fail(comm, plait_fail_memory("out of memory for %u ranks", comm->nrank), "%s",
                               plait_last_error());
    return plait_allgather(comm, own, *all, n, PLAIT_FLOAT64, NULL);
}

enum plait_status plait_elastic_agree(const struct plait_elastic *e, struct plait_comm *comm, enum plait_status status)
{
    double own[NFIELD], *all;
    struct plait_kept wrong;

    plait_keep_error(&wrong, status);
    describe(e, status, own);
    const enum plait_status met = ask(comm, own, NFIELD, &all);
    if (plait_tell_error(&wrong) == PLAIT_OK)
        status = met == PLAIT_OK ? compare(e, all, comm->nrank) : met;
    free(all);
    return status;
}

enum plait_status plait_elastic_agree_on(struct plait_elastic *e, const char *call, const char *what, double value)
{
    double *all;
    enum plait_status status = ask(e->comm, &value, 1, &all);
    PLAIT_KNOWN(status != PLAIT_OK || all != NULL);

    for (uint32_t r = 1; r < e->comm->nrank && status == PLAIT_OK; r++)
        if (all[r] != all[0])
            status = plait_fail(PLAIT_ERR_MISMATCH, "%s: %s is %.17g on rank 0 and %.17g on rank %u", call, what,
                                all[0], all[r], r);
    free(all);
    return status;
}
