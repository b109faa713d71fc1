/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the program, printed once where they are decided. */
#ifndef PLAIT_BENCH_MESSAGE_H
#define PLAIT_BENCH_MESSAGE_H

#include <stdbool.h>

/* Print "plait-perf: ..." to standard error; false, for `return complain(...)`. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __clang_analyzer__ /* it sees one file at a time, and would not know that this is false */
#define complain(...) (complain(__VA_ARGS__), false)
#endif

#endif
