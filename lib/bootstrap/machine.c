/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 listens on the abstract name in the id. It accepts processes of the same user only. */
#include "machine.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAGIC       0x504c4149u /* "PLAI" */
#define TAKEN       'T'         /* rank 0's acknowledgement of a rank */
#define COMES_AGAIN 2.0         /* seconds that a rank tries again after rank 0 closed its connection */
#define SILENT_TURN 0.02        /* seconds that a silent connection keeps its slot when all are taken */
#define OF_LISTENER UINT32_MAX  /* event data of the listener; a client's is its index */

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

/* ---- Connections that have not yet named their rank ---------------------------------------------------------- */

static void watch(int door, int fd, uint32_t of, int how)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u32 = of };

    epoll_ctl(door, how, fd, &e);
}

static void send_away(struct plait_machine_place *p, struct plait_local_client *g)
{
    p->refused++;
    p->stranger = g->pid;
    plait_descriptor_close(g->fd);
    g->fd = -1;
}

/*
 * Read the bytes that have arrived. PLAIT_IN_PROGRESS: more are to come; PLAIT_OK: a rank; PLAIT_ERR_PEER: no rank, or
 * it has left.
 */
static enum plait_status hear(struct plait_local_client *g)
{
    for (;;) {
        const bool known = g->got >= sizeof g->said;
        if (known && (g->said.magic != MAGIC || g->said.bytes >= sizeof g->text ||
                      (g->said.status != PLAIT_OK ? !plait_is_error(g->said.status) : g->said.bytes != 0)))
            return PLAIT_ERR_PEER;
        const size_t all = sizeof g->said + (known ? g->said.bytes : 0);
        if (known && g->got == all) {
            g->text[g->said.bytes] = '\0';
            if (g->said.status != PLAIT_OK && g->text[0] == '\0')
                snprintf(g->text, sizeof g->text, "%s", plait_status_text((enum plait_status)g->said.status));
            return PLAIT_OK;
        }
        char *at = known ? g->text + (g->got - sizeof g->said) : (char *)&g->said + g->got;
        const ssize_t n = recv(g->fd, at, all - g->got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN ? PLAIT_IN_PROGRESS : PLAIT_ERR_PEER;
        g->got += (size_t)n;
    }
}

/*
 * A free slot, else that of the oldest connection, once SILENT_TURN old. NULL: none yet. full: no descriptor is left,
 * so a free slot does not help.
 */
static struct plait_local_client *make_room(struct plait_machine_place *p, bool full)
{
    struct plait_local_client *oldest = NULL;

    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++) {
        struct plait_local_client *g = &p->clients[i];
        if (g->fd < 0 && !full)
            return g;
        if (g->fd >= 0 && (oldest == NULL || g->since < oldest->since))
            oldest = g;
    }
    if (oldest == NULL || plait_clock() - oldest->since < SILENT_TURN)
        return NULL;
    send_away(p, oldest);
    return oldest;
}

static bool has_clients(const struct plait_machine_place *p)
{
    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++)
        if (p->clients[i].fd >= 0)
            return true;
    return false;
}

static enum plait_status welcome(struct plait_machine_place *p, int door)
{
    struct plait_local_client *g = make_room(p, false);
    int pid;

    if (g == NULL) /* the connection waits in the backlog */
        return PLAIT_OK;
    const int fd = plait_descriptor_keep(accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), PLAIT_FOR_RANKS);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && has_clients(p)) {
        make_room(p, true);
        return PLAIT_OK;
    }
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN))
        return PLAIT_OK;
    if (fd < 0)
        return plait_fail_errno(errno, "comm creation: rank 0 cannot let in the others");
    if (!plait_is_this_user(fd, &pid)) {
        plait_descriptor_close(fd);
        return PLAIT_OK;
    }
    *g = (struct plait_local_client){ .fd = fd, .pid = pid, .since = plait_clock() };
    if (door >= 0)
        watch(door, fd, (uint32_t)(g - p->clients), EPOLL_CTL_ADD);
    return PLAIT_OK;
}

/* ---- Rank 0 --------------------------------------------------------------------------------------------- */

