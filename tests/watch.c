/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include "unit.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *watch_info;

int dump(pid_t pid, const char *more, char *text, size_t room)
{
    char command[512];
    size_t n = 0, got;

    snprintf(command, sizeof command, "%s --dump %d %s 2>&1", watch_info, (int)pid, more);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while ((got = fread(text + n, 1, room - 1 - n, f)) > 0)
        n += got;
    text[n] = '\0';
    const int how = pclose(f);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

bool dump_says(pid_t pid, const char *words, char *text, size_t room)
{
    for (const double until = plait_clock() + 20; plait_clock() < until; usleep(20000))
        if (dump(pid, "--last 1", text, room) == 0 && strstr(text, words) != NULL)
            return true;
    return false;
}

void hear(void *context, enum plait_log_level level, const char *line)
{
    struct heard *h = context;

    pthread_mutex_lock(&h->lock);
    h->n[level]++;
    if (level == PLAIT_LOG_WARN)
        snprintf(h->warning, sizeof h->warning, "%s", line);
    snprintf(h->all + strlen(h->all), sizeof h->all - strlen(h->all), "%s\n", line);
    pthread_mutex_unlock(&h->lock);
}
