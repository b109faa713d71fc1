/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 2048

static const char *const names[] = { "error", "warn", "info", "debug" };
static atomic_int limit = PLAIT_LOG_WARN;

void plait_log_level(enum plait_log_level level)
{
    atomic_store_explicit(&limit, (int)level, memory_order_relaxed);
}

/* Length of what snprintf wrote into `room` bytes. */
static size_t written(int n, size_t room)
{
    if (n < 0)
        return 0;
    return (size_t)n < room ? (size_t)n : room - 1;
}

void plait_log(enum plait_log_level level, const char *format, ...)
{
    char line[LONGEST], host[64] = "?";
    const int saved = errno;
    va_list args;
    size_t n;

    if ((int)level > atomic_load_explicit(&limit, memory_order_relaxed))
        return;
    gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    n = written(snprintf(line, sizeof line, "plait[%s:%ld] %s: ", host, (long)getpid(), names[level]), sizeof line);
    va_start(args, format);
    n += written(vsnprintf(line + n, sizeof line - n, format, args), sizeof line - n);
    va_end(args);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[n] = '\n'; /* written() leaves room: n is at most LONGEST - 1 */
    if (write(STDERR_FILENO, line, n + 1) < 0) {
        /* Nowhere to report it. */
    }
    errno = saved;
}
