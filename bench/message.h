/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the program, printed once where they are decided. */
#ifndef PLAIT_BENCH_MESSAGE_H
#define PLAIT_BENCH_MESSAGE_H

#include <stdbool.h>

/* Print "plait-perf: ..." to standard error; false, for `return complain(...)`. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say nothing from here on, or say it again: of ranks that all find the same. */
void message_hide(bool hidden);

#ifdef __clang_analyzer__ /* it sees one file at a time, and would not know that this is false */
#define complain(...) (complain(__VA_ARGS__), false)
#endif

#endif
