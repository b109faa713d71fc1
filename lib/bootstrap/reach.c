/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank finds rank 0: it tries every address of the id on every candidate port, again and again, until one gives
 * the right answer. Addresses that lead nowhere, or to another program, cost only a warning.
 *
 * Earlier addresses of the id are better: a name that the launcher gave, then faster devices (hosts.c). They get
 * BETTER_LIMIT longer to answer, because data uses the interfaces over which the ranks met.
 */
#include "tcp.h"

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

#define MOST_WAYS     (PLAIT_MOST_ADDRESSES * PLAIT_MOST_PORTS)
#define CONNECT_LIMIT 3.0   /* seconds for a connection */
#define ANSWER_LIMIT  5.0   /* seconds for an answer */
#define FIRST_PAUSE   0.001 /* seconds between tries of the first port; doubles up to MOST_PAUSE */
#define OTHER_PAUSE   0.03  /* the same for the other ports, which rank 0 uses only if the first is taken */
#define MOST_PAUSE    0.1
#define LONG_PAUSE    1.0  /* seconds of pause after an answer that is not rank 0's */
#define BETTER_LIMIT  0.02 /* seconds for a better address to answer after the first answer */

enum state { IDLE, CONNECTING, HAILED, ANSWERED };

struct way { /* to rank 0: an address and a port */
    union plait_address address;
    enum state state;
    int fd, error; /* error: of the last try */
    double at;     /* idle: time of the next try; else the deadline of this one */
    double pause;
    size_t got;
    bool strange; /* something other than rank 0 has answered */
    struct plait_hail hail;
    struct plait_answer answer;
};

struct search {
    const struct plait_tcp_id *id;
    unsigned nway, naddress;
    struct way ways[MOST_WAYS];
    struct pollfd polls[MOST_WAYS];
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
            s->ways[s->nway++] = (struct way){ .address = all[k],
                                               .fd = -1,
                                               .at = now + (i > 0 ? OTHER_PAUSE : 0),
                                               .pause = i > 0 ? OTHER_PAUSE : FIRST_PAUSE };
    }
    return s;
}

/* ---- One way ------------------------------------------------------------------------------------------------ */

/* End this try; the next one starts after a pause. */
static void give_up(struct way *w, int error)
{
    plait_descriptor_close(w->fd);
    w->fd = -1;
    w->state = IDLE;
    w->error = error;
    w->at = plait_clock() + w->pause;
    w->pause = 2 * w->pause < MOST_PAUSE ? 2 * w->pause : MOST_PAUSE;
}

