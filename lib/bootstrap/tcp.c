/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's end of the rendezvous over TCP. The door is an epoll descriptor over its listeners, clients and a timer. */
#include "tcp.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define CLIENT_LIMIT 5.0  /* seconds for a client to prove to be a rank */
#define SILENT_TURN  0.02 /* seconds that a client keeps its slot while others wait, before its hail */
#define TURN         0.25 /* the same after its hail */
#define SWEEP_NS     100000000
#define BUSY_PAUSE   0.02 /* seconds between searches for a free port */
#define PROBE        1.0  /* seconds for another rank 0 to answer */

/* Data of the events of the epoll descriptor. */
#define OF_TIMER    UINT32_MAX
#define OF_LISTENER 0x1000u /* + its index; smaller: a client's index */

/* ---- Refused connections ------------------------------------------------------------------------------------ */

static const char *const refusals[] = {
    [PLAIT_REFUSED_NOTHING] = "said nothing",
    [PLAIT_REFUSED_STRANGER] = "did not speak the protocol of this version of Plait",
    [PLAIT_REFUSED_LEFT] = "left after rank 0's answer: of another comm, with another secret, or by a second address",
    [PLAIT_REFUSED_SECRET] = "did not know this comm's secret",
    [PLAIT_REFUSED_SLOW] = "took too long",
    [PLAIT_REFUSED_CROWD] = "came with too many others",
};

static bool same_host(const union plait_address *a, const union plait_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
                                       : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

static struct plait_source *source_of(struct plait_tcp_place *p, const union plait_address *from)
{
    for (unsigned i = 0; i < p->nsource; i++)
        if (same_host(&p->sources[i].from, from))
            return &p->sources[i];
    if (p->nsource == PLAIT_MOST_SOURCES)
        return NULL;
    p->sources[p->nsource] = (struct plait_source){ .from = *from };
    return &p->sources[p->nsource++];
}

/* A rank tries several ways and leaves all but one, so a client that only leaves may be a rank. */
static bool may_be_ours(enum plait_refusal why)
{
    return why == PLAIT_REFUSED_NOTHING || why == PLAIT_REFUSED_LEFT || why == PLAIT_REFUSED_CROWD;
}

static void count_refusal(struct plait_tcp_place *p, const struct plait_client *g, enum plait_refusal why)
{
    struct plait_source *s = source_of(p, &g->from);

    if (s == NULL) {
        p->unspecified++;
    } else {
        s->refused++;
        if (s->refused == 1 || !may_be_ours(why) || (may_be_ours(s->worst) && why != PLAIT_REFUSED_NOTHING))
            s->worst = why;
    }
}

/* Once per source, at the end. */
static void log_refusals(const struct plait_tcp_place *p)
{
    char address[PLAIT_ADDRESS_TEXT];

    for (unsigned i = 0; i < p->nsource; i++)
        if (p->sources[i].refused > 0)
            plait_log(may_be_ours(p->sources[i].worst) ? PLAIT_LOG_INFO : PLAIT_LOG_WARN,
                      "comm creation: refused %u connections from %s, one of which %s", p->sources[i].refused,
                      plait_address_text(&p->sources[i].from, false, address), refusals[p->sources[i].worst]);
    if (p->unspecified > 0)
        plait_log(PLAIT_LOG_WARN, "comm creation: refused %u connections from more than %d hosts", p->unspecified,
                  PLAIT_MOST_SOURCES);
}

static void explain(const struct plait_place *place, char *text, size_t size)
{
    const struct plait_tcp_place *p = (const struct plait_tcp_place *)place;
    char address[PLAIT_ADDRESS_TEXT];

    uint16_t least = UINT16_MAX, most = 0;
    for (unsigned i = 0; i < plait_tcp_id_nport(&p->id); i++) {
        const uint16_t port = plait_tcp_id_port(&p->id, i);
        least = port < least ? port : least;
        most = port > most ? port : most;
    }
    if (plait_loopback_is_down())
        snprintf(text, size, "%s", PLAIT_LOOPBACK_IS_DOWN);
    if (p->full)
        snprintf(text, size,
                 ": %u to %u; name others by PLAIT_PORTS, or by MASTER_PORT where that is set, which they follow",
                 least, most);
    for (unsigned i = 0; i < p->nsource; i++)
        if (p->sources[i].refused > 0 && (p->sources[i].taken == 0 || p->sources[i].worst != PLAIT_REFUSED_NOTHING)) {
            snprintf(text, size, "; refused %u connections from %s, one of which %s", p->sources[i].refused,
                     plait_address_text(&p->sources[i].from, false, address), refusals[p->sources[i].worst]);
            return;
        }
}

/* ---- Clients ------------------------------------------------------------------------------------------------- */

static void watch(int door, int fd, uint32_t events, uint32_t of, int how)
{
    struct epoll_event e = { .events = events, .data.u32 = of };

    epoll_ctl(door, how, fd, &e);
}

/* Pause or resume the listeners: without room, new connections wait in the backlog. */
static void close_to_others(struct plait_tcp_place *p, int door, bool closed)
{
    for (unsigned i = 0; i < p->nlistener && p->closed != closed; i++)
        watch(door, p->listeners[i], closed ? 0 : EPOLLIN, OF_LISTENER + i, EPOLL_CTL_MOD);
    p->closed = closed;
}

/* Free the client's slot. Its socket stays open. */
static void let_go(struct plait_tcp_place *p, int door, struct plait_client *g)
{
    watch(door, g->fd, 0, 0, EPOLL_CTL_DEL);
    g->fd = -1;
    p->nguest--;
    close_to_others(p, door, false);
}

static void send_away(struct plait_tcp_place *p, int door, struct plait_client *g, enum plait_refusal why)
{
    const int fd = g->fd;

    count_refusal(p, g, why);
    let_go(p, door, g);
    plait_descriptor_close(fd);
}

/* A free slot, or that of the oldest client whose turn is over. NULL: none yet. */
static struct plait_client *make_room(struct plait_tcp_place *p, int door)
{
    const double now = plait_clock();
    struct plait_client *oldest = NULL;

    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++) {
        struct plait_client *g = &p->clients[i];
        if (g->fd < 0)
            return g;
        if (now - g->since > (g->state == PLAIT_CLIENT_HAILS ? SILENT_TURN : TURN) &&
            (oldest == NULL || g->since < oldest->since))
            oldest = g;
    }
    if (oldest != NULL)
        send_away(p, door, oldest, PLAIT_REFUSED_CROWD);
    return oldest;
}

