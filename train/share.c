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

static const char *failed(enum plait_status status)
{
    return status == PLAIT_OK ? NULL : because("%s: %s", plait_status_text(status), plait_last_error());
}

const char *share_bytes(struct plait_comm *comm, void *data, uint64_t bytes)
{
    return comm == NULL ? NULL : failed(plait_broadcast(comm, data, data, bytes, PLAIT_UINT8, 0, NULL));
}

/* Broadcast a rank's text. */
static const char *share_text(struct plait_comm *comm, const char *why, uint32_t from)
{
    char text[PATH_MAX + 512] = "";

    snprintf(text, sizeof text, "%s", why == NULL ? "" : why);
    const char *const error = failed(plait_broadcast(comm, text, text, sizeof text, PLAIT_UINT8, from, NULL));
    return error != NULL ? error : text[0] == '\0' ? NULL : because("%s", text);
}

const char *share_verdict(struct plait_comm *comm, const char *why)
{
    return comm == NULL ? why : share_text(comm, why, 0);
}

const char *share_verdicts(struct plait_comm *comm, const char *why)
{
    const uint32_t none = plait_comm_nrank(comm);
    uint32_t first = why != NULL ? plait_comm_rank(comm) : none;

    if (comm == NULL)
        return why;
    const char *const error = failed(plait_allreduce(comm, &first, &first, 1, PLAIT_UINT32, PLAIT_MIN, NULL));
    return error != NULL ? error : first == none ? NULL : share_text(comm, why, first);
}
