/* SPDX-License-Identifier: BSD-3-Clause */
#include "listener.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"
#include "star.h"
#include "unix.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define CLIENT_LIMIT 5.0  /* seconds for a client to join */
#define SILENT_TURN  0.02 /* seconds that a client keeps its slot while others wait, before its hello */
#define TURN         0.25 /* the same after its hello */

#define OF_SOCKET 0x1000u /* event data: + the index of a listening socket; smaller: that of a client */

void plait_listener_init(struct plait_listener *l, const unsigned char *secret)
{
    memset(l, 0, sizeof *l);
    l->secret = secret;
    l->events = -1;
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        l->clients[i].fd = -1;
}

bool plait_listener_open(struct plait_listener *l)
{
    l->events = plait_descriptor_keep(epoll_create1(EPOLL_CLOEXEC), PLAIT_FOR_RANKS);
    return l->events >= 0;
}

static bool watch(const struct plait_listener *l, int fd, uint32_t events, uint32_t of, int how)
{
    struct epoll_event e = { .events = events, .data.u32 = of };

    return epoll_ctl(l->events, how, fd, &e) == 0;
}

bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length)
{
    const int fd = plait_descriptor_keep(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                         PLAIT_FOR_RANKS),
              one = 1;

    if (fd < 0)
        return false;
    if (address->sa_family != AF_UNIX) /* despite connections of earlier comms in TIME_WAIT */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0 &&
        watch(l, fd, EPOLLIN, OF_SOCKET + l->nsocket, EPOLL_CTL_ADD)) {
        l->sockets[l->nsocket++] = fd;
        return true;
    }
    plait_descriptor_close(fd);
    return false;
}

void plait_listener_remove_all(struct plait_listener *l)
{
    while (l->nsocket > 0)
        plait_hang_up(l->sockets[--l->nsocket]);
}

void plait_listener_spare(struct plait_listener *l)
{
    if (l->nsocket > 1)
        return;
    const int spare = plait_descriptor_keep(fcntl(l->sockets[0], F_DUPFD_CLOEXEC, 0), PLAIT_FOR_RANKS);

    if (spare < 0) {
        plait_descriptor_close(l->events);
        l->events = -1;
    }
    plait_descriptor_close(spare);
}

bool plait_listener_has(const struct plait_listener *l, int fd)
{
    bool has = fd == l->events;

    for (unsigned i = 0; i < l->nsocket; i++)
        has |= fd == l->sockets[i];
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        has |= fd == l->clients[i].fd;
    return has;
}

enum plait_status plait_listener_check(const struct plait_listener *l)
{
    enum plait_status status = l->events >= 0 ? plait_descriptor_check(l->events) : PLAIT_OK;

    for (unsigned i = 0; i < l->nsocket && status == PLAIT_OK; i++)
        status = plait_descriptor_check(l->sockets[i]);
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS && status == PLAIT_OK; i++)
        status = l->clients[i].fd >= 0 ? plait_descriptor_check(l->clients[i].fd) : PLAIT_OK;
    return status;
}

/* The name of the other end, whose address is `from`. False: another user's process. */
static bool name_end(int fd, const union plait_address *from, char out[PLAIT_ADDRESS_TEXT])
{
    int pid;

    if (from->any.sa_family == AF_INET || from->any.sa_family == AF_INET6) {
        plait_address_text(from, false, out);
        return true;
    }
    const bool ours = plait_is_this_user(fd, &pid);
    snprintf(out, PLAIT_ADDRESS_TEXT, "process %d", pid);
    return ours;
}

void plait_peer_name(int fd, char out[PLAIT_ADDRESS_TEXT])
{
    union plait_address a = { .any.sa_family = AF_UNSPEC };
    socklen_t length = sizeof a;

    getpeername(fd, &a.any, &length);
    name_end(fd, &a, out);
}

/* ---- Refused connections ------------------------------------------------------------------------------------ */

static const char *const refusals[] = {
    [PLAIT_REFUSED_NOTHING] = "said nothing",
    [PLAIT_REFUSED_STRANGER] = "did not speak the protocol of this version of Plait",
    [PLAIT_REFUSED_LEFT] = "left after rank 0's answer: of another comm, with another secret, or by a second address",
    [PLAIT_REFUSED_SECRET] = "did not know this comm's secret",
    [PLAIT_REFUSED_SLOW] = "took too long",
    [PLAIT_REFUSED_CROWD] = "was one of too many",
};

