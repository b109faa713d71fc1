/* SPDX-License-Identifier: BSD-3-Clause */
#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_follow(pid_t parent, int death)
{
    prctl(PR_SET_PDEATHSIG, death);
    if (getppid() != parent) /* it ended before the call */
        _exit(1);
}

pid_t child_fork(int death)
{
    const pid_t parent = getpid();

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        child_follow(parent, death);
    return child;
}

void child_end(int status, char *out, size_t room)
{
    if (WIFSIGNALED(status))
        snprintf(out, room, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(out, room, "exit status %d", WEXITSTATUS(status));
}

bool child_find(const char *program, const char *more, char *path, size_t room)
{
    const char *list = getenv("PATH");
    char all[8192], *rest = all;

    snprintf(all, sizeof all, "%s:%s", list != NULL ? list : "/usr/bin:/bin", more);
    for (char *folder = strsep(&rest, ":"); folder != NULL; folder = strsep(&rest, ":")) {
        snprintf(path, room, "%s/%s", folder, program);
        if (*folder != '\0' && access(path, X_OK) == 0)
            return true;
    }
    return false;
}