static void hail(struct way *w)
{
    w->state = HAILED;
    w->at = plait_clock() + ANSWER_LIMIT;
    w->got = 0;
    if (plait_hail_make(&w->hail) != PLAIT_OK ||
        send(w->fd, &w->hail, sizeof w->hail, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof w->hail)
        give_up(w, ECONNRESET);
}

/* Only the lack of a socket is an error. */
static enum plait_status try_way(struct way *w)
{
    const int one = 1;

    w->fd = plait_descriptor_keep(socket(w->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                  PLAIT_FOR_RANKS);
    if (w->fd < 0 && errno != EAFNOSUPPORT)
        return plait_fail_errno(errno, "comm creation: no socket to meet at");
    if (w->fd < 0) {
        give_up(w, EAFNOSUPPORT);
        return PLAIT_OK;
    }
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    w->state = CONNECTING;
    w->at = plait_clock() + CONNECT_LIMIT;
    if (connect(w->fd, &w->address.any, plait_address_length(&w->address)) == 0)
        hail(w);
    else if (errno != EINPROGRESS)
        give_up(w, errno);
    return PLAIT_OK;
}

static void find_strange(struct way *w)
{
    char address[PLAIT_ADDRESS_TEXT];

    if (!w->strange)
        plait_log(PLAIT_LOG_WARN,
                  "comm creation: what answers at %s is not rank 0 of this comm, or its launcher says otherwise "
                  "(PLAIT_SECRET, WORLD_SIZE and MASTER_ADDR must be the same on all hosts); looking on",
                  plait_address_text(&w->address, true, address));
    w->strange = true;
    w->pause = LONG_PAUSE;
    give_up(w, EPROTO);
}

/*
 * Rank 0 of another comm: a stranger, unless the id is derived. Comms made at the same time, as the pairs of elastic
 * averaging are, then share the ports.
 */
static void find_other(struct way *w, const struct plait_tcp_id *id)
{
    if (id->kind != PLAIT_ID_DERIVED) {
        find_strange(w);
        return;
    }
    w->pause = MOST_PAUSE;
    give_up(w, EPROTO);
}

/* True when rank 0 has answered. */
static bool hear(struct way *w, const struct plait_tcp_id *id)
{
    const ssize_t n = recv(w->fd, (char *)&w->answer + w->got, sizeof w->answer - w->got, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        give_up(w, n == 0 ? ECONNRESET : errno);
        return false;
    }
    w->got += (size_t)n;
    const size_t magic = w->got < sizeof w->answer.magic ? w->got : sizeof w->answer.magic;
    if (memcmp(w->answer.magic, PLAIT_HAIL_MAGIC, magic) != 0) {
        find_strange(w);
        return false;
    }
    if (w->got == sizeof w->answer && !plait_answer_is_right(id->secret, &w->hail, &w->answer)) {
        find_other(w, id);
        return false;
    }
    return w->got == sizeof w->answer;
}

static void connected(struct way *w)
{
    int error = 0;
    socklen_t length = sizeof error;

    getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0)
        hail(w);
    else
        give_up(w, error);
}

/* ---- All ways ------------------------------------------------------------------------------------------------ */

/* Start the tries that are due, end those past their deadline. *until: the next such time. */
static enum plait_status start_ways(struct search *s, double *until)
{
    const double now = plait_clock();

    for (unsigned i = 0; i < s->nway; i++) {
        struct way *w = &s->ways[i];
        if ((w->state == CONNECTING || w->state == HAILED) && now >= w->at)
            give_up(w, ETIMEDOUT);
        else if (w->state == IDLE && now >= w->at) {
            const enum plait_status status = try_way(w);
            if (status != PLAIT_OK)
                return status;
        }
        *until = w->at < *until ? w->at : *until;
        s->polls[i] = (struct pollfd){ .fd = w->state != ANSWERED ? w->fd : -1,
                                       .events = w->state == CONNECTING ? POLLOUT : POLLIN };
    }
    return PLAIT_OK;
}

static bool is_better(const struct search *s, const struct way *a, const struct way *b)
{
    return (size_t)(a - s->ways) % s->naddress < (size_t)(b - s->ways) % s->naddress;
}

/* This way has answered, too: the better one of both becomes *best. */
static void note_answer(const struct search *s, struct way **best, struct way *w)
{
    if (*best != NULL && !is_better(s, w, *best)) {
        give_up(w, 0);
        return;
    }
    if (*best != NULL)
        give_up(*best, 0);
    *best = w;
    w->state = ANSWERED;
    w->at = plait_clock() + BETTER_LIMIT;
}

/* True when no better way than `best` may still answer in time. */
static bool is_over(const struct search *s, const struct way *best)
{
    if (plait_clock() >= best->at)
        return true;
    for (unsigned i = 0; i < s->nway; i++)
        if ((s->ways[i].state == CONNECTING || s->ways[i].state == HAILED) && is_better(s, &s->ways[i], best))
            return false;
    return true;
}

/* *out: the way at which rank 0 has answered; NULL: none until the deadline. */
static enum plait_status search(struct search *s, double until, struct way **out)
{
    struct way *best = NULL;

    *out = NULL;
    do {
        double wake = plait_clock() + PLAIT_FRAME_TICK;
        enum plait_status status = start_ways(s, wake < until ? &wake : (wake = until, &wake));
        if (status != PLAIT_OK)
            return status;
        const double left = wake - plait_clock();
        poll(s->polls, s->nway, left > 0 ? (int)(left * 1e3) + 1 : 0);
        status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        for (unsigned i = 0; i < s->nway; i++) {
            struct way *w = &s->ways[i];
            if (w->fd < 0 || s->polls[i].revents == 0)
                continue;
            if (w->state == CONNECTING) {
                connected(w);
            } else if (hear(w, s->id)) {
                note_answer(s, &best, w);
            }
        }
    } while ((best == NULL || !is_over(s, best)) && plait_clock() < until);
    *out = best;
    return PLAIT_OK;
}

static void end_search(struct search *s, const struct way *but)
{
    for (unsigned i = 0; i < s->nway; i++)
        if (&s->ways[i] != but && s->ways[i].fd >= 0)
            give_up(&s->ways[i], s->ways[i].state == CONNECTING ? ETIMEDOUT : 0);
}

/* The way to an address that explains most: one with a wrong answer, else the first. */
static const struct way *telling_way(const struct search *s, unsigned address)
{
    for (unsigned i = address; i < s->nway; i += s->naddress)
        if (s->ways[i].strange)
            return &s->ways[i];
    return &s->ways[address];
}

static const char *why_not(const struct way *w, bool found)
{
    return w->strange      ? "not rank 0 of this comm, or with another secret, number of ranks or MASTER_ADDR"
           : w->error == 0 ? found ? "not needed" : "it connects, but does not answer"
                           : strerror(w->error);
}

/* Why each address but that of `but` did not serve, for the log and for errors. */
static void say_ways(const struct search *s, const struct way *but, char *text, size_t size)
{
    bool loopback = true;
    char address[PLAIT_ADDRESS_TEXT];
    size_t n = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < s->naddress; i++) {
        const struct way *w = telling_way(s, i);
        loopback &= plait_address_is_loopback(&w->address) && !w->strange;
        if (w != but && n < size)
            n += (size_t)snprintf(text + n, size - n, "; %s: %s", plait_address_text(&w->address, true, address),
                                  why_not(w, but != NULL));
    }
    if (but == NULL && loopback && n < size)
        snprintf(text + n, size - n,
                 "; other hosts cannot be reached at loopback addresses: name rank 0's host by an address "
                 "(MASTER_ADDR), or mend /etc/hosts");
}

