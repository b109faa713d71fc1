/* SPDX-License-Identifier: BSD-3-Clause */
/* Peer processes whose arenas are mapped: one mapping per process, shared by all comms and ranks. */
#include "arena.h"

#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/system_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MOST_AT_ONCE ((size_t)1 << 30) /* bytes per process_vm_readv(); the kernel's limit is 2 GiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_process *processes;

static enum plait_status map_process(struct plait_process *p, int fd, int pidfd)
{
    const struct plait_arena *own;
    enum plait_status status = plait_arena_get(&own);

    if (status != PLAIT_OK || plait_is_same_token(own->token, p->token))
        return status;
    if (fd < 0)
        return plait_fail(PLAIT_ERR_SYSTEM, "the shared memory of process %d was not passed", p->pid);
    if ((status = plait_descriptor_check(fd)) != PLAIT_OK)
        return status;
    struct stat file;
    if (fstat(fd, &file) != 0 || file.st_size < 0 || (size_t)file.st_size < p->size)
        return plait_fail(PLAIT_ERR_PEER,
                          "the shared memory that process %d passed is smaller than the %zu bytes it said", p->pid,
                          p->size);
    char what[48];
    void *base;
    snprintf(what, sizeof what, "the arena of process %d", p->pid);
    if ((status = plait_reserve(p->size, false, fd, what, &base)) != PLAIT_OK)
        return status;
    p->pidfd = pidfd >= 0
                   ? plait_descriptor_keep(fcntl(pidfd, F_DUPFD_CLOEXEC, 0), "seeing the death of another process")
                   : -1;
    if (pidfd >= 0 && p->pidfd < 0) {
        status = plait_fail_errno(errno, "no descriptor to see the death of process %d", p->pid);
        munmap(base, p->size);
        return status;
    }
    madvise(base, p->size, MADV_DONTFORK); /* a child cannot use its parent's comms */
    p->base = base;
    return PLAIT_OK;
}

enum plait_status plait_process_get(struct plait_token token, int pid, size_t size, int fd, int pidfd,
                                    struct plait_process **out)
{
    enum plait_status status = PLAIT_OK;
    struct plait_process *p;

    pthread_mutex_lock(&lock);
    for (p = processes; p != NULL && !plait_is_same_token(p->token, token); p = p->next)
        ;
    if (p == NULL) {
        p = malloc(sizeof *p);
        if (p == NULL) {
            status = plait_fail_memory("out of memory for a peer process");
        } else {
            *p = (struct plait_process){ .token = token, .size = size, .pid = pid, .pidfd = -1, .next = processes };
            status = map_process(p, fd, pidfd);
            if (status == PLAIT_OK)
                processes = p;
            else
                free(p);
        }
    }
    if (status == PLAIT_OK) {
        p->refs++;
        *out = p;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void plait_process_put(struct plait_process *process)
{
    struct plait_process **link;

    if (process == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (--process->refs == 0) {
        for (link = &processes; *link != process; link = &(*link)->next)
            ;
        *link = process->next;
        if (process->base != NULL)
            munmap((void *)(uintptr_t)process->base, process->size);
        plait_descriptor_close(process->pidfd);
        free(process);
    }
    pthread_mutex_unlock(&lock);
}

bool plait_process_dead(const struct plait_process *process)
{
    struct pollfd p = { .fd = process->pidfd, .events = POLLIN };
    return process->pidfd >= 0 && poll(&p, 1, 0) > 0 && plait_descriptor_is_ours(process->pidfd);
}

/*
 * Every system call also reads the token in the arena's header, after the data. An equal token proves that the data
 * came from the process of the rendezvous and not from a later one with the same pid. After a partial read the kernel
 * returns only the length, so the next call brings the error.
 */
int plait_process_read(const struct plait_process *process, uint64_t address, void *to, size_t bytes)
{
    const struct plait_arena_header *h = (const void *)process->base;
    char *const token_at = (char *)(uintptr_t)h->base + offsetof(struct plait_arena_header, token);
    const int saved = errno;
    int error = 0;

    for (size_t done = 0; error == 0;) {
        struct plait_token token;
        const size_t n = bytes - done < MOST_AT_ONCE ? bytes - done : MOST_AT_ONCE;
        const struct iovec local[2] = { { (char *)to + done, n }, { &token, sizeof token } };
        const struct iovec remote[2] = { { (char *)(uintptr_t)address + done, n }, { token_at, sizeof token } };
        const ssize_t got = process_vm_readv(process->pid, local, 2, remote, 2, 0);
        if (got < 0)
            error = errno == EINTR ? 0 : errno;
        else
            done += (size_t)got < n ? (size_t)got : n;
        if (got != (ssize_t)(n + sizeof token))
            continue;
        if (!plait_is_same_token(token, process->token))
            error = ESRCH;
        else if (done == bytes)
            break;
    }
    errno = saved;
    return error;
}

/* MADV_DONTFORK left the child no mappings of peers. The child closes the pidfds and starts with an empty list. */
static void forget_parent(void)
{
    for (; processes != NULL; processes = processes->next)
        plait_descriptor_close(processes->pidfd);
}

const struct plait_fork_module plait_processes_fork = { .lock = &lock, .forget = forget_parent };
