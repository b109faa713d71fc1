/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads of one machine, over a Unix socket in the abstract name space.
 *
 * Rank 0 listens under the id's name and serves a star: everyone sends to rank 0, rank 0 answers
 * all. Abstract names vanish with their process. Only processes of the same user are let in.
 */
#include "bootstrap.h"

#include "../clock.h"
#include "../status.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC   0x504c4149u /* "PLAI" */
#define MAX_FDS 128         /* descriptors in one message; the kernel allows 253 */

struct plait_bootstrap {
    uint32_t rank, nrank;
    double limit;
    int root;   /* socket to rank 0; -1 on rank 0 */
    int *peers; /* rank 0: socket of each rank; else NULL */
};

struct hello {
    uint32_t magic, nrank, rank;
};

struct frame {      /* precedes every message */
    int32_t status; /* an error: its text follows, and the meeting is over */
    uint32_t bytes;
};

_Static_assert(sizeof(struct plait_unique_id) == 128, "as NCCL's");

enum plait_status plait_unique_id_create(struct plait_unique_id *out)
{
    unsigned char random[16];

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_unique_id_create: out is NULL");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return plait_fail(PLAIT_ERR_SYSTEM, "no random bytes for a unique id: %s", strerror(errno));
    memset(out, 0, sizeof *out);
    char *name = (char *)out->bytes + sprintf((char *)out->bytes, "plait1-machine-");
    for (size_t i = 0; i < sizeof random; i++)
        name += sprintf(name, "%02x", random[i]);
    return PLAIT_OK;
}

static bool address_of(const struct plait_unique_id *id, struct sockaddr_un *address, socklen_t *length)
{
    const size_t n = strnlen((const char *)id->bytes, sizeof id->bytes);

    if (strncmp((const char *)id->bytes, "plait1-machine-", 15) != 0 || n >= sizeof address->sun_path)
        return false;
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path + 1, id->bytes, n);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return true;
}

/* ---- Whole messages within a time limit --------------------------------------------------------- */

static enum plait_status wait_for(int fd, short events, double until)
{
    for (;;) {
        const double left = until - plait_clock();
        struct pollfd p = { .fd = fd, .events = events };
        const int n = left > 0 ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
        if (n > 0)
            return PLAIT_OK;
        if (n == 0)
            return PLAIT_ERR_TIMEOUT;
        if (errno != EINTR)
            return PLAIT_ERR_SYSTEM;
    }
}

static enum plait_status write_all(int fd, const void *data, size_t bytes, double until)
{
    const char *p = data;

    while (bytes > 0) {
        const ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            const enum plait_status status = wait_for(fd, POLLOUT, until);
            if (status != PLAIT_OK)
                return status;
        } else if (n < 0 && errno != EINTR) {
            return PLAIT_ERR_PEER;
        }
    }
    return PLAIT_OK;
}

static enum plait_status read_all(int fd, void *data, size_t bytes, double until)
{
    char *p = data;

    while (bytes > 0) {
        const enum plait_status status = wait_for(fd, POLLIN, until);
        if (status != PLAIT_OK)
            return status;
        const ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return PLAIT_ERR_PEER;
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        }
    }
    return PLAIT_OK;
}

static enum plait_status write_frame(int fd, enum plait_status status, const void *data, size_t bytes, double until)
{
    const struct frame f = { status, (uint32_t)bytes };
    const enum plait_status sent = write_all(fd, &f, sizeof f, until);
    return sent != PLAIT_OK ? sent : write_all(fd, data, bytes, until);
}

/* Name the rank at the other end of a socket that failed. */
static enum plait_status blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status)
{
    if (status == PLAIT_ERR_TIMEOUT)
        return plait_fail(status, "comm creation: nothing from rank %u for %g s", rank, b->limit);
    if (status == PLAIT_ERR_PEER)
        return plait_fail(status, "comm creation: rank %u left", rank);
    return status;
}

static bool is_error(int32_t status)
{
    return status < PLAIT_OK && strcmp(plait_status_name((enum plait_status)status), "PLAIT_ERR_UNKNOWN") != 0;
}

