/* SPDX-License-Identifier: BSD-3-Clause */
#include "ready.h"

#include "base/status.h"

#include <plait/coll.h>

#include <stdio.h>

enum { TEXT = 512 }; /* bytes of an error text */

/* The first rank that failed says why. */
static enum plait_status tell(struct plait_comm *comm, const char *call, uint32_t failed, const char *own)
{
    char text[TEXT] = "";

    snprintf(text, sizeof text, "%.*s", TEXT - 1, own);
    const enum plait_status status = plait_broadcast(comm, text, text, TEXT, PLAIT_UINT8, failed, NULL);
    return status != PLAIT_OK
               ? status
               : plait_fail(PLAIT_ERR_MISMATCH, "%s: rank %u failed: %.*s", call, failed, TEXT - 1, text);
}

enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    uint32_t failed = status == PLAIT_OK ? nrank : plait_comm_rank(comm);
    struct plait_kept own;

    plait_keep_error(&own, status);
    enum plait_status met = plait_allreduce(comm, &failed, &failed, 1, PLAIT_UINT32, PLAIT_MIN, NULL);
    if (met == PLAIT_OK && failed < nrank)
        met = tell(comm, call, failed, status != PLAIT_OK ? own.text : "");
    return status != PLAIT_OK ? plait_tell_error(&own) : met;
}
