/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sides of the rendezvous, and how a rank tells the others of an error of its own.
 *
 * The server, rank 0, accepts the others as clients and tells them when all have joined. It watches every rank that has
 * joined. A rank that reports a failure, or whose socket closes, ends the rendezvous at once for all of them. Ranks
 * that connect later are told too, for linger(): the dead process may have had more ranks, which never come, and nobody
 * knows which.
 */
#include "rendezvous.h"

#include "base/ascii.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/system_limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_LINGER  20.0 /* seconds that a failed rank stays to tell others */
#define DEATH_LINGER 0.5  /* seconds that it stays after a death: its own caller is to know within 1 s, too */
#define OTHERS_COME  2.0  /* seconds that it stays where ranks of another job come, too: nobody knows how many */
#define TRIES_AGAIN  2.0  /* seconds that a rank tries again after rank 0 of this machine closed its connection */
#define MORE         64   /* descriptors above the soft limit, for telling */
#define LOOK_EVERY   0.1  /* seconds between checks for another process with this rank */

/* Seconds that a failed rank tells others why: at most the time for which it would have waited for them. */
static double linger(const struct plait_bootstrap *b, enum plait_status why)
{
    const bool seen_by_all = why == PLAIT_ERR_PEER || why == PLAIT_ERR_FAILED; /* later ranks see it themselves */
    const double most = why == PLAIT_ERR_TIMEOUT ? 0 : seen_by_all ? DEATH_LINGER : MOST_LINGER;

    return b->limit > 0 && b->limit < most ? b->limit : most; /* limit 0: the time limit could not be read */
}

/* Raise the soft limit on descriptors (ulimit -n), if the hard limit allows, so that a rank without one can tell. */
static void raise_limit(bool raise)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct rlimit before;
    static unsigned tellers; /* ranks of this process */

    pthread_mutex_lock(&lock);
    if (raise && tellers++ == 0) {
        getrlimit(RLIMIT_NOFILE, &before);
        const rlim_t more = before.rlim_max - before.rlim_cur > MORE ? before.rlim_cur + MORE : before.rlim_max;
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){ more, before.rlim_max });
    } else if (!raise && --tellers == 0) {
        setrlimit(RLIMIT_NOFILE, &before);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Clients --------------------------------------------------------------------------------------------------- */

enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why)
{
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not answer within %g s%s", b->limit, why);
}

/* Ask to join, and wait until rank 0 has taken the request. PLAIT_ERR_PEER: rank 0 closed the connection first. */
static enum plait_status request_to_join(int fd, const unsigned char *secret, const struct plait_handshake *h,
                                         const struct plait_bootstrap *b, double until)
{
    struct plait_join_request who = { .rank = b->rank, .nrank = b->nrank };
    char joined = 0;

    plait_join_request_sign(secret, h, &who);
    enum plait_status status = plait_frame_send(fd, &who, sizeof who, until);
    if (status == PLAIT_OK)
        status = plait_frame_receive(fd, &joined, 1, until);
    return status == PLAIT_OK && joined != PLAIT_JOINED ? PLAIT_ERR_PEER : status;
}

/*
 * Connect to rank 0, which may not listen yet, and join. *out is a socket, also if rank 0 has closed it: its reason may
 * still be there to read.
 */
static enum plait_status join(const struct plait_rendezvous *r, const struct plait_bootstrap *b, double until, int *out)
{
    const unsigned char *secret = r->tcp != NULL ? r->tcp->secret : NULL;
    struct plait_handshake h = { 0 };
    double last = until;
    bool lost = false;

