/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_BASE_RANDOM_H
#define PLAIT_LIB_BASE_RANDOM_H

#include <plait/status.h>

#include <stddef.h>

/* At most 256 bytes, which getrandom() never returns in part. The error is "no random bytes for <purpose>". */
enum plait_status plait_random(void *out, size_t bytes, const char *purpose);

#endif