static enum plait_status welcome(struct plait_tcp_place *p, int door, int listener)
{
    struct plait_client *g = make_room(p, door);
    union plait_address from;
    socklen_t length = sizeof from;
    const int one = 1;

    if (g == NULL) {
        close_to_others(p, door, true);
        return PLAIT_OK;
    }
    memset(&from, 0, sizeof from);
    const int fd =
        plait_descriptor_keep(accept4(listener, &from.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK), PLAIT_FOR_RANKS);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && p->nguest > 0) {
        close_to_others(p, door, true); /* clients hold descriptors and will release them */
        return PLAIT_OK;
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        return plait_fail_errno(errno, "comm creation: rank 0 cannot let in the others");
    if (fd < 0) /* the client has left, or a network is down */
        return PLAIT_OK;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *g = (struct plait_client){ .fd = fd, .since = plait_clock(), .from = from };
    p->nguest++;
    watch(door, fd, EPOLLIN, (uint32_t)(g - p->clients), EPOLL_CTL_ADD);
    return PLAIT_OK;
}

/* *out is the client's socket once it has proved to be a rank. */
static void listen_to(struct plait_tcp_place *p, int door, struct plait_client *g, int *out)
{
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    enum plait_status status = plait_client_advance(g, p->id.secret, &why);

    if (status == PLAIT_IN_PROGRESS && plait_clock() - g->since < CLIENT_LIMIT)
        return;
    if (status != PLAIT_OK) {
        send_away(p, door, g, why);
        return;
    }
    struct plait_source *s = source_of(p, &g->from);
    if (s != NULL)
        s->taken++;
    *out = g->fd;
    let_go(p, door, g);
}

/* Refuse clients that are silent after CLIENT_LIMIT. */
static void sweep(struct plait_tcp_place *p, int door)
{
    uint64_t ticks;
    int out = -1;

    if (read(p->timer, &ticks, sizeof ticks) < 0)
        return;
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        if (p->clients[i].fd >= 0 && plait_clock() - p->clients[i].since >= CLIENT_LIMIT) {
            char peek; /* bytes that have arrived are an event of their own */
            if (recv(p->clients[i].fd, &peek, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
                listen_to(p, door, &p->clients[i], &out);
        }
    close_to_others(p, door, false);
}

static enum plait_status take(struct plait_place *place, int door, struct plait_hello *hello,
                              struct plait_error *verdict, double until, int *out)
{
    struct plait_tcp_place *p = (struct plait_tcp_place *)place;
    struct epoll_event events[16];
    enum plait_status status = plait_descriptor_check(door);
    const int n = status == PLAIT_OK ? epoll_wait(door, events, 16, 0) : 0;

    (void)until; /* nothing waits */
    *out = -1;
    for (int i = 0; i < n && status == PLAIT_OK; i++) {
        const uint32_t of = events[i].data.u32;
        if (of == OF_TIMER)
            sweep(p, door);
        else if (of >= OF_LISTENER)
            status = welcome(p, door, p->listeners[of - OF_LISTENER]);
        else if (p->clients[of].fd >= 0)
            listen_to(p, door, &p->clients[of], out);
        if (*out < 0)
            continue;
        const struct plait_client *g = &p->clients[of];
        *hello = (struct plait_hello){ g->claim.nrank, g->claim.rank, g->claim.origin };
        verdict->status = (enum plait_status)g->claim.status;
        memcpy(verdict->text, g->text, sizeof verdict->text);
        return PLAIT_OK; /* epoll reports the other events again */
    }
    return status;
}

/* ---- Opening and closing ------------------------------------------------------------------------------------ */

static void close_listeners(struct plait_tcp_place *p)
{
    while (p->nlistener > 0)
        plait_descriptor_close(p->listeners[--p->nlistener]);
}

static int listen_at(const union plait_address *address)
{
    const int fd = plait_descriptor_keep(socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                         PLAIT_FOR_RANKS),
              one = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* despite connections of earlier comms in TIME_WAIT */
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, &address->any, plait_address_length(address)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    plait_descriptor_close(fd);
    return -1;
}

/* Listen on all addresses of the id that this host has. Returns 0 or an errno; *busy is the address that failed. */
static int listen_on(struct plait_tcp_place *p, uint16_t port, union plait_address *busy)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    const unsigned n = plait_hosts_list(&p->id.hosts, port, all);

    for (unsigned i = 0; i < n; i++) {
        const int fd = listen_at(&all[i]);
        if (fd < 0 && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT))
            continue;
        if (fd < 0) {
            const int error = errno;
            *busy = all[i];
            close_listeners(p);
            return error;
        }
        p->listeners[p->nlistener++] = fd;
    }
    return p->nlistener > 0 ? 0 : EADDRNOTAVAIL;
}

