/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's descriptors share the process's table with the program's, and survive what a program does to it.
 *
 * None is 0, 1 or 2. If the program has closed its standard streams, the kernel gives these numbers to the next files,
 * and printf() would write into the library's. A descriptor that stays open after a call is kept in a table with its
 * device and inode. A program may close every descriptor (daemons do) and open its own files under the same numbers, so
 * the library compares before it changes, reads, passes or closes a kept descriptor; during the creation of a comm only
 * before it closes one. The comparison cannot tell apart a log file that the program opened too, or files to which the
 * kernel gives one inode (epoll, timers; before Linux 6.9 also pidfds).
 *
 * Calls that make a descriptor stand inside a call of one of these functions; tests/descriptors_sources_test.py checks.
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

/* ---- Descriptors of one call, also in plug-ins; fclose() and closedir() close them -------------------------- */

/* Move fd above the standard streams' numbers. -1: fd is -1 (errno unchanged), or the limit is reached (errno set). */
static inline int plait_descriptor_raise(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return above;
}

/* A stream over the raised fd; NULL with errno, also when fd is -1. */
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

/* The start of a file as text, for files of /proc and /sys. Returns its length; 0: empty, or it cannot be read. */
size_t plait_descriptor_read(const char *path, char *text, size_t room);

/* The first line of a file, without its end. False: the file is empty, or it cannot be read. */
bool plait_descriptor_read_line(const char *path, char *line, size_t room);

/* ---- Kept descriptors ----------------------------------------------------------------------------------------- */

/*
 * Raise fd and keep it; errors name `purpose` ("its shared memory"). Returns -1 with errno on failure, which closes fd,
 * and if fd is -1. Numbers from 65,536 on are not kept: no program of ranks has so many files open.
 */
int plait_descriptor_keep(int fd, const char *purpose);

/* Close a descriptor, kept or not, unless the program has closed or replaced it. -1 is allowed. Keeps errno. */
void plait_descriptor_close(int fd);

/* Is fd still the file that was kept? True if fd is not kept. One system call. */
bool plait_descriptor_is_ours(int fd);

/* The same, with an error that names the descriptor and its purpose. */
enum plait_status plait_descriptor_check(int fd);

/* Is anything kept under this number? For tests. */
bool plait_descriptor_is_kept(int fd);

#define PLAIT_FOR_RANKS "the ranks to reach each other"

/*
 * Occupy the free ones of 0, 1 and 2, before a call of a library that opens files itself. Reads and writes of them fail
 * as if they were closed (O_PATH), and executed programs do not inherit them.
 */
enum plait_status plait_descriptors_hold_standard(void);

#endif
