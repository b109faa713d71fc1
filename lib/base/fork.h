/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork() in a process that has comms, perhaps while another thread is inside an operation.
 *
 * The child shares the arena and every descriptor with its parent and has none of its threads. Each process
 * is therefore a generation of its own, and what belongs to a comm or the arena names the generation that made it.
 * In the child, public calls find that the comm is of an earlier one, and every module forgets what was its
 * parent's, without touching what others see. The library's locks are held across fork(), so that
 * the child finds whole lists and free locks, and can make comms of its own.
 *
 * vfork(), posix_spawn() and system() do none of this and need none: their child uses the parent's memory
 * only until it runs another program, which gets no descriptor of the library's. A child made by a raw clone system
 * call or _Fork() may not call the library.
 */
#ifndef PLAIT_LIB_BASE_FORK_H
#define PLAIT_LIB_BASE_FORK_H

#include <plait/status.h>

#include <stdint.h>

enum plait_fork { PLAIT_FORK_BEFORE, PLAIT_FORK_PARENT, PLAIT_FORK_CHILD };

extern uint32_t plait_generation; /* of this process */

/* From now on children are told. Called by the arena, which everything else needs, under its lock. */
enum plait_status plait_fork_watch(void);

/* What each module with a lock does: take it before, let go of it after, forget the parent's things in the child. */
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
