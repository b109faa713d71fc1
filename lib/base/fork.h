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
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

extern uint32_t plait_generation; /* of this process */

/* Install the fork handlers. The arena calls this under its lock; every other module needs the arena first. */
enum plait_status plait_fork_watch(void);

struct plait_fork_module {
    pthread_mutex_t *lock, *second; /* held across the fork, taken in this order; NULL: none */
    void (*forget)(void);           /* in the child, under the locks: drop the parent's state. NULL: there is none */
};

/* One for each module with a lock. */
extern const struct plait_fork_module plait_plugins_fork, plait_comms_fork, plait_groups_fork, plait_progress_fork,
    plait_requests_fork, plait_remotes_fork, plait_device_watch_fork, plait_device_maps_fork, plait_devices_fork,
    plait_processes_fork, plait_arena_fork, plait_copies_fork, plait_plans_fork, plait_config_fork, plait_log_fork,
    plait_descriptors_fork;

/* ---- Threads of the library: the program's signals go to the program's threads ----------------------------------- */

/* pthread_create() of a thread that blocks all signals. Returns its error number, or 0. */
static inline int plait_thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg)
{
    sigset_t all, saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int error = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif
