/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include <stdio.h>
#include <unistd.h>

static const char *name = "plait";
static bool hide;

void message_name(const char *program)
{
    name = program;
}

void message_hide(bool hidden)
{
    hide = hidden;
}

bool message_hidden(void)
{
    return hide;
}

/* In one piece, since other ranks may print too; on a terminal over the progress line. */
void tell_list(const char *format, va_list arguments)
{
    char text[8192];

    vsnprintf(text, sizeof text, format, arguments);
    fflush(stdout);
    fprintf(stderr, "%s%s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", name, text);
}

void tell(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell_list(format, arguments);
    va_end(arguments);
}

void remark(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!hide)
        tell("note: %s", text);
}

bool(complain)(const char *format, ...)
{
    va_list arguments;

    if (hide)
        return false;
    va_start(arguments, format);
    tell_list(format, arguments);
    va_end(arguments);
    return false;
}
