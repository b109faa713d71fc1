/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the program, printed once where they are decided. */
#ifndef PLAIT_BENCH_MESSAGE_H
#define PLAIT_BENCH_MESSAGE_H

#include <stdbool.h>

/* Print "plait-perf: ..." to standard error; false, for `return complain(...)`. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
