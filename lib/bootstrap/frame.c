/* SPDX-License-Identifier: BSD-3-Clause */
#include "frame.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TICK       0.05 /* seconds between checks in a wait */
#define DRIVE_TICK 1e-3 /* the same where `drive` is called, too */

struct head { /* of every frame */
    int32_t status;
    uint32_t bytes;
};

static _Thread_local const struct plait_watch *the_watch;
static _Thread_local bool listens, interrupted; /* interrupted: stays set until the next plait_frame_watch() */

void plait_frame_watch(const struct plait_watch *watch)
{
    the_watch = watch;
    listens = true;
    interrupted = false;
}

void plait_frame_unwatch(void)
{
    the_watch = NULL;
    listens = false;
}

static _Thread_local bool (*drive)(void);

void plait_frame_drive(bool (*progress)(void))
{
    drive = progress;
}

enum plait_status plait_frame_check(void)
{
    while (drive != NULL && drive())
        ;
    if (listens && (interrupted || (interrupted = plait_interrupted())))
        return plait_fail(PLAIT_ERR_FAILED, "comm creation: " PLAIT_INTERRUPTED);
    return the_watch != NULL ? the_watch->check(the_watch->context) : PLAIT_OK;
}

enum plait_status plait_frame_poll(struct pollfd *polls, uint32_t n, double until)
{
    for (;;) {
        const double left = until - plait_clock(), most = drive != NULL ? DRIVE_TICK : TICK;
        const int ready = left > 0 ? poll(polls, n, (int)((left < most ? left : most) * 1e3) + 1) : 0;
        const int error = ready < 0 ? errno : 0;
        if (ready > 0)
            return PLAIT_OK;
        const enum plait_status status = plait_frame_check();
        if (status != PLAIT_OK || left <= 0)
            return status != PLAIT_OK ? status : PLAIT_ERR_TIMEOUT;
        if (error != 0 && error != EINTR)
            return plait_fail_errno(error, "comm creation: waiting for messages");
    }
}

static enum plait_status wait_for(int fd, short events, double until)
{
    struct pollfd p = { .fd = fd, .events = events };

    return plait_frame_poll(&p, 1, until);
}

/* The space that a message has for descriptors. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(PLAIT_FRAME_FDS * sizeof(int))];
};

static void advance(struct iovec *iov, ssize_t n)
{
    iov->iov_base = (char *)iov->iov_base + n;
    iov->iov_len -= (size_t)n;
}

/* Send all bytes, and n descriptors with the first one. */
static enum plait_status send_all(int fd, const void *data, size_t bytes, const int *fds, uint32_t n, double until)
{
    union control control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    struct iovec iov = { (void *)(uintptr_t)data, bytes };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };

    control.head.cmsg_len = CMSG_LEN(n * sizeof *fds);
    if (n > 0) {
        m.msg_controllen = CMSG_SPACE(n * sizeof *fds);
        memcpy(CMSG_DATA(&control.head), fds, n * sizeof *fds);
    }
    while (iov.iov_len > 0) {
        const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
        const ssize_t sent = m.msg_controllen > 0 ? sendmsg(fd, &m, flags) : send(fd, iov.iov_base, iov.iov_len, flags);
        if (sent >= 0) {
            advance(&iov, sent);
            m.msg_controllen = 0;
        } else if (errno == EAGAIN) {
            const enum plait_status status = wait_for(fd, POLLOUT, until);
            if (status != PLAIT_OK)
                return status;
        } else if (errno == ETOOMANYREFS && plait_clock() < until) {
            usleep(1000); /* descriptors in flight count against the user's limit until they are received */
        } else if (errno != EINTR) {
            const bool own =
                errno == ENOBUFS || errno == ENOMEM || (m.msg_controllen > 0 && errno != EPIPE && errno != ECONNRESET);
            return own ? plait_fail_errno(errno, "comm creation: sending to another rank") : PLAIT_ERR_PEER;
        }
    }
    return PLAIT_OK;
}

