/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration: every PLAIT_* variable comes from one table.
 *
 * Values come from the environment, then from plait_config_set(), then from the file named by PLAIT_CONFIG (lines
 * "NAME = value", # comments), then from the default.
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
    char value[256];  /* the value in force */
    char origin[256]; /* "default", "environment", "FILE:LINE" or the origin given to plait_config_set() */
};

/**
 * The i-th setting, from 0.
 *
 * Thread: any, while none changes the environment.
 * Errors: PLAIT_ERR_ARG when there is no i-th; PLAIT_ERR_CONFIG when a value cannot be parsed (named).
 */
PLAIT_API enum plait_status plait_config_get(size_t i, struct plait_setting *out);

/**
 * Set a value that the environment does not set. It applies to comms and ids made from now on.
 *
 * name    "PLAIT_LOG"
 * value   as in the environment; "": the default; NULL: remove the value set here
 * origin  where the value comes from, for error texts and plait_setting.origin: "--log of the program"
 * Ownership: copied.
 * Thread: any
 * Errors: PLAIT_ERR_ARG (no such setting, no origin), PLAIT_ERR_CONFIG (says what is allowed); the setting is unchanged
 */
PLAIT_API enum plait_status plait_config_set(const char *name, const char *value, const char *origin);

#ifdef __cplusplus
}
#endif
#endif
