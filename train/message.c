/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool hide;

void message_hide(bool hidden)
{
    hide = hidden;
}

static void print(const char *format, va_list arguments)
{
    fflush(stdout);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* the progress line */
    fputs("plait-train: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

bool complain(const char *format, ...)
{
    va_list arguments;

    if (hide)
        return false;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    return false;
}

void give_up(enum ending ending, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    _exit((int)ending); /* no destructors: other ranks see that this one has gone */
}

void must(enum plait_status status, const char *what)
{
    if (status != PLAIT_OK)
        give_up(status == PLAIT_ERR_PEER || status == PLAIT_ERR_FAILED ? ENDING_LOST : ENDING_ERROR, "%s: %s", what,
                plait_last_error());
}

double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
