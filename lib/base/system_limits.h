/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits that the system sets to this process: asked before they are met, where meeting them would kill. */
#ifndef PLAIT_LIB_BASE_SYSTEM_LIMITS_H
#define PLAIT_LIB_BASE_SYSTEM_LIMITS_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * Can this process open `n` more descriptors? `who` says for what. An error advises a limit with which it can, and can
 * open `later` ones too.
 */
enum plait_status plait_check_descriptors(size_t n, size_t later, const char *who);

/* The largest file, also one of memory only, that this process may make; beyond it a signal ends it. */
size_t plait_most_file_bytes(void);

/* Bytes of address space that this process may still map (ulimit -v); SIZE_MAX: no limit. */
size_t plait_most_mapped_bytes(void);

/*
 * Map `bytes` of a file, or with fd -1 private memory, for reading (and writing). Only what is touched takes memory,
 * also in a process that has locked all that it maps (mlockall). `what` says what it is, in an error.
 */
enum plait_status plait_reserve(size_t bytes, bool writable, int fd, const char *what, void **out);

/* Has the machine, and have this process's control groups, room for `bytes` of memory? Beyond it the kernel kills. */
enum plait_status plait_check_memory(size_t bytes);

#endif