    for (;;) {
        enum plait_status status = r->tcp != NULL
                                       ? plait_tcp_find(r->tcp, b, until, &h, out)
                                       : plait_unix_connect(&r->name, last < until ? last : until, "rank 0", out);
        if (status == PLAIT_ERR_TIMEOUT && r->tcp == NULL)
            return lost ? plait_star_blame(b, 0, PLAIT_ERR_PEER)
                        : plait_rank_0_is_late(b, "; this id works on one machine only: if ranks are on several, "
                                                  "LOCAL_WORLD_SIZE must be smaller than WORLD_SIZE");
        if (status != PLAIT_OK)
            return status;
        status = request_to_join(*out, secret, &h, b, until + PLAIT_TELL);
        if (status != PLAIT_ERR_PEER)
            return plait_star_blame(b, 0, status);
        plait_descriptor_close(*out); /* rank 0 had no room, or has ended */
        *out = -1;
        lost = true;
        last = plait_clock() + TRIES_AGAIN;
        usleep(1000);
    }
}

/* A client's rendezvous, or that of a second rank 0, which has an error of its own. */
static enum plait_status attend(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    const struct plait_error mine = plait_star_own_error(b, own);
    const double until = plait_clock() + (own == PLAIT_OK ? b->limit : linger(b, own));
    const enum plait_status status = join(r, b, until, &b->star.root);

    if (status == PLAIT_OK && own == PLAIT_OK) /* rank 0, whose error names the culprit, gives up 2 s earlier */
        return plait_star_read(b, &b->star, 0, NULL, 0, plait_clock() + b->limit + 2.0);
    if (status == PLAIT_OK)
        plait_star_tell_all(&b->star, b->nrank, &mine);
    r->untold = status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT && status != PLAIT_ERR_PEER;
    return status;
}

/* ---- The server ------------------------------------------------------------------------------------------------ */

/* Wait for clients, beside the first n sockets of `polls`. PLAIT_ERR_TIMEOUT: it is time to look after other things. */
static enum plait_status wait_for_clients(const struct plait_listener *l, struct pollfd *polls, uint32_t n,
                                          double until)
{
    const double next = plait_clock() + LOOK_EVERY;

    for (unsigned i = 0; i < l->nsocket; i++)
        polls[n++] = (struct pollfd){ .fd = l->sockets[i], .events = POLLIN };
    return plait_frame_poll(polls, n, next < until ? next : until);
}

static void name_missing(const struct plait_bootstrap *b, char *text, size_t size)
{
    unsigned missing = 0;

    text[0] = '\0';
    for (uint32_t r = 1; r < b->nrank && missing <= 16; r++)
        if (b->star.peers[r].fd < 0 && ++missing > 16)
            plait_append(text, size, ", ...");
        else if (b->star.peers[r].fd < 0)
            plait_append(text, size, "%s%u", missing > 1 ? ", " : "", r);
}

static enum plait_status refuse_twin(const struct plait_bootstrap *b, uint32_t rank, int fd)
{
    char first[PLAIT_ADDRESS_TEXT] = "here", second[PLAIT_ADDRESS_TEXT];

    if (rank > 0 && rank < b->nrank)
        plait_peer_name(b->star.peers[rank].fd, first);
    plait_peer_name(fd, second);
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank %u: %s and %s%s", rank, first, second,
                      b->launched ? "; " PLAIT_OTHER_JOB : "");
}

/* Add a rank. A mismatch in its request ends the rendezvous. */
static enum plait_status add_rank(struct plait_bootstrap *b, int fd, const struct plait_join_request *who,
                                  uint32_t *joined)
{
    struct pollfd *peers = b->star.peers;
    enum plait_status status = PLAIT_OK;

    ++*joined;
    if (who->nrank != b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: nrank is %u on rank 0 and %u on rank %u", b->nrank,
                            who->nrank, who->rank);
    else if (who->rank == 0 || who->rank >= b->nrank || peers[who->rank].fd >= 0)
        status = refuse_twin(b, who->rank, fd);
    if (status == PLAIT_OK) {
        peers[who->rank].fd = fd;
        return PLAIT_OK;
    }
    const struct plait_error why = plait_error_of(status);
    plait_frame_write_error(fd, &why, plait_clock() + PLAIT_TELL);
    plait_descriptor_close(fd);
    return status;
}

