/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --json: build, plug-ins, machine and settings as one object. */
#ifndef PLAIT_TOOLS_INFO_JSON_H
#define PLAIT_TOOLS_INFO_JSON_H

#include <stdbool.h>

/** Returns false after a message. */
bool info_print_json(void);

#endif
