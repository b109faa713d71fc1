/* SPDX-License-Identifier: BSD-3-Clause */
/* What of an ncclConfig_t is looked at. */
#ifndef PLAIT_NCCL_CONFIG_H
#define PLAIT_NCCL_CONFIG_H

#include "comm.h"

struct nccl_config {
    bool blocking;
    char name[NCCL_NAME_ROOM];
};

/* `config` is NULL or has config->size bytes; what it does not say is as in `out`. */
ncclResult_t nccl_config_read(const ncclConfig_t *config, const char *call, struct nccl_config *out);

#endif