/* NULL: there are too many. */
static struct plait_source *source_of(struct plait_listener *l, const struct plait_client *c)
{
    for (unsigned i = 0; i < l->nsource; i++)
        if (strcmp(l->sources[i].from, c->from) == 0)
            return &l->sources[i];
    if (l->nsource == PLAIT_MOST_SOURCES)
        return NULL;
    l->sources[l->nsource] = (struct plait_source){ 0 };
    memcpy(l->sources[l->nsource].from, c->from, sizeof c->from);
    return &l->sources[l->nsource++];
}

/* A rank tries several addresses and leaves all but one, so a client that only leaves may be a rank. */
static bool may_be_ours(enum plait_refusal why)
{
    return why == PLAIT_REFUSED_NOTHING || why == PLAIT_REFUSED_LEFT || why == PLAIT_REFUSED_CROWD;
}

static void count_refusal(struct plait_listener *l, const struct plait_client *c, enum plait_refusal why)
{
    struct plait_source *s = source_of(l, c);

    if (s == NULL) {
        l->uncounted++;
    } else {
        s->refused++;
        if (s->refused == 1 || !may_be_ours(why) || (may_be_ours(s->worst) && why != PLAIT_REFUSED_NOTHING))
            s->worst = why;
    }
}

/* Once for each source, at the end. */
static void log_refusals(const struct plait_listener *l)
{
    for (unsigned i = 0; i < l->nsource; i++)
        if (l->sources[i].refused > 0)
            plait_log(may_be_ours(l->sources[i].worst) ? PLAIT_LOG_INFO : PLAIT_LOG_WARN,
                      "comm creation: refused %u connections from %s, one of which %s", l->sources[i].refused,
                      l->sources[i].from, refusals[l->sources[i].worst]);
    if (l->uncounted > 0)
        plait_log(PLAIT_LOG_WARN, "comm creation: refused %u connections from more than %d addresses or processes",
                  l->uncounted, PLAIT_MOST_SOURCES);
}

void plait_listener_explain(const struct plait_listener *l, char *text, size_t size)
{
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS && l->secret == NULL; i++)
        if (l->clients[i].fd >= 0) {
            snprintf(text, size, "; %s has connected and not said which rank it is", l->clients[i].from);
            return;
        }
    for (unsigned i = 0; i < l->nsource; i++) {
        const struct plait_source *s = &l->sources[i];
        if (s->refused == 0 || (s->joined > 0 && s->worst == PLAIT_REFUSED_NOTHING))
            continue;
        snprintf(text, size, "; refused %u connections from %s, one of which %s", s->refused, s->from,
                 refusals[s->worst]);
        return;
    }
}

/* ---- Clients ------------------------------------------------------------------------------------------------- */

/* While there is no room for clients, new connections wait in the backlog. */
static void pause_accepting(struct plait_listener *l, bool paused)
{
    for (unsigned i = 0; i < l->nsocket && l->paused != paused; i++)
        watch(l, l->sockets[i], paused ? 0 : EPOLLIN, OF_SOCKET + i, EPOLL_CTL_MOD);
    l->paused = paused;
}

/* Free the client's slot; returns its socket. */
static int let_go(struct plait_listener *l, struct plait_client *c)
{
    const int fd = c->fd;

    watch(l, fd, 0, 0, EPOLL_CTL_DEL);
    c->fd = -1;
    l->nclient--;
    pause_accepting(l, false);
    return fd;
}

static void refuse(struct plait_listener *l, struct plait_client *c, enum plait_refusal why)
{
    count_refusal(l, c, why);
    plait_descriptor_close(let_go(l, c));
}

/* Evict the oldest client whose turn is over; NULL: there is none. */
static struct plait_client *evict(struct plait_listener *l)
{
    const double now = plait_clock();
    struct plait_client *oldest = NULL;

    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++) {
        struct plait_client *c = &l->clients[i];
        if (c->fd >= 0 && now - c->since > (c->greeted ? TURN : SILENT_TURN) &&
            (oldest == NULL || c->since < oldest->since))
            oldest = c;
    }
    if (oldest != NULL)
        refuse(l, oldest, PLAIT_REFUSED_CROWD);
    return oldest;
}

/* A free slot, if need be that of a client whose turn is over. NULL: none yet. */
static struct plait_client *make_room(struct plait_listener *l)
{
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        if (l->clients[i].fd < 0)
            return &l->clients[i];
    return evict(l);
}

static enum plait_status accept_client(struct plait_listener *l, int listener)
{
    struct plait_client *c = make_room(l);
    union plait_address from = { .any.sa_family = AF_UNSPEC };
    socklen_t length = sizeof from;
    const int one = 1;

