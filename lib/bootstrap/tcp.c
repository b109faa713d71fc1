/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous over TCP. To find rank 0, a rank tries every address of the id on every candidate port, again and
 * again, until one gives the right answer. Addresses that lead nowhere, or to another program, cost only a warning.
 *
 * Earlier addresses of the id are better: a name that the launcher gave, then faster devices (hosts.c). They get
 * BETTER_LIMIT longer to answer, because data uses the interfaces over which the ranks met.
 */
#include "rendezvous.h"

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
#define LONG_PAUSE      1.0  /* seconds of pause after an answer that is not rank 0's */
#define BETTER_LIMIT    0.02 /* seconds for a better address to answer after the first answer */

#define BUSY_PAUSE 20000 /* us between rank 0's searches for a free port */
#define PROBE      1.0   /* seconds for another rank 0 to answer */

enum state { IDLE, CONNECTING, GREETED, ANSWERED };

struct candidate { /* to rank 0: an address and a port */
    union plait_address address;
    enum state state;
    int fd, error; /* error: of the last try */
    double at;     /* idle: time of the next try; else the deadline of this one */
    double pause;
    size_t got;
    bool strange; /* something other than rank 0 has answered */
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
    c->error = error;
    c->at = plait_clock() + c->pause;
    c->pause = 2 * c->pause < MOST_PAUSE ? 2 * c->pause : MOST_PAUSE;
}

