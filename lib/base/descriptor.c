/* SPDX-License-Identifier: BSD-3-Clause */
#include "descriptor.h"

#include "status.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

struct kept {
    const char *purpose; /* NULL: nothing is kept under this number */
    dev_t device;
    ino_t inode;
};

/* By descriptor number; static, so that no allocation can fail. Only pages that are used take memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { ROOM = 1 << 16 };
static struct kept list[ROOM];

/* NULL: nothing is kept under this number. */
static struct kept *find(int fd)
{
    return fd >= 0 && fd < ROOM && list[fd].purpose != NULL ? &list[fd] : NULL;
}

static bool is_there(const struct kept *k)
{
    struct stat s;

    if (fstat((int)(k - list), &s) != 0)
        return errno != EBADF; /* a filter of system calls may refuse to tell */
    return s.st_dev == k->device && s.st_ino == k->inode;
}

int plait_descriptor_keep(int fd, const char *purpose)
{
    struct stat s;

    fd = plait_descriptor_raise(fd);
    if (fd < 0)
        return fd;
    pthread_mutex_lock(&lock);
    while (fd >= 0 && find(fd) != NULL) { /* stale: its owner will still close the number, so take another */
        const int next = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1), error = errno;
        close(fd);
        errno = error;
        fd = next;
    }
    if (fd >= 0 && fd < ROOM && fstat(fd, &s) == 0)
        list[fd] = (struct kept){ purpose, s.st_dev, s.st_ino };
    pthread_mutex_unlock(&lock);
    return fd;
}

void plait_descriptor_close(int fd)
{
    const int saved = errno;

    if (fd < 0)
        return;
    pthread_mutex_lock(&lock);
    struct kept *k = find(fd);
    if (k == NULL || is_there(k))
        close(fd);
    if (k != NULL)
        k->purpose = NULL;
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* The purpose, if the kept file is no longer there; else NULL. */
static const char *lost(int fd)
{
    const int saved = errno;

    pthread_mutex_lock(&lock);
    const struct kept *k = find(fd);
    const char *purpose = k != NULL && !is_there(k) ? k->purpose : NULL;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return purpose;
}

bool plait_descriptor_is_ours(int fd)
{
    return lost(fd) == NULL;
}

enum plait_status plait_descriptor_check(int fd)
{
    const char *purpose = lost(fd);

    return purpose == NULL ? PLAIT_OK
                           : plait_fail(PLAIT_ERR_SYSTEM,
                                        "descriptor %d, which the library had opened for %s, was closed or replaced by "
                                        "the program; close only those that the program opened",
                                        fd, purpose);
}

size_t plait_descriptor_read(const char *path, char *text, size_t room)
{
    const int fd = plait_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t n = fd >= 0 ? read(fd, text, room - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

bool plait_descriptor_read_line(const char *path, char *line, size_t room)
{
    const size_t n = plait_descriptor_read(path, line, room);

    line[strcspn(line, "\n")] = '\0';
    return n > 0;
}

bool plait_descriptor_is_kept(int fd)
{
    pthread_mutex_lock(&lock);
    const bool kept = find(fd) != NULL;
    pthread_mutex_unlock(&lock);
    return kept;
}

enum plait_status plait_descriptors_hold_standard(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_PATH | O_CLOEXEC) < 0)
            return plait_fail_errno(errno,
                                    "descriptor %d is closed, and /dev/null cannot be put in its place for a library "
                                    "that would open files under that number",
                                    fd);
    return PLAIT_OK;
}

const struct plait_fork_module plait_descriptors_fork = { .lock = &lock };