static enum plait_status say_who_is_missing(const struct plait_bootstrap *b, const struct plait_rendezvous *r,
                                            uint32_t joined)
{
    char text[256], why[256] = "";

    name_missing(b, text, sizeof text);
    plait_listener_explain(&r->listener, why, sizeof why);
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: %u of %u ranks did not join within %g s: rank %s%s",
                      b->nrank - joined, b->nrank, b->limit, text, why);
}

/*
 * One step: a rank joins, or one that has joined is lost. Until all have joined, it sends nothing but an error of its
 * own: an event on its socket means that it is lost.
 */
static enum plait_status meet_next(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t *joined,
                                   double until)
{
    struct pollfd *peers = b->star.peers;
    struct plait_join_request who;
    int fd;

    enum plait_status status = wait_for_clients(&r->listener, peers, b->nrank, until);
    if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
        return status;
    const enum plait_status claimed = plait_claim_check(&b->nodes.claim, b->rank);
    if (claimed != PLAIT_OK)
        return claimed;
    if (status == PLAIT_ERR_TIMEOUT && plait_clock() >= until)
        return say_who_is_missing(b, r, *joined);
    for (uint32_t k = 1; k < b->nrank; k++)
        if (peers[k].fd >= 0 && peers[k].revents != 0)
            return plait_star_read(b, &b->star, k, NULL, 0, plait_clock() + PLAIT_TELL);
    status = plait_listener_take(&r->listener, &who, &fd);
    return fd < 0 ? status : add_rank(b, fd, &who, joined);
}

/* Name the missing ranks, too: some may have been in the process that died. */
static void add_missing(const struct plait_bootstrap *b, struct plait_error *death)
{
    char missing[256];

    name_missing(b, missing, sizeof missing);
    if (missing[0] != '\0')
        plait_append(death->text, sizeof death->text, "; rank %s had not joined", missing);
}

/* Tell ranks that still connect why the rendezvous has failed. `told`: how many know. */
static void refuse_late(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t told,
                        const struct plait_error *why)
{
    const bool shared = b->launched && why->status == PLAIT_ERR_MISMATCH;
    const double most = linger(b, why->status),
                 until = plait_clock() + (shared && most > OTHERS_COME ? OTHERS_COME : most);

    while ((shared || told < b->nrank) && plait_clock() < until) {
        struct pollfd polls[PLAIT_MOST_ADDRESSES];
        struct plait_join_request who;
        int fd;
        enum plait_status status = wait_for_clients(&r->listener, polls, 0, until);
        if (status == PLAIT_OK)
            status = plait_listener_take(&r->listener, &who, &fd);
        if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
            return;
        if (status != PLAIT_OK || fd < 0)
            continue;
        plait_frame_write_error(fd, why, plait_clock() + PLAIT_TELL);
        plait_descriptor_close(fd);
        told++;
    }
}

/*
 * End a failed rendezvous. Ranks that have joined are told first and hung up, which frees descriptors for the others.
 */
static void break_up(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t told,
                     const struct plait_error *why)
{
    raise_limit(true);
    plait_frame_unwatch(); /* ranks that connect now are told all the same */
    plait_star_tell_all(&b->star, b->nrank, why);
    plait_star_finish(&b->star, b->nrank);
    refuse_late(b, r, told, why);
    raise_limit(false);
}

/* Wait until all have joined; then tell them so. */
static enum plait_status meet_all(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t *joined)
{
    const double until = plait_clock() + b->limit;
    enum plait_status status = PLAIT_OK;

    while (status == PLAIT_OK && *joined < b->nrank)
        status = meet_next(b, r, joined, until);
    for (uint32_t k = 1; k < b->nrank && status == PLAIT_OK; k++)
        plait_frame_write(b->star.peers[k].fd, NULL, 0, plait_clock() + PLAIT_TELL);
    return status;
}

static enum plait_status serve_all(struct plait_bootstrap *b, struct plait_rendezvous *r, enum plait_status own)
{
    enum plait_status status = own;
    uint32_t joined = 1;

