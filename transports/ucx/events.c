/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX wants to know when memory is freed. To this end it overwrites the code of brk, mmap, munmap and others in libc
 * when it is loaded. A thread inside one of them at that moment (waiting in the system call for a page, say) resumes in
 * the middle of an instruction and dies. UCX needs these events for its cache of registered memory, which only devices
 * that register memory use. Where there are none, this file prevents the overwriting: the linker finds the function
 * below before libucm's function of that name, and it turns memory events off.
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

/* InfiniBand and RoCE; GPUs of NVIDIA and AMD; XPMEM and KNEM. Or the user has set a variable about it. */
static bool registers_memory(void)
{
    return has_entries("/sys/class/infiniband") || access("/dev/nvidiactl", F_OK) == 0 ||
           access("/dev/kfd", F_OK) == 0 || access("/dev/xpmem", F_OK) == 0 || access("/dev/knem", F_OK) == 0 ||
           getenv("UCX_MEM_EVENTS") != NULL || getenv("UCX_MEM_MMAP_HOOK_MODE") != NULL;
}

/* UCX calls this while it is loaded, with the settings that it has read from the environment. */
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
