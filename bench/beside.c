/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool find_beside(const char *name, int mode, char *path, size_t room)
{
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        snprintf(path, room, "%s/%s", self, name);
        if (access(path, mode) == 0)
            return true;
    }
    snprintf(path, room, "%s/%s", PERF_LIBEXEC, name);
    return access(path, mode) == 0;
}
