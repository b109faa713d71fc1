/* SPDX-License-Identifier: BSD-3-Clause */
#include "why.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *because(const char *format, ...)
{
    static _Thread_local char text[PATH_MAX + 512];
    char made[sizeof text];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(made, sizeof made, format, arguments);
    va_end(arguments);
    for (char *c = made; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    memcpy(text, made, sizeof text);
    return text;
}
