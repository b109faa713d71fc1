/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that is replaced whole or not at all, whenever the process ends and whatever fails: written under a temporary
 * name in the same folder, synced, renamed, and the folder synced.
 */
#ifndef PLAIT_TRAIN_REPLACE_H
#define PLAIT_TRAIN_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What a process that was killed leaves behind is hidden and ends so. */
#define REPLACE_SUFFIX ".writing"

struct replace {
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    int fd;
    int error;         /* errno of the first call that failed; 0: none */
    const char *doing; /* it: "write", "rename", ... */
};

/** After an error all but the end does nothing. */
void replace_begin(struct replace *replace, const char *path);
void replace_write(struct replace *replace, const void *data, size_t bytes);
/** false: error and doing say why not, and path is as it was (but after "sync the folder of": there, and maybe lost again
 *  when the machine itself fails). */
bool replace_end(struct replace *replace);

/** What to do about an errno of writing a file, beginning with "; ", or "". */
const char *replace_remedy(int error);

#endif
