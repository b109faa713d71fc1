/* SPDX-License-Identifier: BSD-3-Clause */
#include "unix.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "frame.h"
#include "id.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE 500   /* us between tries to connect; doubles up to MOST_PAUSE */
#define MOST_PAUSE  10000 /* us */
#define ENDS_WITHIN 0.5   /* seconds for an earlier process of a rank, which is exiting, to be gone */

struct plait_unix_name plait_unix_name_make(const char *text)
{
    const size_t n = strlen(text);
    struct plait_unix_name name = { .address.sun_family = AF_UNIX,
                                    .length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n) };

    memcpy(name.address.sun_path + 1, text, n);
    return name;
}

struct plait_unix_name plait_unix_name_of(const struct plait_unique_id *id, const char *use)
{
    struct plait_tcp_id tcp;
    unsigned char mac[PLAIT_MAC_BYTES];
    unsigned long long h[2];
    char text[96];

    if (plait_tcp_id_of(id, &tcp)) {
        plait_mac(tcp.secret, use, NULL, 0, mac);
        memcpy(h, mac, sizeof h);
    } else {
        h[0] = plait_hash(PLAIT_HASH_START, id->bytes, sizeof id->bytes);
        h[1] = plait_hash(h[0], id->bytes, sizeof id->bytes);
    }
    snprintf(text, sizeof text, "plait1-%.20s-%016llx%016llx", use, h[0], h[1]);
    return plait_unix_name_make(text);
}

static int open_socket(int family, int flags)
{
    return plait_descriptor_keep(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), PLAIT_FOR_RANKS);
}

int plait_listen(const struct sockaddr *address, socklen_t length)
{
    const int fd = open_socket(address->sa_family, SOCK_NONBLOCK), one = 1;

    if (address->sa_family != AF_UNIX && fd >= 0) /* despite connections of earlier comms in TIME_WAIT */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->sa_family == AF_INET6 && fd >= 0)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (fd < 0 || (bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0))
        return fd;
    plait_descriptor_close(fd);
    return -1;
}

bool plait_is_this_user(int fd, int *pid)
{
    struct ucred who;
    socklen_t length = sizeof who;

    *pid = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return false;
    *pid = (int)who.pid;
    return who.uid == geteuid();
}

enum plait_status plait_unix_connect(const struct plait_unix_name *name, double until, const char *whom, int *fd)
{
    useconds_t pause = FIRST_PAUSE;
    int pid;

    *fd = open_socket(AF_UNIX, 0);
    if (*fd < 0)
        return plait_fail_errno(errno, "comm creation: no socket to reach the other ranks");
    while (connect(*fd, (const struct sockaddr *)&name->address, name->length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: connecting to a rank on this machine");
        const enum plait_status status = plait_frame_check();
        if (status != PLAIT_OK)
            return status;
        if (plait_clock() > until)
            return PLAIT_ERR_TIMEOUT;
        usleep(pause);
        pause = 2 * pause < MOST_PAUSE ? 2 * pause : MOST_PAUSE;
    }
    if (plait_is_this_user(*fd, &pid))
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: process %d, of another user, listens where %s should", pid,
                      whom);
}

/* ---- Each rank once --------------------------------------------------------------------------------------------- */

static enum plait_status refuse_claim(uint32_t rank, int pid)
{
    return plait_fail(PLAIT_ERR_MISMATCH,
                      "comm creation: two ranks have rank %u: process %d and process %d; " PLAIT_OTHER_JOB, rank, pid,
                      (int)getpid());
}

/* Connect to the holder of the name, which so hears of this process. 0: not another living process of this user. */
static int tell_holder(const struct plait_unix_name *name)
{
    const int fd = open_socket(AF_UNIX, SOCK_NONBLOCK);
    int pid = 0;

    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&name->address, name->length) != 0 ||
                    !plait_is_this_user(fd, &pid) || pid == getpid()))
        pid = 0;
    plait_descriptor_close(fd);
    return pid > 0 && kill(pid, 0) == 0 ? pid : 0; /* a child that a dead process forked may still hold the name */
}

enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, double seconds,
                                   struct plait_rank_claim *out)
{
    const double start = plait_clock();
    char use[20];
    int fd, pid;

    snprintf(use, sizeof use, "rank-%u", rank);
    const struct plait_unix_name name = plait_unix_name_of(id, use);
    *out = (struct plait_rank_claim){ .until = start + seconds };
    while ((fd = plait_listen((const struct sockaddr *)&name.address, name.length)) < 0 && errno == EADDRINUSE &&
           plait_clock() < start + ENDS_WITHIN)
        usleep(MOST_PAUSE);
    if (fd < 0 && errno != EADDRINUSE)
        return plait_fail_errno(errno, "comm creation: no socket to guard rank %u", rank);
    if (fd >= 0)
        out->fd = fd;
    else if ((pid = tell_holder(&name)) > 0)
        return refuse_claim(rank, pid);
    return PLAIT_OK;
}

enum plait_status plait_claim_check(const struct plait_rank_claim *claim, uint32_t rank)
{
    enum plait_status status = PLAIT_OK;

    for (int fd, pid;
         claim->fd > 0 && status == PLAIT_OK && plait_descriptor_is_ours(claim->fd) &&
         (fd = plait_descriptor_keep(accept4(claim->fd, NULL, NULL, SOCK_CLOEXEC), PLAIT_FOR_RANKS)) >= 0;) {
        if (!plait_is_this_user(fd, &pid) || pid == getpid())
            ;
        else if (plait_clock() < claim->until)
            status = refuse_claim(rank, pid);
        else
            plait_log(PLAIT_LOG_INFO, "process %d wanted to be rank %u, too, and was refused: %s", pid, rank,
                      PLAIT_OTHER_JOB);
        plait_descriptor_close(fd);
    }
    return status;
}