static void greet(struct candidate *c)
{
    c->state = GREETED;
    c->at = plait_clock() + ANSWER_LIMIT;
    c->got = 0;
    const struct plait_client_hello *hello = &c->handshake.client;
    if (plait_client_hello_make(&c->handshake.client) != PLAIT_OK ||
        send(c->fd, hello, sizeof *hello, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof *hello)
        give_up(c, ECONNRESET);
}

/* Only the lack of a socket is an error. */
static enum plait_status try_to_connect(struct candidate *c)
{
    const int one = 1;

    c->fd = plait_descriptor_keep(socket(c->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                  PLAIT_FOR_RANKS);
    if (c->fd < 0 && errno != EAFNOSUPPORT)
        return plait_fail_errno(errno, "comm creation: no socket to reach the other ranks");
    if (c->fd < 0) {
        give_up(c, EAFNOSUPPORT);
        return PLAIT_OK;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->state = CONNECTING;
    c->at = plait_clock() + CONNECT_LIMIT;
    if (connect(c->fd, &c->address.any, plait_address_length(&c->address)) == 0)
        greet(c);
    else if (errno != EINPROGRESS)
        give_up(c, errno);
    return PLAIT_OK;
}

static void find_strange(struct candidate *c)
{
    char address[PLAIT_ADDRESS_TEXT];

    if (!c->strange)
        plait_log(PLAIT_LOG_WARN,
                  "comm creation: what answers at %s is not rank 0 of this comm, or its launcher says otherwise "
                  "(PLAIT_SECRET, WORLD_SIZE and MASTER_ADDR must be the same on all hosts); looking further",
                  plait_address_text(&c->address, true, address));
    c->strange = true;
    c->pause = LONG_PAUSE;
    give_up(c, EPROTO);
}

/*
 * Rank 0 of another comm: a stranger, unless the id is derived. Comms made at the same time, as the pairs of elastic
 * averaging are, then share the ports.
 */
static void find_other(struct candidate *c, const struct plait_tcp_id *id)
{
    if (id->kind != PLAIT_ID_DERIVED) {
        find_strange(c);
        return;
    }
    c->pause = MOST_PAUSE;
    give_up(c, EPROTO);
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
    if (memcmp(hello->magic, PLAIT_HELLO_MAGIC, magic) != 0) {
        find_strange(c);
        return false;
    }
    if (c->got == sizeof *hello && !plait_server_hello_is_valid(id->secret, &c->handshake)) {
        find_other(c, id);
        return false;
    }
    return c->got == sizeof *hello;
}

static void connected(struct candidate *c)
{
    int error = 0;
    socklen_t length = sizeof error;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0)
        greet(c);
    else
        give_up(c, error);
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
        *until = c->at < *until ? c->at : *until;
        s->polls[i] = (struct pollfd){ .fd = c->state != ANSWERED ? c->fd : -1,
                                       .events = c->state == CONNECTING ? POLLOUT : POLLIN };
    }
    return PLAIT_OK;
}

static bool is_better(const struct search *s, const struct candidate *a, const struct candidate *b)
{
    return (size_t)(a - s->candidates) % s->naddress < (size_t)(b - s->candidates) % s->naddress;
}

/* This candidate has answered, too: the better one of both becomes *best. */
static void note_answer(const struct search *s, struct candidate **best, struct candidate *c)
{
    if (*best != NULL && !is_better(s, c, *best)) {
        give_up(c, 0);
        return;
    }
    if (*best != NULL)
        give_up(*best, 0);
    *best = c;
    c->state = ANSWERED;
    c->at = plait_clock() + BETTER_LIMIT;
}

/* True when no better candidate than `best` may still answer in time. */
static bool is_over(const struct search *s, const struct candidate *best)
{
    if (plait_clock() >= best->at)
        return true;
    for (unsigned i = 0; i < s->n; i++)
        if ((s->candidates[i].state == CONNECTING || s->candidates[i].state == GREETED) &&
            is_better(s, &s->candidates[i], best))
            return false;
    return true;
}

/* *out: the candidate at which rank 0 has answered; NULL: none until the deadline. */
static enum plait_status search(struct search *s, double until, struct candidate **out)
{
    struct candidate *best = NULL;

    *out = NULL;
    do {
        double wake = plait_clock() + PLAIT_FRAME_TICK;
        enum plait_status status = start_tries(s, wake < until ? &wake : (wake = until, &wake));
        if (status != PLAIT_OK)
            return status;
        const double left = wake - plait_clock();
        poll(s->polls, s->n, left > 0 ? (int)(left * 1e3) + 1 : 0);
        status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        for (unsigned i = 0; i < s->n; i++) {
            struct candidate *c = &s->candidates[i];
            if (c->fd < 0 || s->polls[i].revents == 0)
                continue;
            if (c->state == CONNECTING) {
                connected(c);
            } else if (read_answer(c, s->id)) {
                note_answer(s, &best, c);
            }
        }
    } while ((best == NULL || !is_over(s, best)) && plait_clock() < until);
    *out = best;
    return PLAIT_OK;
}

static void end_search(struct search *s, const struct candidate *but)
{
    for (unsigned i = 0; i < s->n; i++)
        if (&s->candidates[i] != but && s->candidates[i].fd >= 0)
            give_up(&s->candidates[i], s->candidates[i].state == CONNECTING ? ETIMEDOUT : 0);
}

/* The candidate to an address that explains most: one with a wrong answer, else the first. */
static const struct candidate *most_telling(const struct search *s, unsigned address)
{
    for (unsigned i = address; i < s->n; i += s->naddress)
        if (s->candidates[i].strange)
            return &s->candidates[i];
    return &s->candidates[address];
}

static const char *why_not(const struct candidate *c, bool found)
{
    return c->strange      ? "not rank 0 of this comm, or with another secret, number of ranks or MASTER_ADDR"
           : c->error == 0 ? found ? "not needed" : "it connects, but does not answer"
                           : strerror(c->error);
}

/* Why each address but that of `but` did not serve, for the log and for errors. */
static void say_why_not(const struct search *s, const struct candidate *but, char *text, size_t size)
{
    bool loopback = true;
    char address[PLAIT_ADDRESS_TEXT];
    size_t n = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < s->naddress; i++) {
        const struct candidate *c = most_telling(s, i);
        loopback &= plait_address_is_loopback(&c->address) && !c->strange;
        if (c != but && n < size)
            n += (size_t)snprintf(text + n, size - n, "; %s: %s", plait_address_text(&c->address, true, address),
                                  why_not(c, but != NULL));
    }
    if (but == NULL && loopback && n < size)
        snprintf(text + n, size - n,
                 "; other hosts cannot be reached at loopback addresses: name rank 0's host by an address "
                 "(MASTER_ADDR), or fix /etc/hosts");
}

