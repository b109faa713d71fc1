/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors in a process that is the program's.
 *
 * None is 0, 1 or 2: where the program has closed its standard streams, the kernel would give these numbers to the
 * library's files, and printf() would write into them. What is open for longer than a call is kept in a list with its
 * device and inode: a program may close every descriptor (daemons do) and open its own files under the same numbers.
 * Before the library changes, reads, passes or closes a kept descriptor, it compares. Two files are not told apart
 * where they are one: a log file that the program opened too, and what the kernel gives one inode (epoll, timers;
 * before Linux 6.9 also process descriptors).
 *
 * What makes a descriptor is called inside one of these functions; tests/descriptors_sources_test.py looks for others.
 */
#ifndef PLAIT_LIB_BASE_DESCRIPTOR_H
#define PLAIT_LIB_BASE_DESCRIPTOR_H

#include "fork.h"

#include <plait/status.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Files that are read or written at once, also in plug-ins; fclose() and closedir() end them -------------------- */

/* The same file under a number above the standard streams'; -1 with errno as it is, or when there is no room. */
static inline int plait_descriptor_raise(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return above;
}

/* A stream over it, or NULL. `fd` may be -1. */
static inline FILE *plait_descriptor_stream(int fd, const char *mode)
{
    const int above = plait_descriptor_raise(fd);
    FILE *stream = above >= 0 ? fdopen(above, mode) : NULL;

    if (stream == NULL && above >= 0)
        close(above);
    return stream;
}

static inline DIR *plait_descriptor_folder(const char *path)
{
    const int fd = plait_descriptor_raise(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (folder == NULL && fd >= 0)
        close(fd);
    return folder;
}

/* ---- All others ----------------------------------------------------------------------------------------------- */

/*
 * Raise it and keep it; `purpose` ("its shared memory") stands in errors. -1 with errno, also when `fd` is -1; EMFILE
 * too where the list is full, and then it is closed.
 */
int plait_descriptor_keep(int fd, const char *purpose);

/* Close a descriptor, kept or not, unless it is no longer ours. -1 is allowed. errno stays as it is. */
void plait_descriptor_close(int fd);

/* Is it still the file that was kept? True for one that was not. One system call. */
bool plait_descriptor_is_ours(int fd);

/* The same as an error that names the descriptor. */
enum plait_status plait_descriptor_check(int fd);

/* Is anything kept under this number? For tests. */
bool plait_descriptor_is_kept(int fd);

#define PLAIT_FOR_RANKS "the ranks to reach each other"

/* From now on this thread has a table of its own (CLONE_FILES): it keeps nothing. */
void plait_descriptors_apart(void);

/*
 * Occupy those of 0, 1 and 2 that are free, for libraries that open files of their own at any time. What is there can
 * neither be read nor written, as if it were closed. Executed programs do not get it.
 */
enum plait_status plait_descriptors_hold_standard(void);

void plait_descriptors_fork(enum plait_fork when);

#endif
