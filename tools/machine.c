/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include "hardware.h"
#include "message.h"
#include "units.h"
#include "value.h"

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
static void print_counts(void)
{
    static const struct {
        enum part_kind kind;
        const char *name;
    } kinds[] = { { PART_PACKAGE, "package" },
                  { PART_NUMA, "memory node" },
                  { PART_CACHE, "L3 cache" },
                  { PART_CORE, "core" },
                  { PART_THREAD, "hardware thread" } };
    struct part *host = parts_here();
    char text[160] = "", one[48];

    for (size_t i = 0; host != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        const uint32_t n = host->counts[kinds[i].kind];
        snprintf(one, sizeof one, "%" PRIu32 " %s%s", n, kinds[i].name, plural(n));
        if (n > 0)
            list_add(text, sizeof text, one);
    }
    if (text[0] != '\0')
        printf("machine     %s\n", text);
    parts_free(host);
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

static const char *known(char text[UNITS_ROOM], uint64_t bytes)
{
    return bytes > 0 ? units_bytes(text, (double)bytes) : "unknown";
}

void machine_print(void)
{
    struct plait_topology t;
    char l1[UNITS_ROOM], l2[UNITS_ROOM], l3[UNITS_ROOM], memory[UNITS_ROOM];

    plait_topology_get(&t);
    printf("processor   %s; %" PRIu32 " usable\n", t.processor, t.ncpu);
    print_counts();
    locality_print();
    printf("caches      L1 %s, L2 %s, L3 %s\n", known(l1, t.l1), known(l2, t.l2), known(l3, t.l3));
    printf("memory      %s\n", known(memory, t.memory));
    printf("kernels     %s\n", t.isa);
    print_reading();
    print_gpu();
}
