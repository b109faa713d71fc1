/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch_ddp.h"

#include "beside.h"
#include "child.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* meeting: the file by which Gloo's ranks find each other; a memfd, so that nothing is left behind. */
static void become_rank(const struct ranks *r, uint32_t rank, const char *script, int meeting)
{
    const int nothing = open("/dev/null", O_RDONLY);
    char number[16], count[16], file[64];

    signal(SIGINT, SIG_IGN); /* Ctrl-C is for the coordinator, which ends its ranks itself */
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    dup2(nothing, 0);
    dup2(r->log_fd, 1);
    dup2(r->log_fd, 2);
    fcntl(meeting, F_SETFD, 0); /* execvp() leaves it open */
    snprintf(number, sizeof number, "%u", rank);
    snprintf(count, sizeof count, "%u", r->nrank);
    snprintf(file, sizeof file, "/proc/self/fd/%d", meeting);
    execlp("python3", "python3", script, r->where, number, count, file, (char *)NULL);
    fprintf(stderr, "python3: %s; install Python 3 and PyTorch\n", strerror(errno));
    _exit(127);
}

bool ddp_launch(struct ranks *r)
{
    char script[4200];

    if (!find_beside("plait-perf-ddp.py", R_OK, script, sizeof script))
        return complain("--peer gloo, ddp: %s is missing; build or install Plait again", script);
    if (!ranks_listen(r))
        return false;
    r->log_fd = memfd_create("ddp-output", MFD_CLOEXEC);
    const int meeting = memfd_create("ddp-meeting", MFD_CLOEXEC);
    bool ok = (r->log_fd >= 0 && meeting >= 0) || complain("%s: cannot start: %s", r->name, strerror(errno));
    for (uint32_t i = 0; ok && i < r->nrank; i++) {
        const pid_t child = child_fork(SIGKILL);
        if (child == 0)
            become_rank(r, i, script, meeting);
        if (child > 0)
            r->child[r->nchild++] = child;
        ok = child > 0 || complain("%s: cannot start rank %u: %s", r->name, i, strerror(errno));
    }
    if (meeting >= 0)
        close(meeting);
    return ok;
}