    b->star.peers = malloc((b->nrank + PLAIT_MOST_ADDRESSES) * sizeof *b->star.peers);
    for (uint32_t k = 0; b->star.peers != NULL && k < b->nrank; k++)
        b->star.peers[k] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (status == PLAIT_OK && b->star.peers == NULL)
        status = plait_fail_memory("out of memory for %u ranks", b->nrank);
    const size_t polls = b->nrank + r->listener.nsocket; /* the limit holds for poll(), too */
    if (status == PLAIT_OK && plait_limit(RLIMIT_NOFILE) < polls)
        status = plait_fail_errno(EMFILE, "comm creation: rank 0 needs %zu descriptors to meet the others", polls);
    const bool failed = status != PLAIT_OK;
    if (!failed)
        status = meet_all(b, r, &joined);
    if (status == PLAIT_OK)
        return PLAIT_OK;
    struct plait_error mine = plait_error_of(status);
    if (!failed && status == PLAIT_ERR_PEER)
        add_missing(b, &mine);
    const bool stopped = !failed && plait_frame_check() != PLAIT_OK;
    const struct plait_error why = failed || stopped ? plait_star_own_error(b, status) : mine;
    break_up(b, r, joined, &why);
    return plait_restore_error(&mine);
}

/* Returns 0 or an errno; plait_tcp_listen() has the meanings. */
static int listen_at(struct plait_rendezvous *r, double until)
{
    const struct sockaddr *name = (const struct sockaddr *)&r->name.address;

    if (r->tcp != NULL)
        return plait_tcp_listen(r->tcp, until, &r->listener);
    return plait_listener_add(&r->listener, name, r->name.length) ? 0 : errno;
}

/* Rank 0 cannot listen. With EBUSY and EADDRNOTAVAIL it cannot do so later either, to tell the others. */
static enum plait_status fail_to_listen(struct plait_rendezvous *r, int error)
{
    const enum plait_status stopped = plait_frame_check();

    r->untold = stopped != PLAIT_OK || (error != EBUSY && error != EADDRNOTAVAIL);
    if (stopped != PLAIT_OK)
        return stopped;
    switch (error) {
    case EADDRINUSE:
        return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank 0, or the id is used twice");
    case EADDRNOTAVAIL:
        return plait_fail(PLAIT_ERR_ARG, "comm creation: no address of the id is one of this host; rank 0 must be on "
                                         "the host where the id was made");
    case EBUSY:
        return plait_fail(PLAIT_ERR_ARG,
                          "comm creation: all ports that this id takes of %u to %u are in use on this host; set others "
                          "with MASTER_PORT, if the launcher uses it, or with PLAIT_PORTS",
                          r->tcp->first_port, r->tcp->first_port + r->tcp->nport - 1u);
    default:
        return plait_fail_errno(error, "comm creation: no socket to reach the other ranks");
    }
}

static enum plait_status run_server(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    r->listener = (struct plait_listener){ .secret = r->tcp != NULL ? r->tcp->secret : NULL };
    const double most = own == PLAIT_OK ? b->limit : linger(b, own);
    const int error = listen_at(r, plait_clock() + most);
    enum plait_status status = own;
    if (error == 0)
        status = serve_all(b, r, own);
    else if (own == PLAIT_OK)
        status = fail_to_listen(r, error);
    else if (error == EADDRINUSE) /* the other rank 0 tells all that connect */
        status = attend(r, b, own);
    plait_listener_close(&r->listener);
    return status;
}

/* ---- Either ---------------------------------------------------------------------------------------------------- */

enum plait_status plait_rendezvous_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    enum plait_status (*const run)(struct plait_rendezvous *, struct plait_bootstrap *, enum plait_status) =
        b->rank == 0 ? run_server : attend;

    r->untold = own != PLAIT_OK;
    const enum plait_status status = own == PLAIT_OK ? run(r, b, own) : own;
    if (r->untold) { /* meet the others to tell them */
        const struct plait_error mine = plait_error_of(status);
        raise_limit(true);
        plait_frame_unwatch();
        plait_star_finish(&b->star, b->nrank);
        run(r, b, status);
        raise_limit(false);
        plait_restore_error(&mine);
    }
    return status;
}
