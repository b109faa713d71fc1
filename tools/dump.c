/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds another process's arena among its descriptors in /proc, maps it read-only and prints it. The process need not
 * run or answer. A forked process also has its parent's arena, which the process number inside identifies.
 */
#include "dump.h"
#include "dump_arena.h"

#include "base/clock.h"
#include "message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_ARENAS 16 /* two copies of the library in one process have one each */

struct process {
    const char *pid; /* its number here */
    int own_pid;     /* its number as it sees it, which may differ in a container */
    char state;      /* of /proc/PID/status */
    char words[32];  /* "S (sleeping)" */
    ino_t seen[MOST_ARENAS];
    unsigned nseen, nshown;
};

static bool fail(const struct process *p, const char *text)
{
    return complain("process %s: %s", p->pid, text);
}

static bool read_status(struct process *p)
{
    char path[64], line[512];

    snprintf(path, sizeof path, "/proc/%.20s/status", p->pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return fail(p, "there is no such process on this machine (or /proc is missing)");
    p->own_pid = atoi(p->pid);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *last = strrchr(line, '\t');
        if (last != NULL && strncmp(line, "State:", 6) == 0)
            snprintf(p->words, sizeof p->words, "%s", last + 1);
        else if (last != NULL && strncmp(line, "NSpid:", 6) == 0)
            p->own_pid = atoi(last + 1);
    }
    fclose(f);
    p->state = p->words[0];
    return p->state == 'Z' || p->state == 'X' ? fail(p, "it has ended, and its memory is gone") : true;
}

static void print_line(void *context, const char *text)
{
    (void)context;
    puts(text);
}

/* Print the arena behind `fd`, if it is one, belongs to this process and was not printed yet. */
static bool show_arena(struct process *p, int fd, uint32_t last)
{
    struct stat s;

    if (fstat(fd, &s) != 0 || s.st_size <= 0)
        return true;
    for (unsigned i = 0; i < p->nseen; i++)
        if (p->seen[i] == s.st_ino)
            return true;
    if (p->nseen < MOST_ARENAS)
        p->seen[p->nseen++] = s.st_ino;
    const size_t size = (size_t)s.st_size;
    void *base = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return fail(p, strerror(errno));
    bool ok = true;
    if (plait_dump_pid(base, size) == p->own_pid) {
        struct plait_dump how = { .last = last, .now = plait_clock_ns(), .line = print_line };
        if (p->nshown++ == 0)
            printf("process %s, %s\n", p->pid, p->words);
        ok = plait_dump(base, size, &how) == PLAIT_OK || fail(p, how.error);
    }
    munmap(base, size);
    return ok;
}

static bool no_arena(const struct process *p)
{
    char path[80], children[256] = "", text[512];

    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/children", p->pid, p->pid);
    FILE *f = fopen(path, "re"); /* absent where the kernel lacks CONFIG_PROC_CHILDREN */
    if (f != NULL && fgets(children, sizeof children, f) != NULL)
        children[strcspn(children, "\n")] = '\0';
    if (f != NULL)
        fclose(f);
    snprintf(text, sizeof text, "it has no arena of Plait: it does not use the library, or has made no comm yet%s%s",
             children[0] != '\0' ? "; ranks that it has started are among its children: " : "", children);
    return fail(p, text);
}

static bool refused(const struct process *p)
{
    char text[160];

    snprintf(text, sizeof text, "%s; run plait-info as the user of that process, or as root", strerror(errno));
    return fail(p, text);
}

bool dump_process(const char *pid, uint32_t last)
{
    struct process p = { .pid = pid };
    char path[64], target[64];
    bool ok = true;

    if (!read_status(&p))
        return false;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *d = opendir(path);
    if (d == NULL)
        return refused(&p);
    for (struct dirent *e; ok && (e = readdir(d)) != NULL;) {
        const ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "/memfd:plait ", 13) != 0)
            continue;
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            ok = refused(&p);
            break;
        }
        ok = show_arena(&p, fd, last);
        close(fd);
    }
    closedir(d);
    if (ok && p.nshown == 0)
        return no_arena(&p);
    return ok;
}
