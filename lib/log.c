/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 2048

static const char *const names[] = { "error", "warn", "info", "debug" };
static atomic_int limit = PLAIT_LOG_WARN;

static struct host {
    char name[64];
} host_name(void)
{
    struct host h = { "?" };

    gethostname(h.name, sizeof h.name - 1);
    h.name[sizeof h.name - 1] = '\0';
    return h;
}

/* Length of what snprintf wrote into `room` bytes. */
static size_t written(int n, size_t room)
{
    if (n < 0)
        return 0;
    return (size_t)n < room ? (size_t)n : room - 1;
}

/* ---- The file ------------------------------------------------------------------------------------ */

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static char pattern[256]; /* "": stderr */
static int file = -1;     /* open for appending; -1: not yet, or it cannot be */
static pid_t file_pid;    /* a forked child opens its own; 0: nobody has tried to open this pattern */

static void close_file(void)
{
    if (file >= 0)
        close(file);
    file = -1;
    file_pid = 0;
}

void plait_log_setup(enum plait_log_level level, const char *name)
{
    atomic_store_explicit(&limit, (int)level, memory_order_relaxed);
    pthread_mutex_lock(&file_lock);
    if (strcmp(pattern, name) != 0) {
        close_file();
        snprintf(pattern, sizeof pattern, "%s", name);
    }
    pthread_mutex_unlock(&file_lock);
}

void plait_log_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE)
        pthread_mutex_lock(&file_lock);
    else
        pthread_mutex_unlock(&file_lock);
}

bool plait_log_wants(enum plait_log_level level)
{
    return (int)level <= atomic_load_explicit(&limit, memory_order_relaxed);
}

static void expand(char *path, size_t room)
{
    struct host host = host_name();
    size_t n = 0;

    for (char *c = strchr(host.name, '/'); c != NULL; c = strchr(c, '/'))
        *c = '_';
    path[0] = '\0';
    for (const char *c = pattern; *c != '\0' && n + 1 < room; c++) {
        if (*c != '%')
            n += written(snprintf(path + n, room - n, "%c", *c), room - n);
        else if (*++c == 'h')
            n += written(snprintf(path + n, room - n, "%s", host.name), room - n);
        else if (*c == 'p')
            n += written(snprintf(path + n, room - n, "%ld", (long)getpid()), room - n);
        else
            n += written(snprintf(path + n, room - n, "%%"), room - n);
    }
}

/* Open the file unless that was tried; stderr hears why it cannot be. */
static void open_file(void)
{
    char path[1024], text[LONGEST];

    if (pattern[0] == '\0' || file_pid == getpid())
        return;
    close_file();
    file_pid = getpid();
    expand(path, sizeof path);
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file >= 0)
        return;
    const size_t n = written(snprintf(text, sizeof text,
                                      "plait[%s:%ld] warn: PLAIT_LOG_FILE='%s' cannot be opened (%s): "
                                      "log lines go to stderr\n",
                                      host_name().name, (long)getpid(), path, strerror(errno)),
                             sizeof text);
    if (write(STDERR_FILENO, text, n) < 0) {
        /* Nowhere to report it. */
    }
}

static void write_line(const char *line, size_t n)
{
    pthread_mutex_lock(&file_lock);
    open_file();
    if (write(file >= 0 ? file : STDERR_FILENO, line, n) < 0) {
        /* Nowhere to report it. */
    }
    pthread_mutex_unlock(&file_lock);
}

/* ---- The callback -------------------------------------------------------------------------------- */

static pthread_rwlock_t callback_lock = PTHREAD_RWLOCK_INITIALIZER;
static void (*callback)(void *, enum plait_log_level, const char *);
static void *callback_context;
static _Thread_local bool inside; /* of the callback */

void plait_log_callback(void (*new_callback)(void *, enum plait_log_level, const char *), void *context)
{
    pthread_rwlock_wrlock(&callback_lock);
    callback = new_callback;
    callback_context = context;
    pthread_rwlock_unlock(&callback_lock);
}

static bool call_back(enum plait_log_level level, const char *line)
{
    if (inside)
        return false;
    pthread_rwlock_rdlock(&callback_lock);
    const bool taken = callback != NULL;
    if (taken) {
        inside = true;
        callback(callback_context, level, line);
        inside = false;
    }
    pthread_rwlock_unlock(&callback_lock);
    return taken;
}

/* ---- Lines --------------------------------------------------------------------------------------- */

void plait_log(enum plait_log_level level, const char *format, ...)
{
    char line[LONGEST];
    const int saved = errno;
    va_list args;
    size_t n;

    if (!plait_log_wants(level))
        return;
    n = written(snprintf(line, sizeof line, "plait[%s:%ld] %s: ", host_name().name, (long)getpid(), names[level]),
                sizeof line);
    va_start(args, format);
    n += written(vsnprintf(line + n, sizeof line - n, format, args), sizeof line - n);
    va_end(args);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    if (!call_back(level, line)) {
        line[n] = '\n'; /* written() leaves room: n is at most LONGEST - 1 */
        write_line(line, n + 1);
    }
    errno = saved;
}

void plait_log_write(enum plait_log_level level, const char *text)
{
    if (text != NULL && level >= PLAIT_LOG_ERROR && level <= PLAIT_LOG_DEBUG)
        plait_log(level, "%s", text);
}