/* A frame of exactly `bytes` from `rank`, or the error it reports, whose text is recorded here as it came. */
static enum plait_status read_frame(const struct plait_bootstrap *b, uint32_t rank, void *data, size_t bytes,
                                    double until)
{
    const int fd = b->rank > 0 ? b->root : b->peers[rank];
    struct frame f;
    char text[512];
    enum plait_status status = read_all(fd, &f, sizeof f, until);

    if (status != PLAIT_OK)
        return blame(b, rank, status);
    if (f.status == PLAIT_OK && f.bytes == bytes)
        return blame(b, rank, read_all(fd, data, bytes, until));
    if (!is_error(f.status) || f.bytes >= sizeof text)
        return plait_fail(PLAIT_ERR_PEER, "comm creation: rank %u sent a message of %u bytes where %zu are due", rank,
                          f.bytes, bytes);
    status = read_all(fd, text, f.bytes, until);
    if (status != PLAIT_OK)
        return blame(b, rank, status);
    text[f.bytes] = '\0';
    return plait_fail((enum plait_status)f.status, "%s",
                      text[0] != '\0' ? text : plait_status_text((enum plait_status)f.status));
}

/* Rank 0 gives up: everyone who is connected learns why. */
static enum plait_status tell_all(struct plait_bootstrap *b, enum plait_status status)
{
    const char *text = plait_last_error();

    for (uint32_t r = 1; r < b->nrank; r++)
        if (b->peers[r] >= 0)
            write_frame(b->peers[r], status, text, strlen(text), plait_clock() + 1.0);
    return status;
}

/* ---- Meeting ------------------------------------------------------------------------------------ */

static void name_missing(const struct plait_bootstrap *b, char *text, size_t size)
{
    size_t n = 0;
    unsigned missing = 0;

    for (uint32_t r = 1; r < b->nrank && n + 16 < size; r++) {
        if (b->peers[r] >= 0)
            continue;
        if (++missing > 16) {
            snprintf(text + n, size - n, ", ...");
            return;
        }
        n += (size_t)snprintf(text + n, size - n, "%s%u", missing > 1 ? ", " : "", r);
    }
}

/* Let one rank in, or refuse it; strangers are dropped. */
static enum plait_status admit(struct plait_bootstrap *b, int fd, uint32_t *joined)
{
    struct ucred who;
    socklen_t length = sizeof who;
    struct hello hello;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid() ||
        read_all(fd, &hello, sizeof hello, plait_clock() + 1.0) != PLAIT_OK || hello.magic != MAGIC) {
        close(fd);
        return PLAIT_OK;
    }
    if (hello.nrank != b->nrank || hello.rank == 0 || hello.rank >= b->nrank || b->peers[hello.rank] >= 0) {
        const enum plait_status status =
            hello.nrank != b->nrank
                ? plait_fail(PLAIT_ERR_MISMATCH, "comm creation: nrank is %u on rank 0 and %u on rank %u", b->nrank,
                             hello.nrank, hello.rank)
                : plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank %u", hello.rank);
        write_frame(fd, status, plait_last_error(), strlen(plait_last_error()), plait_clock() + 1.0);
        close(fd);
        return status;
    }
    b->peers[hello.rank] = fd;
    ++*joined;
    return PLAIT_OK;
}

static enum plait_status listen_for_all(struct plait_bootstrap *b, const struct sockaddr_un *address, socklen_t length)
{
    const double until = plait_clock() + b->limit;
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enum plait_status status = PLAIT_OK;
    char text[256] = "";

