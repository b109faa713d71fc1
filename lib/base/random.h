/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_BASE_RANDOM_H
#define PLAIT_LIB_BASE_RANDOM_H

#include "status.h"

#include <errno.h>
#include <sys/random.h>

/* At most 256 bytes, which getrandom() never returns in part. */
static inline enum plait_status plait_random(void *out, size_t bytes, const char *purpose)
{
    if (getrandom(out, bytes, 0) == (ssize_t)bytes)
        return PLAIT_OK;
    return plait_fail_errno(errno, "no random bytes for %s: getrandom(), which a filter of system calls must allow",
                            purpose);
}

#endif
