/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>

static bool hide;

void message_hide(bool hidden)
{
    hide = hidden;
}

bool(complain)(const char *format, ...)
{
    va_list arguments;

    if (hide)
        return false;
    fflush(stdout);
    fputs("plait-perf: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}