    b->peers = malloc(b->nrank * sizeof *b->peers);
    if (b->peers == NULL) {
        status = plait_fail(PLAIT_ERR_NOMEM, "out of memory for %u ranks", b->nrank);
        goto out;
    }
    for (uint32_t r = 0; r < b->nrank; r++)
        b->peers[r] = -1;
    if (listener < 0 || bind(listener, (const struct sockaddr *)address, length) != 0 ||
        listen(listener, (int)b->nrank) != 0) {
        status = errno == EADDRINUSE
                     ? plait_fail(PLAIT_ERR_ARG, "comm creation: two ranks have rank 0, or the id is used twice")
                     : plait_fail(PLAIT_ERR_SYSTEM, "comm creation: cannot listen: %s", strerror(errno));
        goto out;
    }
    for (uint32_t joined = 1; joined < b->nrank && status == PLAIT_OK;) {
        status = wait_for(listener, POLLIN, until);
        if (status == PLAIT_ERR_TIMEOUT) {
            name_missing(b, text, sizeof text);
            status = plait_fail(status, "comm creation: %u of %u ranks did not come within %g s: rank %s",
                                b->nrank - joined, b->nrank, b->limit, text);
        }
        if (status == PLAIT_OK) {
            const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                status = admit(b, fd, &joined);
            else if (errno != EINTR && errno != ECONNABORTED)
                status =
                    plait_fail(PLAIT_ERR_SYSTEM, "comm creation: accept: %s (limit on descriptors?)", strerror(errno));
        }
    }
    if (status != PLAIT_OK)
        tell_all(b, status);
out:
    if (listener >= 0)
        close(listener);
    return status;
}

static enum plait_status connect_to_root(struct plait_bootstrap *b, const struct sockaddr_un *address, socklen_t length)
{
    const double until = plait_clock() + b->limit;
    const struct hello hello = { MAGIC, b->nrank, b->rank };
    useconds_t pause = 500;

    b->root = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (b->root < 0)
        return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: no socket: %s", strerror(errno));
    while (connect(b->root, (const struct sockaddr *)address, length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: connecting to rank 0: %s", strerror(errno));
        if (plait_clock() > until)
            return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not come within %g s", b->limit);
        usleep(pause);
        if (pause < 10000)
            pause *= 2;
    }
    return write_all(b->root, &hello, sizeof hello, until);
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, struct plait_bootstrap **out)
{
    struct sockaddr_un address;
    socklen_t length = 0;
    struct plait_bootstrap *b = calloc(1, sizeof *b);
    enum plait_status status;

    if (b == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "out of memory for the bootstrap");
    *b = (struct plait_bootstrap){ .rank = rank, .nrank = nrank, .limit = seconds, .root = -1 };
    if (nrank > 1 && !address_of(id, &address, &length))
        status = plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create()");
    else if (nrank == 1)
        status = PLAIT_OK;
    else
        status = rank == 0 ? listen_for_all(b, &address, length) : connect_to_root(b, &address, length);
    if (status == PLAIT_OK)
        *out = b;
    else
        plait_bootstrap_destroy(b);
    return status;
}

void plait_bootstrap_destroy(struct plait_bootstrap *b)
{
    if (b == NULL)
        return;
    if (b->root >= 0)
        close(b->root);
    for (uint32_t r = 0; b->peers != NULL && r < b->nrank; r++)
        if (b->peers[r] >= 0)
            close(b->peers[r]);
    free(b->peers);
    free(b);
}

/* ---- Exchanges ---------------------------------------------------------------------------------- */

enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, const void *own, size_t bytes, void *all)
{
    /* The others allow rank 0 its own wait, so that its error, which names the culprit, reaches them. */
    const double until = plait_clock() + b->limit + (b->rank > 0 ? 2.0 : 0.0);
    enum plait_status status = PLAIT_OK;

    memcpy((char *)all + b->rank * bytes, own, bytes);
    if (b->rank > 0) {
        status = write_frame(b->root, PLAIT_OK, own, bytes, until);
        /* Rank 0 may have closed the socket after saying why. */
        return status == PLAIT_OK || status == PLAIT_ERR_PEER ? read_frame(b, 0, all, b->nrank * bytes, until)
                                                              : blame(b, 0, status);
    }
    for (uint32_t r = 1; r < b->nrank && status == PLAIT_OK; r++)
        status = read_frame(b, r, (char *)all + r * bytes, bytes, until);
    if (status != PLAIT_OK)
        return tell_all(b, status);
    for (uint32_t r = 1; r < b->nrank; r++)
        write_frame(b->peers[r], PLAIT_OK, all, b->nrank * bytes, until);
    return PLAIT_OK;
}

