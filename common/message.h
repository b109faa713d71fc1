/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a program to its user, on standard error. Thread: any. */
#ifndef PLAIT_COMMON_MESSAGE_H
#define PLAIT_COMMON_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/** Print "PROGRAM: ..."; false, for `return complain(...)`. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Print "PROGRAM: note: ...": of what is as the user may not expect, and no error. */
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The ending of a plural, for n things: "%u rank%s". */
static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/** As complain(), even while messages are hidden: of what this process alone has found. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_list(const char *format, va_list arguments);

/** complain() and remark() print nothing while hidden: where all ranks find the same error, rank 0 prints it. */
void message_hide(bool hidden);
bool message_hidden(void);

/** The name that begins each message; program_begin() sets it. The text must live as long as the process. */
void message_name(const char *program);

#ifdef __clang_analyzer__ /* the analyzer sees one file at a time, and would not know that the result is false */
#define complain(...) (complain(__VA_ARGS__), false)
#endif

#endif
