/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the options, on this rank and between ranks. */
#include "elastic.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/status.h"
#include "memory/devices.h"

#include <math.h>

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

bool plait_elastic_has_servers(enum plait_elastic_mode mode)
{
    return modes[mode].served;
}

/* ---- On this rank ------------------------------------------------------------------------------------------ */

static enum plait_status check_numbers(const struct plait_elastic_options *o, uint32_t nrank)
{
    const bool known = (unsigned)o->mode < PLAIT_NELASTIC, served = known && modes[o->mode].served;
    const struct plait_number all[] = {
        { "mode", "one of PLAIT_ELASTIC_LIST", o->mode, known },
        { "count", "1 to 2^45", (double)o->count, o->count > 0 && o->count <= PLAIT_MOST_BYTES / sizeof(float) },
        { "period", "1 or more", o->period, o->period > 0 },
        { "beta", "above 0 to 1, or 0 with rho: give one of the two", o->beta,
          o->beta >= 0 && o->beta <= 1 && (o->beta > 0) != (o->rho > 0) },
        { "rho", "0 (beta is given) or above", o->rho, o->rho >= 0 && isfinite(o->rho) },
        { "lr", "0 (not needed) or above; above 0 with rho, as the pull is lr rho", o->lr,
          o->lr >= 0 && isfinite(o->lr) && (o->lr > 0 || o->rho == 0) },
        { "momentum", "0 to below 1", o->momentum, o->momentum >= 0 && o->momentum < 1 },
        { "payload", "PLAIT_FLOAT32, PLAIT_FLOAT16 or PLAIT_BFLOAT16", o->payload,
          o->payload == PLAIT_FLOAT32 || o->payload == PLAIT_FLOAT16 || o->payload == PLAIT_BFLOAT16 },
        { "nserver", "0, as this mode has no servers", o->nserver, served || o->nserver == 0 },
        { "nserver", "below the number of ranks: this mode needs a server, and at least one must be a worker",
          o->nserver, !served || (o->nserver < nrank && nrank > 1) },
        { "threads", "0 or 1, and only hogwild may have up to 256", o->threads,
          o->threads <= (o->mode == PLAIT_ELASTIC_HOGWILD ? 256 : 1) },
        { "reproducible", "0, as this mode sums nothing", o->reproducible, !served || o->reproducible == 0 },
    };

    return plait_check_numbers("plait_elastic_create", all, sizeof all / sizeof *all);
}

enum plait_status plait_elastic_check_options(const struct plait_elastic_options *o, const struct plait_comm *comm)
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

/* ---- Between ranks ----------------------------------------------------------------------------------------- */

void plait_elastic_describe(const void *options, FILE *f)
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
