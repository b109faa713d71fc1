/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int lost; /* errno */

void output_lost(int error)
{
    lost = lost != 0 ? lost : error;
}

static bool reader_left(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/* Network file systems tell of a full disk when a descriptor is closed: any one will do. */
static bool close_fails(void)
{
    const int fd = dup(STDOUT_FILENO);

    return fd >= 0 && close(fd) != 0;
}

void output_begin(const char *program)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) /* open() takes the least that is free */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_PATH) < 0) {
            fprintf(stderr, "%s: descriptor %d is closed, and /dev/null cannot be put in its place: %s; open it\n",
                    program, fd, strerror(errno));
            exit(1);
        }
}

int output_end(const char *program, int status)
{
    errno = 0; /* of an earlier write by stdio the cause is not known any more */
    if ((lost == 0 && fflush(stdout) == 0 && ferror(stdout) == 0 && !close_fails()) || reader_left())
        return status;
    errno = lost != 0 ? lost : errno;
    fprintf(stderr, "%s: standard output cannot be written: %s; free some space, or name another file\n", program,
            errno != 0 ? strerror(errno) : "an earlier write failed");
    return status != 0 ? status : 1;
}
