/* SPDX-License-Identifier: BSD-3-Clause */
/* The system's limits for this process. They are checked in advance where exceeding them kills the process. */
#ifndef PLAIT_LIB_BASE_SYSTEM_LIMITS_H
#define PLAIT_LIB_BASE_SYSTEM_LIMITS_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The process's limit on a resource: RLIMIT_AS, .... SIZE_MAX: none. */
size_t plait_limit(int resource);

/*
 * Map `bytes` of a file (fd -1: private memory) for reading, and for writing if `writable`. Only touched pages take
 * memory, also after mlockall(). `what` names the mapping in errors.
 */
enum plait_status plait_reserve(size_t bytes, bool writable, int fd, const char *what, void **out);

/* Do the machine and the process's control groups have `bytes` of memory left? If not, using it would get us killed. */
enum plait_status plait_check_memory(size_t bytes);

#endif
