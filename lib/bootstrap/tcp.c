/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous over TCP. To find rank 0, a rank tries every address of the id on every candidate port, again and
 * again, until one gives the right answer. Addresses may lead nowhere, or to another program.
 *
 * Earlier addresses of the id are better: a name that the launcher gave, then faster devices (hosts.c). They get
 * BETTER_LIMIT longer to answer, because data uses the interfaces over which the ranks met.
 */
#include "rendezvous.h"

#include "base/ascii.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CANDIDATES (PLAIT_MOST_ADDRESSES * PLAIT_MOST_PORTS)
#define CONNECT_LIMIT   3.0   /* seconds for a connection */
#define ANSWER_LIMIT    5.0   /* seconds for an answer */
#define FIRST_PAUSE     0.001 /* seconds between tries of the first port; doubles up to MOST_PAUSE */
#define OTHER_PAUSE     0.03  /* the same for the other ports, which rank 0 uses only if the first is taken */
#define MOST_PAUSE      0.1
#define LONG_PAUSE      1.0  /* seconds of pause after an answer in another protocol */
#define BETTER_LIMIT    0.02 /* seconds for a better address to answer after the first answer */

#define BUSY_PAUSE 20000 /* us between rank 0's searches for a free port */

enum state { IDLE, CONNECTING, GREETED, ANSWERED };

struct candidate { /* to rank 0: an address and a port */
    union plait_address address;
    unsigned place; /* of the address in the id */
    enum state state;
    int fd, error; /* error: of the last try; EPROTO stays: something other than rank 0 has answered */
    double at;     /* idle: time of the next try; else the deadline of this one */
    double pause;
    size_t got;
    struct plait_handshake handshake;
};

struct search {
    const struct plait_tcp_id *id;
    unsigned n, naddress;
    struct candidate candidates[MOST_CANDIDATES];
    struct pollfd polls[MOST_CANDIDATES];
};

/* On the heap, as it is too large for a small stack; NULL: out of memory. */
static struct search *begin_search(const struct plait_tcp_id *id)
{
    const double now = plait_clock();
    struct search *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->id = id;
    for (unsigned i = 0; i < plait_tcp_id_nport(id); i++) {
        union plait_address all[PLAIT_MOST_ADDRESSES];
        s->naddress = plait_hosts_list(&id->hosts, plait_tcp_id_port(id, i), all);
        for (unsigned k = 0; k < s->naddress; k++)
            s->candidates[s->n++] = (struct candidate){ .address = all[k],
                                                        .place = k,
                                                        .fd = -1,
                                                        .at = now + (i > 0 ? OTHER_PAUSE : 0),
                                                        .pause = i > 0 ? OTHER_PAUSE : FIRST_PAUSE };
    }
    return s;
}

/* ---- One candidate --------------------------------------------------------------------------------------------- */

/* End this try; the next one starts after a pause. */
static void give_up(struct candidate *c, int error)
{
    plait_descriptor_close(c->fd);
    c->fd = -1;
    c->state = IDLE;
    c->error = c->error == EPROTO ? EPROTO : error;
    c->at = plait_clock() + c->pause;
    c->pause = 2 * c->pause < MOST_PAUSE ? 2 * c->pause : MOST_PAUSE;
}

/* Only the lack of a socket is an error. */
static enum plait_status try_to_connect(struct candidate *c)
{
    const int one = 1;

