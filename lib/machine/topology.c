/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room machine: the hardware of this host. <plait/topology.h> is the manual.
 *
 * It reads processors, caches and memory from /sys and /proc if Linux has them, else from sysconf(). It also reports
 * the kernel set that this processor can run. Communicators take cache sizes and the number of processors from here.
 * The caches decide how long slices are, and from which size on results are written with streaming stores.
 *
 * locality.c says where the processors of a thread lie, by hwloc.
 *
 * The room promises: it measures nothing. A value of 0 means unknown, never a guess. Each call reads the affinity mask
 * anew, as it may have changed. It does not know communicators.
 */
#include <plait/topology.h>

#include "locality.h"

#include "base/bytes.h"
#include "base/descriptor.h"
#include "reduce/reduce.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What /sys says of processor 0's cache of this number. */
static bool read_cache(int index, const char *what, char line[32])
{
    char path[96];

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    return plait_descriptor_read_line(path, line, 32);
}

bool plait_is_one_place(void)
{
    char line[32], online[32], nodes[32], sharing[32] = "";

    for (int i = 0; i < 16 && read_cache(i, "level", line); i++) /* the outermost is the last */
        read_cache(i, "shared_cpu_list", sharing);
    return plait_descriptor_read_line("/sys/devices/system/cpu/online", online, sizeof online) &&
           strcmp(sharing, online) == 0 &&
           plait_descriptor_read_line("/sys/devices/system/node/online", nodes, sizeof nodes) &&
           strcmp(nodes, "0") == 0;
}

/* Bytes of processor 0's first data or unified cache of this level; 0: not in /sys. */
static size_t sysfs_cache(int level)
{
    char line[32];
    size_t bytes;

    for (int i = 0; i < 16 && read_cache(i, "level", line); i++)
        if (atoi(line) == level && read_cache(i, "type", line) && strcmp(line, "Instruction") != 0)
            return read_cache(i, "size", line) && plait_parse_bytes(line, &bytes) ? bytes : 0;
    return 0;
}

static size_t cache_size(int level, int name)
{
    const size_t bytes = sysfs_cache(level);
    const long fallback = bytes == 0 ? sysconf(name) : 0;

    return bytes != 0 ? bytes : fallback > 0 ? (size_t)fallback : 0;
}

/* As x86 has it in /proc/cpuinfo. */
static void processor_name(char *out, size_t room)
{
    char line[512], name[256] = "unknown";
    FILE *f = plait_descriptor_stream(open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC), "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL && sscanf(line, "model name : %255[^\n]", name) < 1)
        ;
    if (f != NULL)
        fclose(f);
    snprintf(out, room, "%s", name);
}

static uint32_t allowed_processors(void)
{
    unsigned long set[512]; /* bits for 32,768 processors: no kernel has more, and the call refuses a set with fewer */

    if (sched_getaffinity(0, sizeof set, (cpu_set_t *)(void *)set) != 0)
        return 0;
    return (uint32_t)CPU_COUNT_S(sizeof set, (cpu_set_t *)(void *)set);
}

void plait_topology_get(struct plait_topology *out)
{
    const struct plait_kernels *kernels = plait_kernels_find("");
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    if (out == NULL)
        return;
    memset(out, 0, sizeof *out);
    processor_name(out->processor, sizeof out->processor);
    snprintf(out->isa, sizeof out->isa, "%s", kernels != NULL ? kernels->isa : "scalar");
    out->ncpu = allowed_processors();
    out->l1 = cache_size(1, _SC_LEVEL1_DCACHE_SIZE);
    out->l2 = cache_size(2, _SC_LEVEL2_CACHE_SIZE);
    out->l3 = cache_size(3, _SC_LEVEL3_CACHE_SIZE);
    if (pages > 0 && page > 0)
        out->memory = (uint64_t)pages * (uint64_t)page;
}
