/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx: the interface of the daemons of mpirun, and of srun --mpi=pmix, to their processes. No MPI is needed, and one
 * that the process uses besides is not disturbed: PMIx counts its initialisations.
 */
#include "plugin/pass.h"

#include <pmix.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AGAIN 0.05 /* seconds until an unanswered query is repeated */

static bool explain(pmix_status_t status, const char *what, char *why, size_t room)
{
    if (status != PMIX_SUCCESS)
        snprintf(why, room, "%s: %s", what, PMIx_Error_string(status));
    return status == PMIX_SUCCESS;
}

static bool give(const char *key, void *bytes, size_t n, char *why, size_t room)
{
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo = { .bytes = bytes, .size = n } };

    return explain(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put", why, room) &&
           explain(PMIx_Commit(), "PMIx_Commit", why, room);
}

/*
 * Wait until rank 0 has published them. Slurm's daemon sometimes answers "not found" at once, although it should wait:
 * then ask again.
 */
static pmix_status_t ask(const pmix_proc_t *from, const char *key, double seconds, pmix_value_t **out)
{
    const int timeout = seconds < INT32_MAX ? (int)ceil(seconds) : INT32_MAX;
    const time_t begin = time(NULL);
    pmix_status_t status;
    pmix_info_t limit;

    PMIX_INFO_CONSTRUCT(&limit);
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &timeout, PMIX_INT);
    while ((status = PMIx_Get(from, key, &limit, 1, out)) == PMIX_ERR_NOT_FOUND &&
           (double)(time(NULL) - begin) < seconds)
        usleep((useconds_t)(AGAIN * 1e6));
    PMIX_INFO_DESTRUCT(&limit);
    return status;
}

/* Published by rank 0 of this job. */
static bool take(const pmix_proc_t *self, const char *key, void *bytes, size_t n, double seconds, char *why,
                 size_t room)
{
    pmix_proc_t from;
    pmix_value_t *value;

    PMIX_LOAD_PROCID(&from, self->nspace, 0);
    if (!explain(ask(&from, key, seconds, &value), "PMIx_Get from rank 0", why, room))
        return false;
    const bool right = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == n;
    if (right)
        memcpy(bytes, value->data.bo.bytes, n);
    else
        snprintf(why, room, "rank 0 gave something else under this key: another version of Plait");
    PMIX_VALUE_RELEASE(value);
    return right;
}

static bool pass(const char *key, uint32_t rank, void *bytes, size_t n, double seconds, char *why, size_t room)
{
    pmix_proc_t self;

    if (!explain(PMIx_Init(&self, NULL, 0), "PMIx_Init", why, room))
        return false;
    const bool passed = rank == 0 ? give(key, bytes, n, why, room) : take(&self, key, bytes, n, seconds, why, room);
    PMIx_Finalize(NULL, 0); /* without it, the end of the process counts as a crash */
    return passed;
}

__attribute__((visibility("default"))) extern const struct plait_pass_plugin plait_pass_plugin;
const struct plait_pass_plugin plait_pass_plugin = { .abi = PLAIT_PASS_ABI, .pass = pass };