/* ---- Joining -------------------------------------------------------------------------------------------------- */

/* Claim the rank. PLAIT_ERR_PEER: rank 0 closed the connection before it took the claim. */
static enum plait_status claim(const struct plait_tcp_id *id, const struct plait_bootstrap *b, const struct way *w,
                               const struct plait_error *verdict, double until)
{
    struct plait_tcp_claim c = { .rank = b->rank, .nrank = b->nrank, .status = verdict->status, .origin = b->origin };
    char taken;

    if (verdict->status != PLAIT_OK)
        c.bytes = (uint32_t)strlen(verdict->text);
    plait_tcp_claim_sign(id->secret, &w->hail, &w->answer, &c);
    enum plait_status status = plait_frame_send(w->fd, &c, sizeof c, until);
    if (status == PLAIT_OK)
        status = plait_frame_send(w->fd, verdict->text, c.bytes, until);
    if (status == PLAIT_OK)
        status = plait_frame_receive(w->fd, &taken, 1, until);
    return status == PLAIT_OK && taken != PLAIT_TAKEN ? PLAIT_ERR_PEER : status;
}

static void log_way(const struct search *s, const struct plait_bootstrap *b, const struct way *w)
{
    char address[PLAIT_ADDRESS_TEXT], others[512];

    if (!plait_log_wants(PLAIT_LOG_INFO))
        return;
    say_ways(s, w, others, sizeof others);
    plait_log(PLAIT_LOG_INFO, "comm creation: rank %u reaches rank 0 at %s, the best that answers of %u addresses%s",
              b->rank, plait_address_text(&w->address, true, address), s->naddress, others);
}

static enum plait_status join(struct search *s, const struct plait_bootstrap *b, const struct plait_error *verdict,
                              double until, int *out)
{
    struct way *w;
    char why[400];

    for (;;) {
        enum plait_status status = search(s, until, &w);
        end_search(s, w);
        if (status != PLAIT_OK)
            return status;
        if (w == NULL) {
            say_ways(s, NULL, why, sizeof why - sizeof PLAIT_LOOPBACK_IS_DOWN);
            if (plait_loopback_is_down())
                strcat(why, PLAIT_LOOPBACK_IS_DOWN);
            return plait_rank_0_is_late(b, why);
        }
        status = claim(s->id, b, w, verdict, until + PLAIT_TELL);
        if (status == PLAIT_ERR_PEER) { /* rank 0 had no room: try again */
            give_up(w, ECONNRESET);
            continue;
        }
        if (status != PLAIT_OK) {
            give_up(w, ETIMEDOUT);
            return plait_star_blame(b, 0, status);
        }
        log_way(s, b, w);
        *out = w->fd;
        return PLAIT_OK;
    }
}

enum plait_status plait_tcp_join(const struct plait_tcp_id *id, const struct plait_bootstrap *b,
                                 const struct plait_error *verdict, double until, int *out)
{
    struct search *s = begin_search(id);

    *out = -1;
    const enum plait_status status =
        s != NULL ? join(s, b, verdict, until, out) : plait_fail_memory("out of memory to look for rank 0 over TCP");
    free(s);
    return status;
}

bool plait_tcp_answers(const struct plait_tcp_id *id, const union plait_address *address, double seconds)
{
    struct search *s = calloc(1, sizeof *s);
    struct way *w = NULL;

    if (s == NULL)
        return false;
    s->id = id;
    s->nway = s->naddress = 1;
    s->ways[0] = (struct way){ .address = *address, .fd = -1, .pause = FIRST_PAUSE, .strange = true /* no warning */ };
    const bool answers = search(s, plait_clock() + seconds, &w) == PLAIT_OK && w != NULL;
    end_search(s, NULL);
    free(s);
    return answers;
}
