/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tuning file counts on this host (plugin/tuning.h says what is in it). */
#ifndef PLAIT_LIB_MACHINE_TUNED_H
#define PLAIT_LIB_MACHINE_TUNED_H

#include "plugin/tuning.h"

#define PLAIT_TUNING_PATH 512 /* bytes */

/* Fill version, date, processor, processors and fingerprint: this library, today, and this host. The rest is 0. */
void plait_tuning_describe(struct plait_tuning *out);

/* The file in which plait-tune puts the result of this user: $XDG_CONFIG_HOME/plait/tuning.json or in ~/.config. */
void plait_tuning_path(char out[PLAIT_TUNING_PATH]);

/*
 * Load the file that counts: `setting` (PLAIT_TUNING), or if that is "" plait_tuning_path(), or else
 * /etc/plait/tuning.json. Setting "none": none.
 *
 * path    gets its name; "": there is none, which is no error
 * Errors: PLAIT_ERR_CONFIG (it is malformed, or of another machine: the text says so), plait_tuning_load()'s.
 *         *out is to be finished after success, which includes that there is none.
 */
enum plait_status plait_tuning_find(const char *setting, char path[PLAIT_TUNING_PATH], struct plait_tuning *out);

/* The same, but a file that cannot be used is as none, after a warning, which comes once in a process. */
void plait_tuning_take(const char *setting, char path[PLAIT_TUNING_PATH], struct plait_tuning *out);

/*
 * Keep the rows that count for ranks on so many hosts, `each` on every one (0: unequal): for each collective and memory
 * those of the nearest number of ranks, at most twice as many and at least half as many. One host or several, and more
 * ranks than processors or not, must agree.
 */
void plait_tuning_keep(struct plait_tuning *tuning, uint32_t hosts, uint32_t each, bool oversubscribed);

#endif
