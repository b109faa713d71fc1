/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <plait/memory.h>
#include <plait/status.h>
#include <plait/topology.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if PLAIT_HAVE_HWLOC
#include <hwloc.h>
#endif

void show_bytes(char text[32], uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    unsigned u = 0;

    for (; value >= 1024 && u < 4; u++)
        value /= 1024;
    snprintf(text, 32, "%.4g %s", value, units[u]);
}

#if PLAIT_HAVE_HWLOC
static void print_counts(void)
{
    static const struct {
        hwloc_obj_type_t type;
        const char *one, *many;
    } kinds[] = {
        { HWLOC_OBJ_PACKAGE, "package", "packages" },
        { HWLOC_OBJ_NUMANODE, "memory node", "memory nodes" },
        { HWLOC_OBJ_L3CACHE, "L3 cache", "L3 caches" },
        { HWLOC_OBJ_CORE, "core", "cores" },
        { HWLOC_OBJ_PU, "hardware thread", "hardware threads" },
    };
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return;
    if (hwloc_topology_load(topology) == 0) {
        const char *comma = "";
        printf("machine     ");
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            const int n = hwloc_get_nbobjs_by_type(topology, kinds[i].type);
            if (n > 0) {
                printf("%s%d %s", comma, n, n == 1 ? kinds[i].one : kinds[i].many);
                comma = ", ";
            }
        }
        printf("\n");
    }
    hwloc_topology_destroy(topology);
}
#else
static void print_counts(void)
{
}
#endif

/*
 * May processes of this user read each other's memory through the kernel? A child tries it on its parent: like the
 * ranks of one launcher, it has only the user's rights. Returns 0 or the errno.
 */
static int try_reading(void)
{
    int word = 4711, status;
    const pid_t parent = getpid(), child = fork();

    if (child == 0) {
        int copy = 0;
        const struct iovec local = { &copy, sizeof copy }, remote = { &word, sizeof word };
        const ssize_t n = process_vm_readv(parent, &local, 1, &remote, 1, 0);
        _exit(n < 0 ? errno : n == sizeof copy && copy == word ? 0 : EIO);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM; /* killed by a seccomp filter */
}

static void print_reading(void)
{
    const int error = try_reading();

    if (error == 0)
        printf("cma         yes: processes read each other's memory (process_vm_readv)\n");
    else
        printf("cma         no (process_vm_readv: %s): memory other than plait_mem_alloc()'s is copied once more\n",
               strerror(error));
}

/* Try it: this needs the plug-in, the driver, a context and the kernels. */
static void print_gpu(void)
{
    void *memory;

    if (plait_mem_alloc_as(PLAIT_MEMORY_DEVICE, 1, &memory) != PLAIT_OK) {
        printf("gpu         no (%s)\n", plait_last_error());
        return;
    }
    printf("gpu         yes: the plug-in and a driver were found, and the first GPU works\n");
    plait_mem_free(memory);
}

void machine_print(void)
{
    struct plait_topology t;
    char l1[32], l2[32], l3[32], memory[32];

    plait_topology_get(&t);
    show_bytes(l1, t.l1);
    show_bytes(l2, t.l2);
    show_bytes(l3, t.l3);
    show_bytes(memory, t.memory);
    printf("processor   %s; %" PRIu32 " usable\n", t.processor, t.ncpu);
    print_counts();
    locality_print();
    printf("caches      L1 %s, L2 %s, L3 %s\n", t.l1 ? l1 : "unknown", t.l2 ? l2 : "unknown", t.l3 ? l3 : "unknown");
    printf("memory      %s\n", t.memory ? memory : "unknown");
    printf("kernels     %s\n", t.isa);
    print_reading();
    print_gpu();
}
