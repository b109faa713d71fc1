/* SPDX-License-Identifier: BSD-3-Clause */
#include "descriptor.h"

#include "status.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

struct kept {
    const char *purpose; /* NULL: the slot is free */
    int fd;
    dev_t device;
    ino_t inode;
};

/* A hash table with linear probing, keyed by the descriptor number; static, so that no allocation can fail. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { ROOM = 16384 }; /* a power of two: differences of slots may wrap as unsigned numbers */
static struct kept list[ROOM];

/* The slot of this descriptor, or the free slot that it would get; NULL: the table is full without it. */
static struct kept *place(int fd)
{
    for (unsigned i = 0; i < ROOM; i++) {
        struct kept *k = &list[((unsigned)fd + i) % ROOM];
        if (k->purpose == NULL || k->fd == fd)
            return k;
    }
    return NULL;
}

static struct kept *find(int fd)
{
    struct kept *k = fd < 0 ? NULL : place(fd);

    return k != NULL && k->purpose != NULL ? k : NULL;
}

static bool is_there(const struct kept *k)
{
    struct stat s;

    return fstat(k->fd, &s) == 0 && s.st_dev == k->device && s.st_ino == k->inode;
}

/* Delete by backward shift: entries after the hole move into it, but never before the first slot of their number. */
static void forget(struct kept *k)
{
    unsigned hole = (unsigned)(k - list);

    k->purpose = NULL;
    for (unsigned at = (hole + 1) % ROOM; list[at].purpose != NULL; at = (at + 1) % ROOM)
        if ((at - (unsigned)list[at].fd) % ROOM >= (at - hole) % ROOM) {
            list[hole] = list[at];
            list[at].purpose = NULL;
            hole = at;
        }
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
    struct kept *const k = fd >= 0 ? place(fd) : NULL;
    if (k != NULL && fstat(fd, &s) == 0) {
        *k = (struct kept){ purpose, fd, s.st_dev, s.st_ino };
    } else if (fd >= 0) {
        close(fd);
        errno = k == NULL ? EMFILE : ENOMEM;
        fd = -1;
    }
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
        forget(k);
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

void plait_descriptors_fork(enum plait_fork when)
{
    plait_fork_lock(when, &lock);
}
