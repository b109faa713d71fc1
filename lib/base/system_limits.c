/* SPDX-License-Identifier: BSD-3-Clause */
#include "system_limits.h"

#include "descriptor.h"
#include "status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define NO_LIMIT ((uint64_t)1 << 50) /* the kernel's "unlimited" is near 2^63 */

size_t plait_limit(int resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

/*
 * After mlockall(MCL_FUTURE) the kernel populates every new mapping at once, except PROT_NONE ones. So map with
 * PROT_NONE, munlock, then allow access.
 */
enum plait_status plait_reserve(size_t bytes, bool writable, int fd, const char *what, void **out)
{
    const int flags = MAP_NORESERVE | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    void *const p = mmap(NULL, bytes, PROT_NONE, flags, fd, 0);

    if (p != MAP_FAILED && munlock(p, bytes) == 0 &&
        mprotect(p, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0) {
        *out = p;
        return PLAIT_OK;
    }
    const int error = errno;
    if (p != MAP_FAILED)
        munmap(p, bytes);
    if (error == EAGAIN)
        return plait_fail(
            PLAIT_ERR_SYSTEM,
            "cannot map %zu bytes of %s: mlockall(MCL_FUTURE) counts all that is mapped as locked, and this "
            "process may lock %zu bytes; raise the limit (ulimit -l), lock after the comm is created, or "
            "make arenas smaller (PLAIT_ARENA)",
            bytes, what, plait_limit(RLIMIT_MEMLOCK));
    return plait_fail_errno(error, "cannot map %zu bytes of %s (PLAIT_ARENA makes arenas smaller)", bytes, what);
}

/* ---- Memory that is left ------------------------------------------------------------------------------ */

/*
 * The number behind the first `key` in a file; behind "", at its start. `none`: there is no such file, key or number
 * ("max").
 */
static uint64_t number(const char *path, const char *key, uint64_t none)
{
    char text[4096], *end;

    if (plait_descriptor_read(path, text, sizeof text) == 0)
        return none;
    const char *at = strstr(text, key);
    if (at == NULL)
        return none;
    const uint64_t n = strtoull(at + strlen(key), &end, 10);
    return end == at + strlen(key) ? none : n;
}

/* Control groups, version 2 and version 1. */
static const struct version {
    const char *root, *limit, *usage, *cache[2]; /* cache: keys in memory.stat */
} versions[] = {
    { "/sys/fs/cgroup", "memory.max", "memory.current", { "\ninactive_file ", "\nactive_file " } },
    { "/sys/fs/cgroup/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      { "\ntotal_inactive_file ", "\ntotal_active_file " } },
};

static uint64_t in_group(const struct version *v, const char *group, const char *file, const char *key, uint64_t none)
{
    char path[1024];

    snprintf(path, sizeof path, "%s%s/%s", v->root, group, file);
    return number(path, key, none);
}

/* Check the group and all its ancestors. The kernel reclaims page cache before it kills a process. */
static enum plait_status check_groups(const struct version *v, char *group, size_t bytes)
{
    for (;;) {
        const uint64_t limit = in_group(v, group, v->limit, "", NO_LIMIT);
        const uint64_t usage = limit < NO_LIMIT ? in_group(v, group, v->usage, "", 0) : 0;
        if (limit < NO_LIMIT && usage + bytes > limit &&
            usage + bytes > limit + in_group(v, group, "memory.stat", v->cache[0], 0) +
                                in_group(v, group, "memory.stat", v->cache[1], 0))
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

static enum plait_status check_cgroup(size_t bytes)
{
    char text[4096], *save = NULL;
    enum plait_status status = PLAIT_OK;

    plait_descriptor_read("/proc/self/cgroup", text, sizeof text);
    /* Lines of "number:controllers:group". Version 2 has no controllers there. */
    for (char *line = strtok_r(text, "\n", &save); line != NULL && status == PLAIT_OK;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':'), *group = list != NULL ? strchr(list + 1, ':') : NULL;
        if (group == NULL || (group > list + 1 && memmem(list, (size_t)(group - list), "memory", 6) == NULL))
            continue;
        group += strcmp(group, ":/") == 0 ? 2 : 1; /* the root is "" */
        status = check_groups(&versions[list[1] != ':'], group, bytes);
    }
    return status;
}

enum plait_status plait_check_memory(size_t bytes)
{
    const int saved = errno; /* opening files that this machine lacks changes errno */
    const uint64_t left =
        (number("/proc/meminfo", "\nMemAvailable:", NO_LIMIT) + number("/proc/meminfo", "\nSwapFree:", 0)) << 10;
    const enum plait_status status =
        bytes <= left ? check_cgroup(bytes)
                      : plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes of memory: this machine has %llu available", bytes,
                                   (unsigned long long)left);

    errno = saved;
    return status;
}