/* ---- Rank 0 is found ------------------------------------------------------------------------------------------ */

static void log_choice(const struct search *s, const struct plait_bootstrap *b, const struct candidate *c)
{
    char address[PLAIT_ADDRESS_TEXT], others[512];

    if (!plait_log_wants(PLAIT_LOG_INFO))
        return;
    say_why_not(s, c, others, sizeof others);
    plait_log(PLAIT_LOG_INFO, "comm creation: rank %u reaches rank 0 at %s, the best that answers of %u addresses%s",
              b->rank, plait_address_text(&c->address, true, address), s->naddress, others);
}

/* Why rank 0 was not found. */
static enum plait_status find_nothing(const struct search *s, const struct plait_bootstrap *b)
{
    char why[400];

    say_why_not(s, NULL, why, sizeof why - sizeof PLAIT_LOOPBACK_IS_DOWN);
    if (plait_loopback_is_down())
        strcat(why, PLAIT_LOOPBACK_IS_DOWN);
    return plait_rank_0_is_late(b, why);
}

enum plait_status plait_tcp_find(const struct plait_tcp_id *id, const struct plait_bootstrap *b, double until,
                                 struct plait_handshake *h, int *out)
{
    struct search *s = begin_search(id);
    struct candidate *c = NULL;

    *out = -1;
    if (s == NULL)
        return plait_fail_memory("out of memory to look for rank 0 over TCP");
    enum plait_status status = search(s, until, &c);
    end_search(s, c);
    if (status == PLAIT_OK && c == NULL)
        status = find_nothing(s, b);
    if (status == PLAIT_OK) {
        log_choice(s, b, c);
        *h = c->handshake;
        *out = c->fd;
    }
    free(s);
    return status;
}

/* ---- Where rank 0 listens ------------------------------------------------------------------------------------ */

/* Does a rank 0 with the id's secret answer at this address? Waits for PROBE seconds at most. */
static bool answers_at(const struct plait_tcp_id *id, const union plait_address *address)
{
    struct search *s = calloc(1, sizeof *s);
    struct candidate *c = NULL;

    if (s == NULL)
        return false;
    s->id = id;
    s->n = s->naddress = 1;
    s->candidates[0] =
        (struct candidate){ .address = *address, .fd = -1, .pause = FIRST_PAUSE, .strange = true /* no warning */ };
    const bool answers = search(s, plait_clock() + PROBE, &c) == PLAIT_OK && c != NULL;
    end_search(s, NULL);
    free(s);
    return answers;
}

/* Listen on one port. Returns 0 or an errno; *busy is the address that failed. */
static int listen_on(const struct plait_tcp_id *id, uint16_t port, struct plait_listener *l, union plait_address *busy)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    const unsigned n = plait_hosts_list(&id->hosts, port, all);

    for (unsigned i = 0; i < n; i++) {
        if (plait_listener_add(l, &all[i].any, plait_address_length(&all[i])) || errno == EADDRNOTAVAIL ||
            errno == EAFNOSUPPORT)
            continue;
        const int error = errno;
        *busy = all[i];
        plait_listener_remove_all(l);
        return error;
    }
    return l->nsocket > 0 ? 0 : EADDRNOTAVAIL;
}

int plait_tcp_listen(const struct plait_tcp_id *id, double until, struct plait_listener *l)
{
    do {
        for (unsigned i = 0; i < plait_tcp_id_nport(id); i++) {
            union plait_address busy;
            const int error = listen_on(id, plait_tcp_id_port(id, i), l, &busy);
            if (error != EADDRINUSE || answers_at(id, &busy))
                return error;
        }
        usleep(BUSY_PAUSE);
    } while (plait_clock() < until && plait_frame_look() == PLAIT_OK);
    return EBUSY;
}
