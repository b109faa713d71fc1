/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

#include "status.h"

#include <errno.h>
#include <sys/random.h>

enum plait_status plait_random(void *out, size_t bytes, const char *purpose)
{
    if (getrandom(out, bytes, 0) == (ssize_t)bytes)
        return PLAIT_OK;
    return plait_fail_errno(errno, "no random bytes for %s: getrandom(), which a filter of system calls must allow",
                            purpose);
}
