/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that a user names. */
#ifndef PLAIT_COMMON_FILE_H
#define PLAIT_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** The folder of this program; "": unknown. */
void own_folder(char *out, size_t room);

/**
 * Open a file for reading: `name` itself or, if that has no folder, "name.suffix" in one of two folders, as seen from
 * this program's: `beside` (in a build's tree) or `installed`. path: which. NULL without a message: there is none; see
 * errno.
 */
FILE *file_find(const char *name, const char *suffix, const char *beside, const char *installed, char *path,
                size_t room);

/** What is left in the file, with a zero behind its `bytes`; free() frees it. NULL after a message: above `most`. */
char *file_read(FILE *f, const char *path, size_t most, size_t *bytes);

/** Before the work: can this file be written? A new one is not left behind. Returns false after a message. */
bool file_possible(const char *flag, const char *path);

/** Write a file by `write`, which returns false after a message of its own. Returns false after a message. */
bool file_write(const char *flag, const char *path, bool (*write)(FILE *f, const void *what), const void *what);

/** Close a file that was written. Returns false after a message: not all of it could be written. */
bool file_end(FILE *f, const char *flag, const char *path);

#endif
