/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields of an ncclConfig_t that are used. */
#ifndef PLAIT_NCCL_CONFIG_H
#define PLAIT_NCCL_CONFIG_H

#include "comm.h"

struct nccl_config {
    bool blocking;
    char name[NCCL_NAME_ROOM];
};

/* config: NULL, or config->size bytes; fields beyond that keep their value in *out */
ncclResult_t nccl_config_read(const ncclConfig_t *config, const char *call, struct nccl_config *out);

#endif
