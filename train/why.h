/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a file could not be read or written: functions return NULL, or a text that names the file, what is wrong and the
 * remedy. */
#ifndef PLAIT_TRAIN_WHY_H
#define PLAIT_TRAIN_WHY_H

/** A text, for `return because(...)`: this thread's, until its next call. The one before may be an argument. Names come from
 *  files: what a terminal would obey is not shown. */
const char *because(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
