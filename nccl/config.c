/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "environment.h"
#include "error.h"

#include <stdio.h>
#include <string.h>

ncclResult_t nccl_config_read(const ncclConfig_t *config, const char *call, struct nccl_config *out)
{
    ncclConfig_t all = NCCL_CONFIG_INITIALIZER;
    const char *forced = nccl_environment("NCCL_COMM_BLOCKING");

    if (config != NULL && (config->magic != NCCL_API_MAGIC || config->size < offsetof(ncclConfig_t, blocking)))
        return nccl_fail(ncclInvalidArgument, NULL, "%s: config does not begin with NCCL_CONFIG_INITIALIZER", call);
    if (config != NULL)
        memcpy(&all, config, config->size < sizeof all ? config->size : sizeof all);
    if (all.blocking != NCCL_CONFIG_UNDEF_INT && all.blocking != 0 && all.blocking != 1)
        return nccl_fail(ncclInvalidArgument, NULL, "%s: config->blocking is %d: must be 0, 1 or NCCL_CONFIG_UNDEF_INT",
                         call, all.blocking);
    if (forced != NULL && strcmp(forced, "0") != 0 && strcmp(forced, "1") != 0)
        nccl_log(PLAIT_LOG_WARN, "NCCL_COMM_BLOCKING='%s' is not used: must be 0 or 1", forced);
    else if (forced != NULL)
        all.blocking = forced[0] == '1';
    if (all.blocking != NCCL_CONFIG_UNDEF_INT)
        out->blocking = all.blocking == 1;
    if (all.commName != NULL)
        snprintf(out->name, sizeof out->name, "%s", all.commName);
    return ncclSuccess;
}
