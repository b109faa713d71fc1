/* SPDX-License-Identifier: BSD-3-Clause */
#include "system_limits.h"

#include "descriptor.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define NO_LIMIT ((uint64_t)1 << 60) /* the kernel's "unlimited" is near 2^63 */

/* RLIMIT_NOFILE limits the numbers. Inherited descriptors with higher numbers do not count against it. */
static void count_descriptors(DIR *d, rlim_t limit, size_t *below, size_t *open)
{
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d)) {
            *below += strtoul(e->d_name, NULL, 10) < limit;
            ++*open;
        }
}

enum plait_status plait_check_descriptors(size_t n, size_t later, const char *who)
{
    struct rlimit limit;
    size_t below = 0, open = 0;

    if (n == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return PLAIT_OK;
    DIR *d = plait_descriptor_folder("/proc/self/fd");
    if (d == NULL && errno == ENFILE)
        return plait_fail_errno(errno, "%s needs %zu more descriptors", who, n);
    if (d == NULL && errno == EMFILE)
        below = open = (size_t)limit.rlim_cur;
    if (d != NULL) {
        count_descriptors(d, limit.rlim_cur, &below, &open);
        closedir(d);
    }
    if (n <= limit.rlim_cur && below <= limit.rlim_cur - n)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_SYSTEM,
                      "%s needs %zu more descriptors, but of the %llu that this process may have %zu are in use; raise "
                      "the limit to at least %zu (ulimit -n)",
                      who, n, (unsigned long long)limit.rlim_cur, below, open + n + later);
}

size_t plait_most_file_bytes(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

size_t plait_most_mapped_bytes(void)
{
    struct rlimit limit;
    char text[64];

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        plait_descriptor_read("/proc/self/statm", text, sizeof text) == 0)
        return SIZE_MAX;
    const size_t mapped = strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
    return mapped < limit.rlim_cur ? (size_t)limit.rlim_cur - mapped : 0;
}

/*
 * After mlockall(MCL_FUTURE) the kernel populates every new mapping at once, except PROT_NONE ones. So map with
 * PROT_NONE, munlock, then allow access.
 */
enum plait_status plait_reserve(size_t bytes, bool writable, int fd, const char *what, void **out)
{
    const int flags = MAP_NORESERVE | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    void *const p = mmap(NULL, bytes, PROT_NONE, flags, fd, 0);
    struct rlimit limit;

    if (p != MAP_FAILED && munlock(p, bytes) == 0 &&
        mprotect(p, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0) {
        *out = p;
        return PLAIT_OK;
    }
    const int error = errno;
    if (p != MAP_FAILED)
        munmap(p, bytes);
    if (error == EAGAIN && getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        return plait_fail(
            PLAIT_ERR_SYSTEM,
            "cannot map %zu bytes of %s: mlockall(MCL_FUTURE) counts all that is mapped as locked, and this "
            "process may lock %llu bytes; raise the limit (ulimit -l), lock after the comm is created, or "
            "make arenas smaller (PLAIT_ARENA)",
            bytes, what, (unsigned long long)limit.rlim_cur);
    return plait_fail_errno(error, "cannot map %zu bytes of %s (PLAIT_ARENA makes arenas smaller)", bytes, what);
}

/* ---- Control groups ----------------------------------------------------------------------------------- */

/* Control groups, version 2 and version 1. */
struct version {
    const char *controller, *root, *limit, *usage, *cache[2];
};

static const struct version versions[] = {
    { "", "/sys/fs/cgroup", "memory.max", "memory.current", { "\ninactive_file ", "\nactive_file " } },
    { "memory",
      "/sys/fs/cgroup/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      { "\ntotal_inactive_file ", "\ntotal_active_file " } },
};

/* Read a number from a group's file; `none` if there is no file or number. */
static uint64_t number(const struct version *v, const char *group, const char *name, uint64_t none)
{
    char path[1024], text[64], *end;

    snprintf(path, sizeof path, "%s%s/%s", v->root, group, name);
    if (plait_descriptor_read(path, text, sizeof text) == 0)
        return none;
    const uint64_t n = strtoull(text, &end, 10);
    return end == text ? none : n; /* "max" */
}

/* Bytes of page cache in the group, which the kernel reclaims before it kills a process. */
static uint64_t cache_of(const struct version *v, const char *group)
{
    char path[1024], text[4096];
    uint64_t sum = 0;

    snprintf(path, sizeof path, "%s%s/memory.stat", v->root, group);
    if (plait_descriptor_read(path, text, sizeof text) > 0)
        for (unsigned i = 0; i < 2; i++) {
            const char *at = strstr(text, v->cache[i]);
            sum += at != NULL ? strtoull(at + strlen(v->cache[i]), NULL, 10) : 0;
        }
    return sum;
}

/* Check the group and all its ancestors. */
static enum plait_status check_groups(const struct version *v, char *group, size_t bytes)
{
    for (;;) {
        const uint64_t limit = number(v, group, v->limit, NO_LIMIT);
        const uint64_t usage = limit < NO_LIMIT ? number(v, group, v->usage, 0) : 0;
        if (limit < NO_LIMIT && usage + bytes > limit && usage + bytes > limit + cache_of(v, group))
            return plait_fail(PLAIT_ERR_NOMEM,
                              "no %zu bytes of memory: the control group %s%s may use %llu bytes and uses %llu; raise "
                              "its %s",
                              bytes, v->root, group, (unsigned long long)limit, (unsigned long long)usage, v->limit);
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return PLAIT_OK;
        *slash = '\0';
    }
}

/* Is `name` in the list "a,b,c"? Version 2 has the empty list and the name "". */
static bool lists(const char *list, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = list;; p++) {
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
        p = strchr(p, ',');
        if (p == NULL)
            return false;
    }
}

static enum plait_status check_cgroup(size_t bytes)
{
    char text[4096], *save = NULL;
    enum plait_status status = PLAIT_OK;

    if (plait_descriptor_read("/proc/self/cgroup", text, sizeof text) == 0)
        return PLAIT_OK;
    /* Lines of "number:controllers:group". */
    for (char *line = strtok_r(text, "\n", &save); line != NULL && status == PLAIT_OK;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':'), *group = list != NULL ? strchr(list + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        if (strcmp(group, "/") == 0)
            group++;
        for (size_t i = 0; i < sizeof versions / sizeof *versions && status == PLAIT_OK; i++)
            if (lists(list + 1, versions[i].controller))
                status = check_groups(&versions[i], group, bytes);
    }
    return status;
}

/* Bytes in one line of /proc/meminfo; `none` if there is no such line. */
static uint64_t line_of(const char *text, const char *name, uint64_t none)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) << 10 : none;
}

static enum plait_status check_machine(size_t bytes)
{
    char text[4096];

    if (plait_descriptor_read("/proc/meminfo", text, sizeof text) == 0)
        return PLAIT_OK;
    const uint64_t left = line_of(text, "\nMemAvailable:", NO_LIMIT) + line_of(text, "\nSwapFree:", 0);
    return bytes <= left ? PLAIT_OK
                         : plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes of memory: this machine has %llu available", bytes,
                                      (unsigned long long)left);
}

enum plait_status plait_check_memory(size_t bytes)
{
    const int saved = errno; /* opening files that this machine lacks changes errno */
    enum plait_status status = check_machine(bytes);

    if (status == PLAIT_OK)
        status = check_cgroup(bytes);
    errno = saved;
    return status;
}