/* Listen on the first free port. EADDRINUSE: another rank 0 of this id has one. EBUSY: others have all. */
static int find_port(struct plait_tcp_place *p, double until)
{
    int error = 0;

    do {
        for (unsigned i = 0; i < plait_tcp_id_nport(&p->id); i++) {
            union plait_address busy;
            error = listen_on(p, plait_tcp_id_port(&p->id, i), &busy);
            if (error != EADDRINUSE || plait_tcp_answers(&p->id, &busy, PROBE))
                return error;
        }
        usleep((useconds_t)(BUSY_PAUSE * 1e6));
    } while (plait_clock() < until && plait_frame_look() == PLAIT_OK);
    return EBUSY;
}

/* Create the timer and the epoll descriptor over all descriptors. */
static int join_all(struct plait_tcp_place *p)
{
    const struct itimerspec often = { { 0, SWEEP_NS }, { 0, SWEEP_NS } };
    const int door = plait_descriptor_keep(epoll_create1(EPOLL_CLOEXEC), PLAIT_FOR_RANKS);

    p->timer = door >= 0
                   ? plait_descriptor_keep(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), PLAIT_FOR_RANKS)
                   : -1;
    if (p->timer < 0) {
        plait_descriptor_close(door);
        close_listeners(p);
        return -1;
    }
    timerfd_settime(p->timer, 0, &often, NULL);
    watch(door, p->timer, EPOLLIN, OF_TIMER, EPOLL_CTL_ADD);
    for (unsigned i = 0; i < p->nlistener; i++)
        watch(door, p->listeners[i], EPOLLIN, OF_LISTENER + i, EPOLL_CTL_ADD);
    return door;
}

static int open_door(struct plait_place *place, const struct plait_bootstrap *b, double until)
{
    struct plait_tcp_place *p = (struct plait_tcp_place *)place;
    const int error = find_port(p, until);

    (void)b;
    if (error == 0)
        return join_all(p);
    p->full = error == EBUSY;
    errno = error;
    return -1;
}

static void close_door(struct plait_place *place, int door)
{
    struct plait_tcp_place *p = (struct plait_tcp_place *)place;

    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        if (p->clients[i].fd >= 0)
            send_away(p, door, &p->clients[i],
                      p->clients[i].state == PLAIT_CLIENT_HAILS ? PLAIT_REFUSED_NOTHING : PLAIT_REFUSED_LEFT);
    log_refusals(p);
    close_listeners(p);
    plait_descriptor_close(p->timer);
    plait_descriptor_close(door);
}

static bool keeps(const struct plait_place *place, int door, int fd)
{
    const struct plait_tcp_place *p = (const struct plait_tcp_place *)place;
    bool kept = fd == door || fd == p->timer;

    for (unsigned i = 0; i < p->nlistener; i++)
        kept |= fd == p->listeners[i];
    return kept;
}

static enum plait_status join(struct plait_place *place, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out)
{
    return plait_tcp_join(&((const struct plait_tcp_place *)place)->id, b, verdict, until, out);
}

enum plait_status plait_tcp_place_init(struct plait_tcp_place *place, const struct plait_tcp_id *id)
{
    const struct plait_place functions = { open_door, take, close_door, explain, join, keeps };

    memset(place, 0, sizeof *place);
    place->place = functions;
    place->id = *id;
    place->timer = -1;
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        place->clients[i].fd = -1;
    return plait_crypto_ready();
}
