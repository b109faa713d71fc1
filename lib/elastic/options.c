/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the options, on this rank and between ranks. */
#include "elastic.h"

#include "base/bytes.h"
#include "base/status.h"
#include "call/agree.h"
#include "memory/devices.h"

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
    const struct plait_number all[] = {
        { "count", "1 to 2^45", (double)o->count, o->count > 0 && o->count <= PLAIT_MOST_BYTES / sizeof(float) },
        { "period", "1 or more", o->period, o->period > 0 },
        { "beta", "above 0 to 1, or 0 with rho", o->beta, o->beta >= 0 && o->beta <= 1 },
        { "rho", "0 (beta is given) or above", o->rho, o->rho >= 0 && isfinite(o->rho) },
        { "lr", "0 (not needed) or above", o->lr, o->lr >= 0 && isfinite(o->lr) },
        { "momentum", "0 to below 1", o->momentum, o->momentum >= 0 && o->momentum < 1 },
    };
    const enum plait_status status = plait_check_numbers("plait_elastic_create", all, sizeof all / sizeof *all);

    if (status != PLAIT_OK)
        return status;
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
        status = check_servers(o, plait_comm_nrank(comm));
    if (status == PLAIT_OK)
        status = check_collective(o);
    const uint32_t nserver = modes[o->mode].served && o->nserver == 0 ? 1 : o->nserver;
    const uint32_t rank = plait_comm_rank(comm);
    if (status == PLAIT_OK && o->weights == NULL && rank < plait_comm_nrank(comm) - nserver)
        status = plait_fail(PLAIT_ERR_ARG, "plait_elastic_create: weights is NULL, and rank %u is a worker", rank);
    return status == PLAIT_OK ? plait_device_refuse("plait_elastic_create", "weights", o->weights) : status;
}

/* ---- Between ranks ----------------------------------------------------------------------------------------- */

void plait_elastic_describe(const void *options, struct plait_text *t)
{
    const struct plait_elastic_options *o = options;

    plait_text_add(t, "name %s\n", o->name);
    plait_text_add(t, "mode %s\n", modes[o->mode].name);
    plait_text_add(t, "count %zu\n", o->count);
    plait_text_add(t, "period %u\n", o->period);
    plait_text_add_real(t, "beta", o->beta);
    plait_text_add_real(t, "rho", o->rho);
    plait_text_add_real(t, "lr", o->lr);
    plait_text_add(t, "payload %s\n", plait_dtype_name(o->payload));
    plait_text_add_real(t, "momentum", o->momentum);
    plait_text_add(t, "nserver %u\n", o->nserver);
    plait_text_add(t, "threads %u\n", o->threads);
    plait_text_add(t, "reproducible %d\n", o->reproducible != 0);
    plait_text_add(t, "algorithm %s\n", o->algorithm != NULL ? o->algorithm : "chosen by size");
}
