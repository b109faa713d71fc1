/* SPDX-License-Identifier: BSD-3-Clause */
#include "inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local struct {
    bool armed, onwards;
    unsigned nth, seen;
    int error; /* of the call that failed first */
    const char *fired;
    rlim_t descriptors; /* the soft limit when armed */
} plan;

static atomic_long live;

static rlim_t most_descriptors(void)
{
    struct rlimit limit = { 0, 0 };

    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

void inject_arm(unsigned nth, bool onwards)
{
    plan.onwards = onwards;
    plan.nth = nth;
    plan.seen = 0;
    plan.fired = NULL;
    plan.descriptors = most_descriptors();
    plan.armed = true;
}

unsigned inject_disarm(void)
{
    plan.armed = false;
    return plan.seen;
}

const char *inject_fired(void)
{
    return plan.fired;
}

long inject_live(void)
{
    return live;
}

static bool is_memory(int error)
{
    return error == ENOMEM || error == ENOSPC || error == ENOBUFS;
}

/* Is it this call's turn? What ran out stays out: memory, or descriptors until the library raises their limit. */
static bool fails(const char *call, int error)
{
    bool turn;

    if (!plan.armed || (error == EMFILE && plan.fired != NULL && most_descriptors() > plan.descriptors))
        return false;
    plan.seen++;
    if (plan.fired == NULL)
        turn = plan.nth > 0 && plan.seen == plan.nth;
    else
        turn =
            plan.onwards && ((error == plan.error && error != EACCES) || (is_memory(error) && is_memory(plan.error)));
    if (!turn)
        return false;
    if (plan.fired == NULL) {
        plan.fired = call;
        plan.error = error;
    }
    errno = error;
    return true;
}

/* A wrapped call with fixed arguments: NAME(arguments) fails with `error` and gives `bad`. */
#define WRAP(type, name, parameters, arguments, error, bad)           \
    type __real_##name parameters;                                    \
    type __wrap_##name parameters;                                    \
    type __wrap_##name parameters                                     \
    {                                                                 \
        return fails(#name, error) ? (bad) : __real_##name arguments; \
    }

int __real_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    const int error = fails("pthread_atfork", ENOMEM) ? ENOMEM : __real_pthread_atfork(before, parent, child);

    errno = EDOM; /* it may be anything: the call does not use it */
    return error;
}

WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode), EMFILE, NULL)
WRAP(DIR *, opendir, (const char *path), (path), EMFILE, NULL)
WRAP(void *, mmap64, (void *at, size_t n, int prot, int flags, int fd, off_t start), (at, n, prot, flags, fd, start),
     ENOMEM, MAP_FAILED)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE, -1)
WRAP(int, ftruncate64, (int fd, off_t size), (fd, size), EFBIG, -1)
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), ENOSPC, -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, -1)
WRAP(int, bind, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), EACCES, -1)
WRAP(int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags), (fd, from, n, flags), EMFILE, -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), ENOBUFS, -1)
WRAP(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), ENOSYS, -1)
WRAP(int, pthread_create, (pthread_t * out, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (out, attr, run, arg), EAGAIN, EAGAIN)

/* ---- Heap memory, whose blocks are counted ------------------------------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t to, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n)
{
    void *p = fails("malloc", ENOMEM) ? NULL : __real_malloc(n);

    live += p != NULL;
    return p;
}

void *__wrap_aligned_alloc(size_t to, size_t n)
{
    void *p = fails("aligned_alloc", ENOMEM) ? NULL : __real_aligned_alloc(to, n);

    live += p != NULL;
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails("calloc", ENOMEM) ? NULL : __real_calloc(n, size);

    live += p != NULL;
    return p;
}

void *__wrap_realloc(void *old, size_t n)
{
    const bool had = old != NULL;
    void *p = fails("realloc", ENOMEM) ? NULL : __real_realloc(old, n);

    live += !had && p != NULL;
    return p;
}

void __wrap_free(void *p)
{
    live -= p != NULL;
    __real_free(p);
}

/* ---- Calls with other forms ------------------------------------------------------------------------------ */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);

int __wrap_open64(const char *path, int flags, ...) /* the library opens for reading only */
{
    return fails("open64", EMFILE) ? -1 : __real_open64(path, flags);
}

int __wrap_fcntl64(int fd, int command, ...)
{
    va_list args;

    va_start(args, command);
    const long arg = va_arg(args, long);
    va_end(args);
    if (command == F_DUPFD_CLOEXEC && fails("fcntl64", EMFILE))
        return -1;
    return __real_fcntl64(fd, command, arg);
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_pidfd_open && fails(a[0] == getpid() ? "pidfd_open" : "pidfd_open of another", EMFILE))
        return -1;
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Where the process has no room for descriptors that come with a message, the kernel drops them. */
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
    const ssize_t n = __real_recvmsg(fd, m, flags);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(m) : NULL;

    if (c == NULL || c->cmsg_type != SCM_RIGHTS || !fails("recvmsg", EMFILE))
        return n;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
        int gone;
        memcpy(&gone, CMSG_DATA(c) + i * sizeof gone, sizeof gone);
        close(gone);
    }
    m->msg_controllen = 0;
    m->msg_flags |= MSG_CTRUNC;
    return n;
}