static int open_door(struct plait_place *place, const struct plait_bootstrap *b, double until)
{
    struct plait_machine_place *p = (struct plait_machine_place *)place;
    int door = -1;

    (void)until;
    p->listener =
        plait_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), PLAIT_FOR_RANKS);
    if (p->listener >= 0)
        door = plait_descriptor_keep(epoll_create1(EPOLL_CLOEXEC),
                                     PLAIT_FOR_RANKS); /* before bind(), so that no rank connects in vain */
    if (door >= 0 && bind(p->listener, (const struct sockaddr *)&p->address, p->length) == 0 &&
        listen(p->listener, (int)b->nrank) == 0) {
        const int spare = plait_descriptor_keep(fcntl(p->listener, F_DUPFD_CLOEXEC, 0), PLAIT_FOR_RANKS);
        if (spare >= 0) {
            plait_descriptor_close(spare);
            watch(door, p->listener, OF_LISTENER, EPOLL_CTL_ADD);
            return door;
        }
        plait_descriptor_close(door); /* the one descriptor left is for connections, one at a time */
        return p->listener;
    }
    const int error = errno;
    plait_descriptor_close(door);
    plait_descriptor_close(p->listener);
    p->listener = -1;
    errno = error;
    return -1;
}

/* True once the client has named its rank and is acknowledged. */
static bool listen_to(struct plait_machine_place *p, int door, struct plait_local_client *g)
{
    const char taken = TAKEN;
    const enum plait_status status = hear(g);

    if (status == PLAIT_IN_PROGRESS)
        return false;
    if (status != PLAIT_OK || send(g->fd, &taken, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
        send_away(p, g);
        return false;
    }
    if (door >= 0)
        watch(door, g->fd, 0, EPOLL_CTL_DEL);
    return true;
}

/* Move the connection from the clients to the ranks. */
static void hand_over(struct plait_local_client *g, struct plait_hello *hello, struct plait_error *verdict, int *out)
{
    *hello = g->said.hello;
    verdict->status = (enum plait_status)g->said.status;
    memcpy(verdict->text, g->text, sizeof verdict->text);
    *out = g->fd;
    g->fd = -1;
}

/* Are the descriptors at which ranks connect still the library's? */
static enum plait_status check_open(const struct plait_machine_place *p, int door)
{
    enum plait_status status = plait_descriptor_check(door);

    if (status == PLAIT_OK)
        status = plait_descriptor_check(p->listener);
    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS && status == PLAIT_OK; i++)
        status = p->clients[i].fd >= 0 ? plait_descriptor_check(p->clients[i].fd) : PLAIT_OK;
    return status;
}

static enum plait_status take(struct plait_place *place, int door, struct plait_hello *hello,
                              struct plait_error *verdict, double until, int *out)
{
    struct plait_machine_place *p = (struct plait_machine_place *)place;
    struct epoll_event events[16];
    const bool alone = door == p->listener;
    const enum plait_status kept = check_open(p, door);
    *out = -1;
    if (kept != PLAIT_OK)
        return kept;
    const int n = alone ? 0 : epoll_wait(door, events, 16, 0);
    enum plait_status status = alone ? welcome(p, -1) : PLAIT_OK;

    (void)until; /* waits PLAIT_TELL at most */
    if (alone && status == PLAIT_OK && p->clients[0].fd >= 0) {
        plait_frame_wait(p->clients[0].fd, POLLIN, plait_clock() + PLAIT_TELL);
        if (listen_to(p, -1, &p->clients[0]))
            hand_over(&p->clients[0], hello, verdict, out);
        else if (p->clients[0].fd >= 0)
            send_away(p, &p->clients[0]);
    }
    for (int i = 0; i < n && status == PLAIT_OK && *out < 0; i++) { /* epoll reports the remaining events again */
        const uint32_t of = events[i].data.u32;
        struct plait_local_client *g = of < PLAIT_MOST_LOCAL_CLIENTS ? &p->clients[of] : NULL;
        if (g == NULL)
            status = welcome(p, door);
        else if (g->fd >= 0 && listen_to(p, door, g))
            hand_over(g, hello, verdict, out);
    }
    return status;
}