static enum plait_status send_fds(int socket, const int *fds, uint32_t n, double until)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
    char byte = 'F';
    struct iovec iov = { &byte, 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(n * sizeof(int))
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    memset(control, 0, sizeof control);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    for (;;) {
        if (sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
            return PLAIT_OK;
        if (errno == EAGAIN) {
            const enum plait_status status = wait_for(socket, POLLOUT, until);
            if (status != PLAIT_OK)
                return status;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return PLAIT_ERR_PEER;
        } else if (errno != EINTR) {
            return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: passing descriptors: %s", strerror(errno));
        }
    }
}

static enum plait_status receive_fds(int socket, int *fds, uint32_t n, double until)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    const enum plait_status status = wait_for(socket, POLLIN, until);

    if (status != PLAIT_OK)
        return status;
    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != 1)
        return PLAIT_ERR_PEER;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    const size_t got = c != NULL && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < got; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (i < n)
            fds[i] = fd;
        else
            close(fd);
    }
    if (got < n)
        return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: %zu of %u descriptors arrived; raise the limit (ulimit -n)",
                          got, n);
    return PLAIT_OK;
}

/* Rank 0 collects each giver's descriptors, then hands every giver those of all others. */
static enum plait_status relay(struct plait_bootstrap *b, const unsigned char *gives, uint32_t n, int *all,
                               double until)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 1; r < b->nrank && status == PLAIT_OK; r++)
        if (gives[r])
            status = blame(b, r, receive_fds(b->peers[r], all + r * n, n, until));
    for (uint32_t to = 1; to < b->nrank && status == PLAIT_OK; to++)
        for (uint32_t from = 0; gives[to] && from < b->nrank && status == PLAIT_OK; from++)
            if (gives[from] && from != to)
                status = blame(b, to, send_fds(b->peers[to], all + from * n, n, until));
    return status;
}

enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const int *own, uint32_t n, int *all)
{
    const double until = plait_clock() + b->limit;
    const unsigned char giving = own != NULL;
    unsigned char *gives = malloc(b->nrank);
    enum plait_status status = gives != NULL ? plait_bootstrap_allgather(b, &giving, 1, gives)
                                             : plait_fail(PLAIT_ERR_NOMEM, "out of memory for %u ranks", b->nrank);

    for (uint32_t i = 0; i < b->nrank * n; i++)
        all[i] = -1;
    if (status == PLAIT_OK && b->rank == 0) {
        if (giving)
            memcpy(all, own, n * sizeof *own);
        status = relay(b, gives, n, all, until);
        for (uint32_t i = 0; i < n; i++)
            all[i] = -1;
    } else if (status == PLAIT_OK && giving) {
        status = blame(b, 0, send_fds(b->root, own, n, until));
        for (uint32_t r = 0; r < b->nrank && status == PLAIT_OK; r++)
            if (gives[r] && r != b->rank)
                status = blame(b, 0, receive_fds(b->root, all + r * n, n, until));
    }
    free(gives);
    return status;
}

enum plait_status plait_bootstrap_agree(struct plait_bootstrap *b, enum plait_status own)
{
    struct verdict {
        int32_t status;
        char text[252];
    } mine = { own, "" }, *all = calloc(b->nrank, sizeof *all);
    enum plait_status status;

    if (all == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "out of memory for %u ranks", b->nrank);
    if (own != PLAIT_OK)
        snprintf(mine.text, sizeof mine.text, "%s", plait_last_error());
    status = plait_bootstrap_allgather(b, &mine, sizeof mine, all);
    for (uint32_t r = 0; r < b->nrank && status == PLAIT_OK; r++)
        if (all[r].status != PLAIT_OK && !is_error(all[r].status))
            status = plait_fail(PLAIT_ERR_PEER, "comm creation: rank %u sent %d, which is no status", r, all[r].status);
        else if (all[r].status != PLAIT_OK)
            status = r == b->rank ? plait_fail(own, "%s", mine.text)
                                  : plait_fail((enum plait_status)all[r].status, "rank %u: %.*s", r,
                                               (int)sizeof all[r].text - 1, all[r].text);
    free(all);
    return status;
}
