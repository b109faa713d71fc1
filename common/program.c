/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int lost; /* errno */
static void (*last)(void *, const char *);
static void *last_context;
static atomic_flag leaving = ATOMIC_FLAG_INIT;
static _Thread_local bool is_leaving; /* this thread: its last words may give up, too */

void output_lost(int error)
{
    lost = lost != 0 ? lost : error;
}

static bool reader_left(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/* Network file systems report a full disk when a descriptor is closed; any duplicate will do. */
static bool close_fails(void)
{
    const int fd = dup(STDOUT_FILENO);

    return fd >= 0 && close(fd) != 0;
}

void program_begin(const char *name)
{
    message_name(name);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) /* open() takes the lowest free number */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_PATH) < 0) {
            tell("descriptor %d is closed, and /dev/null cannot be put in its place: %s; open it", fd, strerror(errno));
            _exit(1);
        }
}

int program_end(int status)
{
    errno = 0; /* the cause of an earlier failure of stdio is not known */
    if ((lost == 0 && fflush(stdout) == 0 && ferror(stdout) == 0 && !close_fails()) || reader_left())
        return status;
    errno = lost != 0 ? lost : errno;
    tell("standard output cannot be written: %s; free some space, or name another file",
         errno != 0 ? strerror(errno) : "an earlier write failed");
    return status != 0 ? status : 1;
}

void before_leaving(void (*function)(void *, const char *), void *context)
{
    last_context = context;
    last = function;
}

static _Noreturn void leave_because(int status, const char *why)
{
    enum { PATIENCE = 60 }; /* seconds for the last words of another thread */
    void (*const function)(void *, const char *) = last;

    if (!is_leaving && atomic_flag_test_and_set(&leaving)) {
        sleep(PATIENCE);
        _exit(status);
    }
    is_leaving = true;
    last = NULL; /* the function itself may leave */
    if (function != NULL)
        function(last_context, why);
    _exit(program_end(status));
}

void leave(int status)
{
    leave_because(status, NULL);
}

void give_up(int status, const char *format, ...)
{
    char why[8192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    tell("%s", why);
    leave_because(status, why);
}