/* Receive all bytes, and the descriptors with the first ones, at most n: the kernel closes others. */
static enum plait_status receive_all(int fd, void *data, size_t bytes, int *fds, uint32_t n, double until)
{
    union control control;
    struct iovec iov = { data, bytes };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };

    m.msg_controllen = n > 0 ? CMSG_LEN(n * sizeof *fds) : 0;
    while (iov.iov_len > 0) {
        const enum plait_status status = wait_for(fd, POLLIN, until);
        if (status != PLAIT_OK)
            return status;
        const ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return PLAIT_ERR_PEER;
        if (got < 0)
            continue;
        advance(&iov, got);
        const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        const size_t came = c != NULL && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof *fds : 0;
        if (came > 0)
            memcpy(fds, CMSG_DATA(c), came * sizeof *fds);
        for (size_t i = 0; i < came; i++)
            fds[i] = plait_descriptor_keep(fds[i], PLAIT_FOR_RANKS);
        m.msg_controllen = 0;
    }
    return PLAIT_OK;
}

enum plait_status plait_frame_send(int fd, const void *data, size_t bytes, double until)
{
    return send_all(fd, data, bytes, NULL, 0, until);
}

enum plait_status plait_frame_receive(int fd, void *data, size_t bytes, double until)
{
    return receive_all(fd, data, bytes, NULL, 0, until);
}

static enum plait_status write_frame(int fd, enum plait_status status, const void *data, size_t bytes, double until)
{
    const struct head head = { status, (uint32_t)bytes };
    const enum plait_status sent = plait_frame_send(fd, &head, sizeof head, until);

    return sent != PLAIT_OK ? sent : plait_frame_send(fd, data, bytes, until);
}

enum plait_status plait_frame_write(int fd, const void *data, size_t bytes, double until)
{
    return write_frame(fd, PLAIT_OK, data, bytes, until);
}

enum plait_status plait_frame_write_error(int fd, const struct plait_error *error, double until)
{
    return write_frame(fd, error->status, error->text, strlen(error->text), until);
}

bool plait_is_error(int32_t status)
{
    return status < PLAIT_OK && strcmp(plait_status_name((enum plait_status)status), "PLAIT_ERR_UNKNOWN") != 0;
}

/* The rest of a frame after its head: `bytes` of data, or an error's text. */
static enum plait_status read_rest(int fd, const struct head *head, void *data, size_t bytes, double until,
                                   struct plait_error *error)
{
    error->status = (enum plait_status)head->status;
    if (head->status == PLAIT_OK && head->bytes == bytes)
        return plait_frame_receive(fd, data, bytes, until);
    if (!plait_is_error(head->status) || head->bytes >= sizeof error->text) {
        error->status = PLAIT_ERR_PEER;
        snprintf(error->text, sizeof error->text, "comm creation: a message of %u bytes where %zu are due", head->bytes,
                 bytes);
        return PLAIT_OK;
    }
    error->text[head->bytes] = '\0';
    const enum plait_status status = plait_frame_receive(fd, error->text, head->bytes, until);
    if (error->text[0] == '\0')
        snprintf(error->text, sizeof error->text, "%s", plait_status_text(error->status));
    return status;
}

enum plait_status plait_frame_read(int fd, void *data, size_t bytes, double until, struct plait_error *error)
{
    struct head head;
    const enum plait_status status = plait_frame_receive(fd, &head, sizeof head, until);

    return status != PLAIT_OK ? status : read_rest(fd, &head, data, bytes, until, error);
}

enum plait_status plait_frame_write_fds(int fd, const int *fds, uint32_t n, double until)
{
    return send_all(fd, &(struct head){ PLAIT_OK, 0 }, sizeof(struct head), fds, n, until);
}

enum plait_status plait_frame_read_fds(int fd, int *fds, uint32_t n, double until, struct plait_error *error)
{
    struct head head;

    for (uint32_t i = 0; i < n; i++)
        fds[i] = -1;
    enum plait_status status = receive_all(fd, &head, sizeof head, fds, n, until);
    if (status == PLAIT_OK)
        status = read_rest(fd, &head, NULL, 0, until, error);
    if (status == PLAIT_OK && error->status == PLAIT_OK && n > 0 && fds[n - 1] < 0)
        return plait_fail_errno(EMFILE, "comm creation: no room for %u descriptors of another process", n);
    return status;
}
