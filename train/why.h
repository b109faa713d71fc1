/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of files: functions return NULL, or a text that names the file, the cause and the remedy. */
#ifndef PLAIT_TRAIN_WHY_H
#define PLAIT_TRAIN_WHY_H

/**
 * Format a text, for `return because(...)`. It belongs to this thread until its next call, of which it may be an
 * argument. Control characters are replaced, since file names may contain any.
 */
const char *because(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