    if (c == NULL) {
        pause_accepting(l, true);
        return PLAIT_OK;
    }
    const int fd =
        plait_descriptor_keep(accept4(listener, &from.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK), PLAIT_FOR_RANKS);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && l->nclient > 0) {
        pause_accepting(l, evict(l) == NULL); /* clients hold descriptors and will release them */
        return PLAIT_OK;
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        return plait_fail_errno(errno, "comm creation: rank 0 cannot accept the others' connections");
    if (fd < 0) /* the client has left, or a network is down */
        return PLAIT_OK;
    *c = (struct plait_client){ .fd = -1, .since = plait_clock() };
    if (!name_end(fd, &from, c->from)) {
        plait_descriptor_close(fd);
        return PLAIT_OK;
    }
    if (l->secret != NULL)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    l->nclient++;
    watch(l, fd, EPOLLIN, (uint32_t)(c - l->clients), EPOLL_CTL_ADD);
    return PLAIT_OK;
}

/* Read the rank's error, if it has one. This may wait: the sender is authenticated, and its error ends all. */
static bool read_verdict(const struct plait_client *c, struct plait_error *out)
{
    const struct plait_join_request *r = &c->request;

    out->status = (enum plait_status)r->status;
    out->text[r->bytes] = '\0';
    if (r->bytes > 0 && plait_frame_receive(c->fd, out->text, r->bytes, plait_clock() + PLAIT_TELL) != PLAIT_OK)
        return false;
    if (r->status != PLAIT_OK && out->text[0] == '\0')
        snprintf(out->text, sizeof out->text, "%s", plait_status_text(out->status));
    return true;
}

static bool acknowledge(int fd)
{
    return send(fd, &(const char){ PLAIT_JOINED }, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* *out is the client's socket once it has joined. */
static void serve(struct plait_listener *l, struct plait_client *c, struct plait_join_request *request,
                  struct plait_error *verdict, int *out)
{
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    const enum plait_status status = plait_client_advance(c, l->secret, &why);

    if (status == PLAIT_IN_PROGRESS && plait_clock() - c->since < CLIENT_LIMIT)
        return;
    if (status != PLAIT_OK || !read_verdict(c, verdict) || !acknowledge(c->fd)) {
        refuse(l, c, status != PLAIT_OK ? why : PLAIT_REFUSED_LEFT);
        return;
    }
    struct plait_source *s = source_of(l, c);
    if (s != NULL)
        s->joined++;
    *request = c->request;
    *out = let_go(l, c);
}

/* One client at a time: wait for its request. */
static enum plait_status take_alone(struct plait_listener *l, struct plait_join_request *request,
                                    struct plait_error *verdict, int *out)
{
    struct plait_client *c = &l->clients[0];
    const enum plait_status status = accept_client(l, l->sockets[0]);
    const double until = plait_clock() + PLAIT_TELL;

    while (c->fd >= 0 && plait_frame_wait(c->fd, POLLIN, until) == PLAIT_OK)
        serve(l, c, request, verdict, out);
    if (c->fd >= 0)
        refuse(l, c, PLAIT_REFUSED_SLOW);
    return status;
}

enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request,
                                      struct plait_error *verdict, int *out)
{
    struct epoll_event events[16];
    enum plait_status status = plait_listener_check(l);

    *out = -1;
    if (status != PLAIT_OK || l->events < 0)
        return status != PLAIT_OK ? status : take_alone(l, request, verdict, out);
    pause_accepting(l, false);
    const int n = epoll_wait(l->events, events, 16, 0);
    for (int i = 0; i < n && status == PLAIT_OK && *out < 0; i++) { /* the next call finds the other events again */
        const uint32_t of = events[i].data.u32;
        if (of >= OF_SOCKET)
            status = accept_client(l, l->sockets[of - OF_SOCKET]);
        else if (l->clients[of].fd >= 0)
            serve(l, &l->clients[of], request, verdict, out);
    }
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS && status == PLAIT_OK && *out < 0; i++)
        if (l->clients[i].fd >= 0 && plait_clock() - l->clients[i].since >= CLIENT_LIMIT)
            serve(l, &l->clients[i], request, verdict, out);
    return status;
}

void plait_listener_drop_clients(struct plait_listener *l)
{
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        if (l->clients[i].fd >= 0)
            refuse(l, &l->clients[i], l->clients[i].greeted ? PLAIT_REFUSED_LEFT : PLAIT_REFUSED_NOTHING);
}

void plait_listener_close(struct plait_listener *l)
{
    plait_listener_drop_clients(l);
    log_refusals(l);
    plait_listener_remove_all(l);
    plait_descriptor_close(l->events);
}
