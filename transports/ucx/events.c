/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX wants to know when memory is given back, and to this end writes new code over that of brk, mmap, munmap and
 * others in libc while it is loaded. A thread that is in one of them just then (waiting in the system call for a page,
 * say) goes on in the middle of an instruction and dies. What UCX wants it for is its cache of registered memory, which
 * only devices need that register memory. Where there are none, nothing is rewritten: the function below, which is
 * found before libucm's of that name, turns it off.
 */
#include "../../lib/base/descriptor.h"

#include <ucm/api/ucm.h>

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static bool has_entries(const char *folder)
{
    DIR *d = plait_descriptor_folder(folder);
    bool some = false;

    for (const struct dirent *e; d != NULL && !some && (e = readdir(d)) != NULL;)
        some = e->d_name[0] != '.';
    if (d != NULL)
        closedir(d);
    return some;
}

/* InfiniBand and RoCE; GPUs of NVIDIA and AMD; XPMEM and KNEM. Or the user has an opinion. */
static bool registers_memory(void)
{
    return has_entries("/sys/class/infiniband") || access("/dev/nvidiactl", F_OK) == 0 ||
           access("/dev/kfd", F_OK) == 0 || access("/dev/xpmem", F_OK) == 0 || access("/dev/knem", F_OK) == 0 ||
           getenv("UCX_MEM_EVENTS") != NULL || getenv("UCX_MEM_MMAP_HOOK_MODE") != NULL;
}

/* Of UCX while it is loaded, with what it has read from the environment. */
__attribute__((visibility("default"))) void ucm_set_global_opts(const ucm_global_config_t *options)
{
    void (*const of_ucm)(const ucm_global_config_t *) =
        (void (*)(const ucm_global_config_t *))dlsym(RTLD_NEXT, "ucm_set_global_opts");
    ucm_global_config_t *changed =
        (ucm_global_config_t *)(uintptr_t)options; /* in place: other versions have more fields */

    if (!registers_memory()) {
        changed->enable_events = 0;
        changed->mmap_hook_mode = UCM_MMAP_HOOK_NONE;
    }
    if (of_ucm != NULL)
        of_ucm(options);
}
