/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning files (plugin/tuning.h), which libplait only reads. */
#ifndef PLAIT_TOOLS_TUNING_SAVE_H
#define PLAIT_TOOLS_TUNING_SAVE_H

#include "plugin/tuning.h"

/* Write a file, which is loaded as the same tuning. Errors: plait_tuning_load()'s; what that would refuse. */
enum plait_status tuning_save(const struct plait_tuning *tuning, const char *path);

#endif
