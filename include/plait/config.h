/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration: every PLAIT_* variable comes from one table.
 *
 * Values come from the environment, then from the file named by PLAIT_CONFIG (lines "NAME = value",
 * # comments), then from the default.
 */
#ifndef PLAIT_CONFIG_H
#define PLAIT_CONFIG_H

#include <plait/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_setting {
    const char *name; /* "PLAIT_DEADLINE" */
    const char *text; /* what it does, with its unit */
    char value[256];  /* as it applies */
    char origin[256]; /* "default", "environment" or "FILE:LINE" */
};

/**
 * The i-th setting, from 0.
 *
 * Thread: any, while none changes the environment.
 * Errors: PLAIT_ERR_ARG when there is no i-th; PLAIT_ERR_CONFIG when a value cannot be parsed (named).
 */
PLAIT_API enum plait_status plait_config_get(size_t i, struct plait_setting *out);

#ifdef __cplusplus
}
#endif
#endif
