/* SPDX-License-Identifier: BSD-3-Clause */
#include "fork.h"

#include "descriptor.h"
#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

uint32_t plait_generation = 1;

/* In lock order, outermost first. */
static const struct plait_fork_module *const modules[] = {
    &plait_plugins_fork,  &plait_comms_fork,     &plait_groups_fork,       &plait_progress_fork,
    &plait_requests_fork, &plait_remotes_fork,   &plait_device_watch_fork, &plait_device_maps_fork,
    &plait_devices_fork,  &plait_processes_fork, &plait_arena_fork,        &plait_copies_fork,
    &plait_plans_fork,    &plait_config_fork,    &plait_log_fork,          &plait_descriptors_fork,
};
#define NMODULE (sizeof modules / sizeof *modules)

static void before(void)
{
    for (size_t i = 0; i < NMODULE; i++) {
        if (modules[i]->lock != NULL)
            pthread_mutex_lock(modules[i]->lock);
        if (modules[i]->second != NULL)
            pthread_mutex_lock(modules[i]->second);
    }
}

static void release(bool forget)
{
    for (size_t i = NMODULE; i-- > 0;) {
        if (forget && modules[i]->forget != NULL)
            modules[i]->forget();
        if (modules[i]->second != NULL)
            pthread_mutex_unlock(modules[i]->second);
        if (modules[i]->lock != NULL)
            pthread_mutex_unlock(modules[i]->lock);
    }
}

static void in_parent(void)
{
    release(false);
}

static void in_child(void)
{
    plait_generation++;
    release(true);
}

enum plait_status plait_fork_watch(void)
{
    static bool watching; /* children inherit the handlers */

    if (watching)
        return PLAIT_OK;
    const int error = pthread_atfork(before, in_parent, in_child);
    if (error != 0)
        return plait_fail(PLAIT_ERR_NOMEM, "cannot watch for fork(): %s", strerror(error));
    watching = true;
    return PLAIT_OK;
}