    c->fd = plait_descriptor_keep(socket(c->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                  PLAIT_FOR_RANKS);
    if (c->fd < 0 && errno != EAFNOSUPPORT)
        return plait_fail_errno(errno, "comm creation: no socket to reach the other ranks");
    c->state = CONNECTING;
    c->at = plait_clock() + CONNECT_LIMIT;
    if (c->fd < 0 || (connect(c->fd, &c->address.any, plait_address_length(&c->address)) != 0 && errno != EINPROGRESS))
        give_up(c, errno);
    else
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return PLAIT_OK;
}

/* The try to connect has ended. */
static void greet(struct candidate *c)
{
    const struct plait_client_hello *hello = &c->handshake.client;
    int error = 0;
    socklen_t length = sizeof error;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    c->state = GREETED;
    c->at = plait_clock() + ANSWER_LIMIT;
    c->got = 0;
    if (error != 0)
        give_up(c, error);
    else if (plait_client_hello_make(&c->handshake.client) != PLAIT_OK ||
             send(c->fd, hello, sizeof *hello, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof *hello)
        give_up(c, ECONNRESET);
}

/* True when rank 0 has answered. */
static bool read_answer(struct candidate *c, const struct plait_tcp_id *id)
{
    struct plait_server_hello *hello = &c->handshake.server;
    const ssize_t n = recv(c->fd, (char *)hello + c->got, sizeof *hello - c->got, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        give_up(c, n == 0 ? ECONNRESET : errno);
        return false;
    }
    c->got += (size_t)n;
    const size_t magic = c->got < sizeof hello->magic ? c->got : sizeof hello->magic;
    const bool ours = memcmp(hello->magic, PLAIT_HELLO_MAGIC, magic) == 0;
    if (ours && (c->got < sizeof *hello || plait_server_hello_is_valid(id->secret, &c->handshake)))
        return c->got == sizeof *hello;
    c->pause = ours ? MOST_PAUSE : LONG_PAUSE; /* ours: comms made at the same time may share the ports */
    give_up(c, EPROTO);
    return false;
}

/* ---- All candidates -------------------------------------------------------------------------------------------- */

/* Start the tries that are due, end those past their deadline. *until: the next such time. */
static enum plait_status start_tries(struct search *s, double *until)
{
    const double now = plait_clock();

    for (unsigned i = 0; i < s->n; i++) {
        struct candidate *c = &s->candidates[i];
        if ((c->state == CONNECTING || c->state == GREETED) && now >= c->at)
            give_up(c, ETIMEDOUT);
        else if (c->state == IDLE && now >= c->at) {
            const enum plait_status status = try_to_connect(c);
            if (status != PLAIT_OK)
                return status;
        }
        *until = c->state != ANSWERED && c->at < *until ? c->at : *until;
        s->polls[i] = (struct pollfd){ .fd = c->state != ANSWERED ? c->fd : -1,
                                       .events = c->state == CONNECTING ? POLLOUT : POLLIN };
    }
    return PLAIT_OK;
}

/* *out: the earliest address at which rank 0 has answered; NULL: none until the deadline. */
static enum plait_status search(struct search *s, double until, struct candidate **out)
{
    *out = NULL;
    do {
        double wake = until;
        enum plait_status status = start_tries(s, &wake);
        if (status != PLAIT_OK)
            return status;
        status = plait_frame_poll(s->polls, s->n, wake);
        if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
            return status;
        for (unsigned i = 0; i < s->n; i++) {
            struct candidate *c = &s->candidates[i];
            if (c->fd < 0 || s->polls[i].revents == 0)
                continue;
            if (c->state == CONNECTING)
                greet(c);
            else if (read_answer(c, s->id)) {
                if (*out == NULL && plait_clock() + BETTER_LIMIT < until)
                    until = plait_clock() + BETTER_LIMIT; /* for better addresses */
                c->state = ANSWERED;
                *out = *out == NULL || c->place < (*out)->place ? c : *out;
            }
        }
    } while (plait_clock() < until && (*out == NULL || (*out)->place > 0));
    return PLAIT_OK;
}

static bool is_loopback(const union plait_address *address)
{
    return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                             : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* Why rank 0 was not found: of each address what explains most, a wrong answer or else the first port's error. */
static enum plait_status find_nothing(const struct search *s, const struct plait_bootstrap *b)
{
    bool loopback = true;
    char why[400] = "", address[PLAIT_ADDRESS_TEXT];

    for (unsigned i = 0; i < s->naddress; i++) {
        const struct candidate *c = &s->candidates[i];
        for (unsigned k = i; k < s->n && c->error != EPROTO; k += s->naddress)
            c = s->candidates[k].error == EPROTO ? &s->candidates[k] : c;
        loopback &= is_loopback(&c->address) && c->error != EPROTO;
        plait_append(why, sizeof why, "; %s: %s", plait_address_text(&c->address, true, address),
                     c->error == EPROTO
                         ? "not rank 0 of this comm, or with another secret, number of ranks or MASTER_ADDR"
                     : c->error == 0 ? "it connects, but does not answer"
                                     : strerror(c->error));
    }
    if (loopback)
        plait_append(why, sizeof why,
                     "; other hosts cannot be reached at loopback addresses: name rank 0's host by an address "
                     "(MASTER_ADDR), or fix /etc/hosts");
    return plait_rank_0_is_late(b, why);
}

enum plait_status plait_tcp_find(const struct plait_tcp_id *id, const struct plait_bootstrap *b, double until,
                                 struct plait_handshake *h, int *out)
{
    struct search *s = begin_search(id);
    struct candidate *c = NULL;
    char address[PLAIT_ADDRESS_TEXT];

    *out = -1;
    if (s == NULL)
        return plait_fail_memory("out of memory to look for rank 0 over TCP");
    enum plait_status status = search(s, until, &c);
    for (struct candidate *other = s->candidates; other < s->candidates + s->n; other++)
        if (other != c && other->fd >= 0)
            give_up(other, other->state == CONNECTING ? ETIMEDOUT : 0);
    if (status == PLAIT_OK && c == NULL)
        status = find_nothing(s, b);
    if (status == PLAIT_OK) {
        plait_log(PLAIT_LOG_INFO, "comm creation: rank %u reaches rank 0 at %s, the best that answers of %u addresses",
                  b->rank, plait_address_text(&c->address, true, address), s->naddress);
        *h = c->handshake;
        *out = c->fd;
    }
    free(s);
    return status;
}

/* ---- Where rank 0 listens ------------------------------------------------------------------------------------ */

/* Listen on one port. Returns 0 or an errno. */
static int listen_on(const struct plait_tcp_id *id, uint16_t port, struct plait_listener *l)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    const unsigned n = plait_hosts_list(&id->hosts, port, all);

    for (unsigned i = 0; i < n; i++) {
        if (plait_listener_add(l, &all[i].any, plait_address_length(&all[i])) || errno == EADDRNOTAVAIL ||
            errno == EAFNOSUPPORT)
            continue;
        const int error = errno;
        plait_listener_remove_all(l);
        return error;
    }
    return l->nsocket > 0 ? 0 : EADDRNOTAVAIL;
}

int plait_tcp_listen(const struct plait_tcp_id *id, double until, struct plait_listener *l)
{
    do {
        for (unsigned i = 0; i < plait_tcp_id_nport(id); i++) {
            const int error = listen_on(id, plait_tcp_id_port(id, i), l);
            if (error != EADDRINUSE)
                return error;
        }
        usleep(BUSY_PAUSE);
    } while (plait_clock() < until && plait_frame_check() == PLAIT_OK);
    return EBUSY;
}
