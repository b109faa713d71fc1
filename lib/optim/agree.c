/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks of a sharded optimiser must give alike, as numbers that everybody sees. */
#include "optim.h"

#include "../failure.h"
#include "../status.h"
#include "../wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "status", "ntensor", "method", "momentum",   "nesterov", "lr_in_momentum",
                                     "decay",  "eta",     "eps",    "norm_decay", "check" };
enum { TEXT = 512 }; /* of an error */
#define NFIELD (sizeof names / sizeof *names)

/* Numbers that mean the same are equal. */
static void describe(const struct plait_optim_options *o, enum plait_status status, double fields[NFIELD])
{
    const bool lars = o->method == PLAIT_OPTIM_LARS;
    const double all[] = { status,
                           o->ntensor,
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
                           o->check != 0 };

    _Static_assert(sizeof all / sizeof *all == NFIELD, "a name for each");
    for (size_t i = 0; i < NFIELD; i++)
        fields[i] = all[i];
}

static enum plait_status compare(const double *all, uint32_t nrank)
{
    for (size_t i = 1; i < NFIELD; i++)
        for (uint32_t r = 1; r < nrank; r++)
            if (all[r * NFIELD + i] != all[i])
                return plait_fail(PLAIT_ERR_MISMATCH, "plait_optim_create: %s is %.9g on rank 0 and %.9g on rank %u",
                                  names[i], all[i], all[r * NFIELD + i], r);
    return PLAIT_OK;
}

/* The first rank whose options are wrong, or nrank. */
static uint32_t find_failed(const double *all, uint32_t nrank)
{
    uint32_t r = 0;

    while (r < nrank && all[r * NFIELD] == PLAIT_OK)
        r++;
    return r;
}

/* It says why. */
static enum plait_status tell(struct plait_comm *comm, uint32_t failed, char text[TEXT])
{
    const enum plait_status status = plait_broadcast(comm, text, text, TEXT, PLAIT_UINT8, failed, NULL);

    return status != PLAIT_OK
               ? status
               : plait_fail(PLAIT_ERR_MISMATCH, "plait_optim_create: rank %u failed: %.*s", failed, TEXT - 1, text);
}

enum plait_status plait_optim_agree(const struct plait_optim_options *o, enum plait_status status)
{
    const uint32_t nrank = plait_comm_nrank(o->comm);
    double own[NFIELD], *all = calloc(nrank, sizeof own);
    char own_text[TEXT], text[TEXT];

    if (all == NULL)
        return plait_comm_fail(o->comm, plait_fail_memory("out of memory for an optimiser of %u ranks", nrank), "%s",
                               plait_last_error());
    memset(text, 0, sizeof text);
    snprintf(text, sizeof text, "%s", plait_last_error());
    memcpy(own_text, text, sizeof text);
    describe(o, status, own);
    enum plait_status met = plait_allgather(o->comm, own, all, NFIELD, PLAIT_FLOAT64, NULL);
    const uint32_t failed = met == PLAIT_OK ? find_failed(all, nrank) : nrank;
    if (failed < nrank)
        met = tell(o->comm, failed, text);
    else if (met == PLAIT_OK)
        met = compare(all, nrank);
    free(all);
    return status != PLAIT_OK ? plait_fail(status, "%s", own_text) : met;
}
