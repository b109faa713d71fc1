/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that is replaced completely or not at all, whenever the process ends and whatever fails: it is written under a
 * temporary name in the same folder, synced and renamed, and the folder is synced.
 */
#ifndef PLAIT_TRAIN_REPLACE_H
#define PLAIT_TRAIN_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Temporary files, which a killed process leaves behind, are hidden and have this suffix. */
#define REPLACE_SUFFIX ".writing"

struct replace {
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    int fd;
    int error;         /* errno of the first call that failed; 0: none */
    const char *doing; /* that call: "write", "rename", ... */
};

/** After an error, all calls but replace_end() do nothing. */
void replace_begin(struct replace *replace, const char *path);
void replace_write(struct replace *replace, const void *data, size_t bytes);
/**
 * Returns false when `error` and `doing` say why, and the old file is unchanged. After "sync the folder of" the new
 * file is in place, but may be lost if the machine fails.
 */
bool replace_end(struct replace *replace);

/** A remedy for an errno of writing a file, beginning with "; ", or "". */
const char *replace_remedy(int error);

#endif