static void close_door(struct plait_place *place, int door)
{
    struct plait_machine_place *p = (struct plait_machine_place *)place;

    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++)
        if (p->clients[i].fd >= 0)
            send_away(p, &p->clients[i]);
    if (p->refused > 0)
        plait_log(PLAIT_LOG_INFO,
                  "comm creation: refused %u connections of this user, which named no rank; the last "
                  "was process %d's",
                  p->refused, p->stranger);
    if (door != p->listener)
        plait_descriptor_close(door);
    plait_hang_up(p->listener);
}

static void explain(const struct plait_place *place, char *text, size_t size)
{
    const struct plait_machine_place *p = (const struct plait_machine_place *)place;

    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++)
        if (p->clients[i].fd >= 0) {
            snprintf(text, size, "; process %d has connected and not said which rank it is", p->clients[i].pid);
            return;
        }
    if (p->refused > 0)
        snprintf(text, size, "; process %d connected and left before it had said which rank it is", p->stranger);
}

static bool keeps(const struct plait_place *place, int door, int fd)
{
    const struct plait_machine_place *p = (const struct plait_machine_place *)place;
    bool kept = fd == door || fd == p->listener;

    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++) /* connected ranks, which are still to be told */
        kept |= fd == p->clients[i].fd;
    return kept;
}

/* ---- The others ------------------------------------------------------------------------------------------ */

/* Connect to rank 0 as soon as rank 0 listens. */
static enum plait_status find_rank_0(const struct plait_machine_place *p, const struct plait_bootstrap *b, int fd,
                                     double until)
{
    useconds_t pause = 500;
    enum plait_status status;

    while ((status = plait_descriptor_check(fd)) == PLAIT_OK &&
           connect(fd, (const struct sockaddr *)&p->address, p->length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: connecting to rank 0");
        status = plait_frame_look();
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
    return status != PLAIT_OK || plait_is_this_user(fd, &pid)
               ? status
               : plait_fail(PLAIT_ERR_SYSTEM, "comm creation: process %d, of another user, listens where rank 0 should",
                            pid);
}

/* Send rank and verdict. PLAIT_ERR_PEER: rank 0 closed the connection before it acknowledged them. */
static enum plait_status introduce(int fd, const struct plait_bootstrap *b, const struct plait_error *verdict,
                                   double until)
{
    const bool fine = verdict->status == PLAIT_OK;
    const struct plait_local_hello said = {
        MAGIC, { b->nrank, b->rank, b->origin }, verdict->status, fine ? 0 : (uint32_t)strlen(verdict->text)
    };
    char taken;
    enum plait_status status = plait_frame_send(fd, &said, sizeof said, until);

    if (status == PLAIT_OK)
        status = plait_frame_send(fd, verdict->text, said.bytes, until);
    return status == PLAIT_OK ? plait_frame_receive(fd, &taken, 1, until) : status;
}

static enum plait_status join(struct plait_place *place, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out)
{
    double again = 0;
    bool lost = false;

    for (;;) {
        const int fd = plait_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), PLAIT_FOR_RANKS);
        *out = fd;
        if (fd < 0)
            return plait_fail_errno(errno, "comm creation: no socket to meet at");
        enum plait_status status =
            find_rank_0((const struct plait_machine_place *)place, b, fd, lost && again < until ? again : until);
        if (status == PLAIT_ERR_TIMEOUT && lost)
            return plait_star_blame(b, 0, PLAIT_ERR_PEER);
        if (status != PLAIT_OK)
            return status;
        status = introduce(fd, b, verdict, until + PLAIT_TELL);
        if (status != PLAIT_ERR_PEER)
            return plait_star_blame(b, 0, status);
        plait_descriptor_close(fd); /* rank 0 had no room, or has ended */
        *out = -1;
        lost = true;
        again = plait_clock() + COMES_AGAIN;
        usleep(1000);
    }
}

void plait_machine_place_init(struct plait_machine_place *place, const char *name, size_t n)
{
    *place =
        (struct plait_machine_place){ .place = { open_door, take, close_door, explain, join, keeps }, .listener = -1 };
    for (unsigned i = 0; i < PLAIT_MOST_LOCAL_CLIENTS; i++)
        place->clients[i].fd = -1;
    place->length = plait_abstract_address(name, n, &place->address);
}
