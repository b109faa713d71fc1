/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that a program starts. */
#ifndef PLAIT_COMMON_CHILD_H
#define PLAIT_COMMON_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

/** fork(), after writing out stdio's buffers. When this process ends, the kernel sends `death` to the child. */
pid_t child_fork(int death);

/** In a process that this program did not fork itself: the kernel sends `death` to it when its parent ends. */
void child_follow(pid_t parent, int death);

/** How a process ended, from waitpid()'s status: "exit status 1", "killed by signal 9 (Killed)". */
void child_end(int status, char *out, size_t room);

/** Is there such a program in PATH, or in the folders of `more` (with ':' between)? path: [room], where. */
bool child_find(const char *program, const char *more, char *path, size_t room);

#endif
