/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"

#include "file.h"

#include <stdio.h>
#include <unistd.h>

bool find_beside(const char *name, int mode, char *path, size_t room)
{
    char own[4096];
    char moved[sizeof own + sizeof "/../" + sizeof PERF_LIBEXECDIR];
    const char *const folders[] = { own, moved, PERF_LIBEXEC };
    bool found = false;

    own_folder(own, sizeof own);
    snprintf(moved, sizeof moved, "%s/../%s", own, PERF_LIBEXECDIR);
    for (size_t i = 0; i < 3 && !found; i++) {
        snprintf(path, room, "%s/%s", folders[i], name);
        found = access(path, mode) == 0;
    }
    return found;
}
