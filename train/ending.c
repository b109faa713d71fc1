/* SPDX-License-Identifier: BSD-3-Clause */
#include "ending.h"

#include "../tools/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool silent;

void complain_no_more(void)
{
    silent = true;
}

/* In one piece, as other ranks may be printing too. */
static void print(const char *format, va_list arguments)
{
    char text[8192];

    vsnprintf(text, sizeof text, format, arguments);
    fflush(stdout);
    fprintf(stderr, "%splait-train: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text); /* over the progress line */
}

void tell(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

bool complain(const char *format, ...)
{
    va_list arguments;

    if (silent)
        return false;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    return false;
}

/* The later in this list says more; a status that is none of ours most of all. */
static int weight(int status)
{
    static const int order[] = {
        ENDING_GOOD, ENDING_LOST, ENDING_SIGNAL, ENDING_NONFINITE, ENDING_USAGE, ENDING_ERROR
    };
    const int n = sizeof order / sizeof *order;
    int k = 0;

    while (k < n && order[k] != (status > ENDING_SIGNAL ? ENDING_SIGNAL : status))
        k++;
    return k;
}

int ending_worse(int a, int b)
{
    return weight(a) > weight(b) ? a : b;
}

enum ending ending_of(enum plait_status status)
{
    return status == PLAIT_ERR_PEER || status == PLAIT_ERR_FAILED || status == PLAIT_ERR_TIMEOUT ? ENDING_LOST
                                                                                                 : ENDING_ERROR;
}

static void (*last)(void *);
static void *last_context;

void before_leaving(void (*function)(void *), void *context)
{
    last_context = context;
    last = function;
}

void leave(enum ending ending)
{
    void (*const function)(void *) = last;

    last = NULL; /* it may have to leave itself */
    if (function != NULL)
        function(last_context);
    _exit(output_end("plait-train", (int)ending));
}

void give_up(enum ending ending, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    leave(ending);
}

void must(enum plait_status status, const char *what)
{
    if (status != PLAIT_OK)
        give_up(ending_of(status), "%s: %s", what, plait_last_error());
}

void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (memory == NULL)
        give_up(ENDING_ERROR, "no memory for %zu elements of %zu bytes; ask for smaller batches or a shorter queue", n,
                size);
    return memory;
}

void *grow(void *array, size_t n, size_t size)
{
    void *grown = realloc(array, n * size);

    if (grown == NULL)
        give_up(ENDING_ERROR, "no memory for a list of %zu elements of %zu bytes", n, size);
    return grown;
}
