/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include "descriptor.h"
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
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

static unsigned days_of(unsigned year, unsigned month)
{
    static const unsigned char days[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month] + (leap && month == 1);
}

/* A blank and the time, UTC. Not gmtime_r(): libc's lock in it may stay locked for ever in a forked child. */
static void print_time(char text[64])
{
    struct timespec t;
    unsigned year = 1970, month = 0;

    clock_gettime(CLOCK_REALTIME, &t);
    unsigned days = (unsigned)(t.tv_sec / 86400);
    const unsigned seconds = (unsigned)(t.tv_sec % 86400);
    for (; days >= days_of(year, month); month = (month + 1) % 12, year += month == 0)
        days -= days_of(year, month);
    snprintf(text, 64, " %04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month + 1, days + 1, seconds / 3600,
             seconds / 60 % 60, seconds % 60, (unsigned)(t.tv_nsec / 1000000));
}

/* ---- The file ------------------------------------------------------------------------------------ */

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static char pattern[256]; /* "": stderr */
static int file = -1;     /* open for appending; -1: not open yet, or failed to open */
static pid_t file_pid;    /* the process that tried to open it, as a forked child opens its own; 0: none */

static void close_file(void)
{
    plait_descriptor_close(file);
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

const struct plait_fork_module plait_log_fork = { .lock = &file_lock };

bool plait_log_wants(enum plait_log_level level)
{
    return (int)level <= atomic_load_explicit(&limit, memory_order_relaxed);
}

/* The path for the pattern: %h is the host, %p the process, %% a %. */
static void expand(char *path, size_t room)
{
    struct host host = host_name();
    char pid[24];
    size_t n = 0;

    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    for (char *c = strchr(host.name, '/'); c != NULL; c = strchr(c, '/'))
        *c = '_';
    path[0] = '\0';
    for (const char *c = pattern; *c != '\0'; c++) {
        const char kind = *c == '%' ? c[1] : '\0', same[] = { *c, '\0' };
        const char *part = kind == 'h' ? host.name : kind == 'p' ? pid : same;
        n += written(snprintf(path + n, room - n, "%s", part), room - n);
        c += kind == 'h' || kind == 'p' || kind == '%';
    }
}

/* Open the file at `path` unless this process has tried before. Returns an errno. */
static int open_file(char *path, size_t room)
{
    if (pattern[0] == '\0' || (file_pid == getpid() && plait_descriptor_is_ours(file)))
        return 0;
    close_file();
    file_pid = getpid();
    expand(path, room);
    file = plait_descriptor_keep(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), "its log");
    return file < 0 ? errno : 0;
}

/* Write a line of n bytes, with the time after the first `head`, in one call: other processes share the file. */
static void write_line(char *line, size_t head, size_t n)
{
    char path[1024], now[64];

    pthread_mutex_lock(&file_lock);
    const int error = open_file(path, sizeof path);
    print_time(now);
    const struct iovec parts[] = { { line, head }, { now, strlen(now) }, { line + head, n - head } };
    if (writev(file >= 0 ? file : STDERR_FILENO, parts, 3) < 0) {
        /* Nowhere to report it. */
    }
    pthread_mutex_unlock(&file_lock);
    if (error != 0)
        plait_log(PLAIT_LOG_WARN, "PLAIT_LOG_FILE='%s' cannot be opened (%s): log lines go to stderr", path,
                  strerror(error));
}

/* ---- The callback -------------------------------------------------------------------------------- */

static pthread_rwlock_t callback_lock = PTHREAD_RWLOCK_INITIALIZER;
static void (*callback)(void *, enum plait_log_level, const char *);
static void *callback_context;
static _Thread_local bool inside; /* this thread is inside the callback */

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
    const size_t head =
        written(snprintf(line, sizeof line, "plait[%s:%ld]", host_name().name, (long)getpid()), sizeof line);
    n = head + written(snprintf(line + head, sizeof line - head, " %s: ", names[level]), sizeof line - head);
    va_start(args, format);
    n += written(vsnprintf(line + n, sizeof line - n, format, args), sizeof line - n);
    va_end(args);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    if (!call_back(level, line)) {
        line[n] = '\n'; /* n is at most LONGEST - 1, see written() */
        write_line(line, head, n + 1);
    }
    errno = saved;
}

void plait_log_write(enum plait_log_level level, const char *text)
{
    if (text != NULL && level >= PLAIT_LOG_ERROR && level <= PLAIT_LOG_DEBUG)
        plait_log(level, "%s", text);
}
