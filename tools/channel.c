/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between supervisor, hosts and sessions. */
#include "hosts.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void host_send(int channel, enum host_message_kind kind, uint32_t rank, int value)
{
    const struct host_message m = { kind, rank, value };

    /* If the other end has gone, the reader of this channel finds out. */
    (void)!send(channel, &m, sizeof m, MSG_NOSIGNAL);
}

bool host_pass(int channel, uint32_t h, const struct host_request *request)
{
    struct host_message m = { HOST_COMMAND, h, 0 };
    struct iovec parts[2] = { { &m, sizeof m }, { (void *)(uintptr_t)request->text, request->length } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof request->fds)];
    } control = { 0 };
    const struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof request->fds);
    memcpy(CMSG_DATA(c), request->fds, sizeof request->fds);
    return sendmsg(channel, &message, MSG_NOSIGNAL) > 0;
}

bool host_receive(int channel, struct host_message *out, struct host_request *request)
{
    struct iovec parts[2] = { { out, sizeof *out }, { request->text, HOST_TEXT_MOST } };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof request->fds)];
    } control;
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes
    };
    struct cmsghdr *c;
    ssize_t n;

    do
        n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    memset(request->fds, -1, sizeof request->fds);
    if (n < (ssize_t)sizeof *out)
        return false;
    c = CMSG_FIRSTHDR(&message);
    if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof request->fds))
        memcpy(request->fds, CMSG_DATA(c), sizeof request->fds);
    request->length = (size_t)n - sizeof *out;
    memset(request->text + request->length, 0, 2); /* end both strings, whatever was sent */
    return true;
}
