/* SPDX-License-Identifier: BSD-3-Clause */
/* One table defines every setting: variable, default, text, offset in struct plait_config, and parser. */
#ifndef PLAIT_LIB_BASE_CONFIG_ROWS_H
#define PLAIT_LIB_BASE_CONFIG_ROWS_H

#include "config.h"

#include <stddef.h>

struct plait_config_row {
    const char *name, *initial, *text;
    size_t offset;
    /* Writes *field and returns NULL; or leaves *field and returns a text that says what is allowed. */
    const char *(*parse)(const char *text, void *field);
    bool secret; /* never print the value */
};

#define PLAIT_NSETTING 27
extern const struct plait_config_row plait_config_rows[PLAIT_NSETTING];

#endif
