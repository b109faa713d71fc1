/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous over TCP. To find rank 0, a rank tries the addresses of the id in their order, and the candidate ports
 * of each, one connection at a time and round after round, until one gives the right answer. Addresses may lead
 * nowhere, or to another program.
 *
 * Earlier addresses of the id are better: a name that the launcher gave, then faster devices (hosts.c). Data uses the
 * interfaces over which the ranks met.
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
#include <string.h>
#include <unistd.h>

#define CONNECT_LIMIT 1.0   /* seconds for a connection */
#define FIRST_ANSWER  5.0   /* seconds for an answer at the first port: rank 0 may have thousands of ranks to answer */
#define OTHER_ANSWER  1.0   /* the same at the other ports, which rank 0 uses only if the first is taken */
#define FIRST_PAUSE   0.001 /* seconds between rounds; doubles up to MOST_PAUSE */
#define MOST_PAUSE    0.1

#define BUSY_PAUSE 20000 /* us between rank 0's searches for a free port */

struct probe {
    union plait_address address;
    int error; /* an errno; EPROTO: a wrong answer; 0: none */
};

struct search {
    const struct plait_tcp_id *id;
    struct plait_handshake *h;
    double until;
    unsigned naddress;
    /* Of each address the probe that says most: a wrong answer, or else that of the first port. */
    struct probe best[PLAIT_MOST_ADDRESSES];
};

static double in_at_most(const struct search *s, double seconds)
{
    const double then = plait_clock() + seconds;

    return then < s->until ? then : s->until;
}

/* ---- One probe. PLAIT_ERR_PEER: rank 0 is not there; other errors are this rank's own -------------------------- */

static enum plait_status connect_to(const struct search *s, struct probe *p, int *out)
{
    const int one = 1;
    const int fd = plait_descriptor_keep(
        socket(p->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), PLAIT_FOR_RANKS);
    struct pollfd connected = { .fd = fd, .events = POLLOUT };

    *out = fd;
    if (fd < 0 && errno != EAFNOSUPPORT)
        return plait_fail_errno(errno, "comm creation: no socket to reach the other ranks");
    if (fd < 0 || (connect(fd, &p->address.any, plait_address_length(&p->address)) != 0 && errno != EINPROGRESS)) {
        p->error = errno;
        return PLAIT_ERR_PEER;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    const enum plait_status status = plait_frame_poll(&connected, 1, in_at_most(s, CONNECT_LIMIT));
    if (status != PLAIT_OK) {
        p->error = ETIMEDOUT;
        return status == PLAIT_ERR_TIMEOUT ? PLAIT_ERR_PEER : status;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &p->error, &(socklen_t){ sizeof p->error });
    return p->error == 0 ? PLAIT_OK : PLAIT_ERR_PEER;
}

/* Exchange hellos with the program that listens there. */
static enum plait_status greet(struct search *s, struct probe *p, double limit, int fd)
{
    struct plait_server_hello *hello = &s->h->server;
    const size_t magic = sizeof hello->magic;
    const double until = in_at_most(s, limit);
    enum plait_status status = plait_client_hello_make(&s->h->client);

    if (status == PLAIT_OK)
        status = plait_frame_send(fd, &s->h->client, sizeof s->h->client, until);
    if (status == PLAIT_OK)
        status = plait_frame_receive(fd, hello, magic, until);
    if (status == PLAIT_OK && memcmp(hello->magic, PLAIT_HELLO_MAGIC, magic) == 0) /* else it may say no more */
        status = plait_frame_receive(fd, (char *)hello + magic, sizeof *hello - magic, until);
    p->error = status == PLAIT_OK ? EPROTO : status == PLAIT_ERR_PEER ? ECONNRESET : 0;
    const bool wrong = status == PLAIT_OK && !plait_server_hello_is_valid(s->id->secret, s->h);
    return wrong || status == PLAIT_ERR_TIMEOUT ? PLAIT_ERR_PEER : status;
}

/* *out: the socket, or -1. */
static enum plait_status find_at(struct search *s, struct probe *p, double limit, int *out)
{
    enum plait_status status = connect_to(s, p, out);

    if (status == PLAIT_OK)
        status = greet(s, p, limit, *out);
    if (status == PLAIT_OK)
        return PLAIT_OK;
    plait_descriptor_close(*out);
    *out = -1;
    return status;
}

/* ---- All probes ------------------------------------------------------------------------------------------------ */

/* One round. An address that cannot be reached is tried at one port only. */
static enum plait_status find_at_any(struct search *s, int *out)
{
    char address[PLAIT_ADDRESS_TEXT];

    for (unsigned k = 0; k < s->naddress; k++)
        for (unsigned i = 0; i < plait_tcp_id_nport(s->id) && plait_clock() < s->until; i++) {
            union plait_address all[PLAIT_MOST_ADDRESSES];
            plait_hosts_list(&s->id->hosts, plait_tcp_id_port(s->id, i), all);
            struct probe p = { .address = all[k] };
            const enum plait_status status = find_at(s, &p, i == 0 ? FIRST_ANSWER : OTHER_ANSWER, out);
            if (p.error == EPROTO || (i == 0 && s->best[k].error != EPROTO))
                s->best[k] = p;
            if (status == PLAIT_OK)
                plait_log(PLAIT_LOG_INFO, "comm creation: rank 0 answers at %s, address %u of %u",
                          plait_address_text(&p.address, true, address), k + 1, s->naddress);
            if (status != PLAIT_ERR_PEER)
                return status;
            if (p.error == ETIMEDOUT || p.error == EHOSTUNREACH || p.error == ENETUNREACH)
                break;
        }
    return PLAIT_ERR_PEER;
}

static bool is_loopback(const union plait_address *address)
{
    return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                             : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* Why rank 0 was not found. */
static enum plait_status find_nothing(const struct search *s, const struct plait_bootstrap *b)
{
    bool loopback = true;
    char why[400] = "", address[PLAIT_ADDRESS_TEXT];

    for (const struct probe *p = s->best; p < s->best + s->naddress; p++) {
        loopback &= is_loopback(&p->address) && p->error != EPROTO;
        plait_append(why, sizeof why, "; %s: %s", plait_address_text(&p->address, true, address),
                     p->error == EPROTO
                         ? "not rank 0 of this comm, or with another secret, number of ranks or MASTER_ADDR"
                     : p->error == 0 ? "it connects, but does not answer"
                                     : strerror(p->error));
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
    union plait_address all[PLAIT_MOST_ADDRESSES];
    struct search s = { .id = id, .h = h, .until = until };
    double pause = FIRST_PAUSE;
    enum plait_status status;

    *out = -1;
    s.naddress = plait_hosts_list(&id->hosts, plait_tcp_id_port(id, 0), all);
    for (unsigned k = 0; k < s.naddress; k++)
        s.best[k] = (struct probe){ all[k], ETIMEDOUT };
    while ((status = find_at_any(&s, out)) == PLAIT_ERR_PEER) {
        status = plait_frame_poll(NULL, 0, in_at_most(&s, pause));
        if (status != PLAIT_ERR_TIMEOUT)
            return status;
        if (plait_clock() >= until)
            return find_nothing(&s, b);
        pause = 2 * pause < MOST_PAUSE ? 2 * pause : MOST_PAUSE;
    }
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
