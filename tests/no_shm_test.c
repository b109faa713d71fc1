/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks work where /dev/shm is full, read-only or missing. Each case changes a mount name space of its own;
 * without the right to do that the test is skipped (77).
 */
#include "child.h"
#include "ranks.h"
#include "values.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 300000

static int sum(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float *v = malloc(COUNT * sizeof *v);

    CHECK(v != NULL);
    values_fill(v, PLAIT_FLOAT32, PLAIT_SUM, 3, rank, COUNT);
    CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(values_wrong(v, PLAIT_FLOAT32, PLAIT_SUM, 3, COUNT) == 0);
    free(v);
    return 0;
}

/* Write to a file there until nothing more fits. */
static void fill(const char *place)
{
    char path[64], page[4096] = "";

    snprintf(path, sizeof path, "%s/all", place);
    FILE *f = fopen(path, "w");
    while (f != NULL && fwrite(page, sizeof page, 1, f) == 1 && fflush(f) == 0)
        ;
    if (f != NULL)
        fclose(f);
}

/* 0: it works; 1: it does not; 77: this machine does not let us try. */
static int with(const char *name, const char *place, unsigned long flags, const char *options)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = sum };
    const pid_t pid = child_fork();

    if (pid == 0) {
        if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", place, "tmpfs", flags, options) != 0) {
            printf("SKIP %s: no right to mount over %s: %s\n", name, place, strerror(errno));
            fflush(NULL);
            _exit(77);
        }
        if (flags == 0)
            fill(place);
        const unsigned failed = ranks_run(&r);
        printf("%s %s\n", failed == 0 ? "OK  " : "FAIL", name);
        fflush(NULL);
        _exit(failed != 0);
    }
    return child_end(pid);
}

int main(void)
{
    const int results[] = {
        with("/dev/shm full", "/dev/shm", 0, "size=64k"),
        with("/dev/shm read-only", "/dev/shm", MS_RDONLY, NULL),
        with("no /dev at all", "/dev", 0, "size=64k"),
        with("/tmp read-only", "/tmp", MS_RDONLY, NULL),
    };
    int worst = 0;

    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        worst = results[i] == 0 || worst == 1 ? worst : results[i];
    return worst;
}
