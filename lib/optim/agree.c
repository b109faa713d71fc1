/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks of a sharded optimiser must pass the same options: each is made a number, and all are gathered. */
#include "optim.h"

#include "base/status.h"
#include "call/ready.h"

#include <stdlib.h>

static const char *const names[] = { "ntensor", "method", "momentum",   "nesterov", "lr_in_momentum",          "decay",
                                     "eta",     "eps",    "norm_decay", "check",    "a stream (1) or none (0)" };
#define NFIELD (sizeof names / sizeof *names)

/* Options with the same meaning become equal numbers. */
static void describe(const struct plait_optim_options *o, double fields[NFIELD])
{
    const bool lars = o->method == PLAIT_OPTIM_LARS;
    const double all[] = { o->ntensor,
                           o->method,
                           o->momentum,
                           o->nesterov != 0,
                           o->lr_in_momentum != 0,
                           o->decay,
                           lars ? o->eta : 0,
                           lars ? o->eps : 0,
                           !lars               ? 0
                           : o->norm_decay < 0 ? -1
                                               : o->norm_decay,
                           o->check != 0,
                           o->stream != NULL };

    _Static_assert(sizeof all / sizeof *all == NFIELD, "a name for each");
    for (size_t i = 0; i < NFIELD; i++)
        fields[i] = all[i];
}

static enum plait_status compare(const double *all, uint32_t nrank)
{
    for (size_t i = 0; i < NFIELD; i++)
        for (uint32_t r = 1; r < nrank; r++)
            if (all[r * NFIELD + i] != all[i])
                return plait_fail(PLAIT_ERR_MISMATCH, "plait_optim_create: %s is %.9g on rank 0 and %.9g on rank %u",
                                  names[i], all[i], all[r * NFIELD + i], r);
    return PLAIT_OK;
}

enum plait_status plait_optim_agree(const struct plait_optim_options *o, enum plait_status status)
{
    const uint32_t nrank = plait_comm_nrank(o->comm);
    double own[NFIELD], *all = calloc(nrank, sizeof own);

    if (status == PLAIT_OK && all == NULL)
        status = plait_fail_memory("out of memory for an optimiser of %u ranks", nrank);
    status = plait_all_ready(o->comm, "plait_optim_create", status);
    if (status == PLAIT_OK) {
        describe(o, own);
        status = plait_allgather(o->comm, own, all, NFIELD, PLAIT_FLOAT64, NULL);
    }
    if (status == PLAIT_OK)
        status = compare(all, nrank);
    free(all);
    return status;
}
