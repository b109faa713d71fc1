/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"

#include "why.h"

#include <plait/coll.h>
#include <plait/comm.h>

#include <limits.h>
#include <stdio.h>

bool share_reads(const struct plait_comm *comm)
{
    return comm == NULL || plait_comm_rank(comm) == 0;
}

const char *share_bytes(struct plait_comm *comm, void *data, uint64_t bytes)
{
    if (comm == NULL)
        return NULL;
    const enum plait_status status = plait_broadcast(comm, data, data, bytes, PLAIT_UINT8, 0, NULL);
    return status == PLAIT_OK ? NULL : because("%s: %s", plait_status_text(status), plait_last_error());
}

const char *share_verdict(struct plait_comm *comm, const char *why)
{
    char text[PATH_MAX + 512] = "";

    if (comm == NULL)
        return why;
    snprintf(text, sizeof text, "%s", why == NULL ? "" : why);
    const char *const failed = share_bytes(comm, text, sizeof text);
    return failed != NULL ? failed : text[0] == '\0' ? NULL : because("%s", text);
}
