/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork() in a process that has comms, perhaps while another thread is inside an operation.
 *
 * The child inherits the arena and every descriptor, but no threads. Each process is therefore a new generation, and
 * comms and the arena record the generation that made them. In the child, public calls refuse comms of an earlier
 * generation, and every module drops its parent's state without changing shared memory. The library's locks are held
 * across fork(), so the child finds consistent lists and free locks, and can create comms.
 *
 * vfork(), posix_spawn() and system() run no fork handlers and need none: their child uses the parent's memory only
 * until it executes another program, which inherits no descriptor of the library. A child of a raw clone system call or
 * of _Fork() must not call the library.
 */
#ifndef PLAIT_LIB_BASE_FORK_H
#define PLAIT_LIB_BASE_FORK_H

#include <plait/status.h>

#include <pthread.h>
#include <stdint.h>

enum plait_fork { PLAIT_FORK_BEFORE, PLAIT_FORK_PARENT, PLAIT_FORK_CHILD };

extern uint32_t plait_generation; /* of this process */

/* Install the fork handlers. The arena calls this under its lock; every other module needs the arena first. */
enum plait_status plait_fork_watch(void);

/* A module's lock is held across the fork. */
static inline void plait_fork_lock(enum plait_fork when, pthread_mutex_t *lock)
{
    if (when == PLAIT_FORK_BEFORE)
        pthread_mutex_lock(lock);
    else
        pthread_mutex_unlock(lock);
}

/* One for each module with a lock: lock before the fork, unlock after it, drop the parent's state in the child. */
void plait_plugins_fork(enum plait_fork when);
void plait_comms_fork(enum plait_fork when);
void plait_progress_fork(enum plait_fork when);
void plait_requests_fork(enum plait_fork when);
void plait_groups_fork(enum plait_fork when);
void plait_remotes_fork(enum plait_fork when);
void plait_devices_fork(enum plait_fork when);
void plait_device_watch_fork(enum plait_fork when);
void plait_device_maps_fork(enum plait_fork when);
void plait_processes_fork(enum plait_fork when);
void plait_arena_fork(enum plait_fork when);
void plait_config_fork(enum plait_fork when);
void plait_log_fork(enum plait_fork when);

#endif
