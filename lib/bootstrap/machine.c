/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 listens under the id's name. Abstract names vanish with their process. Only processes of the same user are let
 * in.
 */
#include "machine.h"

#include "../clock.h"
#include "../status.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC       0x504c4149u /* "PLAI" */
#define MOST_SILENT 5.0         /* seconds from connecting to saying who it is */

struct greeting { /* followed by a frame: the rank's verdict */
    uint32_t magic;
    struct plait_hello hello;
};

socklen_t plait_abstract_address(const char *name, size_t n, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
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

/* ---- Rank 0 --------------------------------------------------------------------------------------------- */

static int open_door(struct plait_place *place, const struct plait_bootstrap *b, double until)
{
    const struct plait_machine_place *p = (const struct plait_machine_place *)place;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)until;
    if (fd < 0 || (bind(fd, (const struct sockaddr *)&p->address, p->length) == 0 && listen(fd, (int)b->nrank) == 0))
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/*
 * Read who has connected. Strangers are not `ours`; PLAIT_ERR_PEER: one of this user's processes ended before it had
 * said who it is.
 */
static enum plait_status read_hello(int fd, struct plait_hello *hello, struct plait_error *verdict, double until,
                                    bool *ours)
{
    struct greeting g;
    int pid;

    *ours = false;
    if (!plait_is_this_user(fd, &pid))
        return PLAIT_OK;
    enum plait_status status = plait_frame_receive(fd, &g, sizeof g, until);
    if (status == PLAIT_OK && g.magic == MAGIC)
        status = plait_frame_read(fd, NULL, 0, until, verdict);
    *ours = status == PLAIT_OK && g.magic == MAGIC;
    if (*ours)
        *hello = g.hello;
    return status != PLAIT_ERR_PEER ? PLAIT_OK
                                    : plait_fail(status, "comm creation: a rank (process %d) left or died", pid);
}

static enum plait_status take(struct plait_place *place, int door, struct plait_hello *hello,
                              struct plait_error *verdict, double until, int *out)
{
    const int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    bool ours;

    (void)place;
    *out = -1;
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN))
        return PLAIT_OK;
    if (fd < 0)
        return plait_fail_errno(errno, "comm creation: rank 0 cannot let in the others");
    /* One that connects and then says nothing, as it is stopped, does not keep the others out. */
    const double now = plait_clock(), patience = (until - now) / 4 < MOST_SILENT ? (until - now) / 4 : MOST_SILENT;
    const enum plait_status status = read_hello(fd, hello, verdict, now + patience, &ours);
    if (ours)
        *out = fd;
    else
        close(fd);
    return status;
}

static void close_door(struct plait_place *place, int door)
{
    (void)place;
    plait_hang_up(door);
}

static void explain(const struct plait_place *place, char *text, size_t size)
{
    (void)place;
    (void)text;
    (void)size;
}

static bool keeps(const struct plait_place *place, int door, int fd)
{
    (void)place;
    return fd == door;
}

/* ---- The others ------------------------------------------------------------------------------------------ */

/* Connect to rank 0, once it is there. */
static enum plait_status find_rank_0(const struct plait_machine_place *p, const struct plait_bootstrap *b, int fd,
                                     double until)
{
    useconds_t pause = 500;

    while (connect(fd, (const struct sockaddr *)&p->address, p->length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: connecting to rank 0");
        const enum plait_status status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        if (plait_clock() > until)
            return plait_rank_0_is_late(b,
                                        "; the id is of ranks on one machine: where they are on several, the launcher "
                                        "must not say that all are on this one (LOCAL_WORLD_SIZE)");
        usleep(pause);
        if (pause < 10000)
            pause *= 2;
    }
    int pid;
    return plait_is_this_user(fd, &pid)
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_SYSTEM, "comm creation: process %d, of another user, listens where rank 0 should",
                            pid);
}

static enum plait_status join(struct plait_place *place, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out)
{
    const struct greeting g = { MAGIC, { b->nrank, b->rank } };
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enum plait_status status;

    *out = fd;
    if (fd < 0)
        return plait_fail_errno(errno, "comm creation: no socket to meet at");
    status = find_rank_0((const struct plait_machine_place *)place, b, fd, until);
    if (status != PLAIT_OK)
        return status;
    status = plait_frame_send(fd, &g, sizeof g, until + PLAIT_TELL);
    if (status == PLAIT_OK)
        status = verdict->status == PLAIT_OK ? plait_frame_write(fd, NULL, 0, until + PLAIT_TELL)
                                             : plait_frame_write_error(fd, verdict, until + PLAIT_TELL);
    return status == PLAIT_ERR_PEER ? PLAIT_OK
                                    : plait_star_blame(b, 0, status); /* it may have said why before it closed */
}

void plait_machine_place_init(struct plait_machine_place *place, const char *name, size_t n)
{
    *place = (struct plait_machine_place){ .place = { open_door, take, close_door, explain, join, keeps } };
    place->length = plait_abstract_address(name, n, &place->address);
}
