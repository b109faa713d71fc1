/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: rank 0 accepts the others as clients and tells them when all have joined.
 *
 * Rank 0 watches every rank that has joined. A rank that reports a failure, or whose socket closes, ends the rendezvous
 * at once for all of them. Ranks that connect later are told too, for plait_rendezvous_linger(): the dead process may
 * have had more ranks, which never come, and nobody knows which.
 */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/system_limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LOOK_EVERY  0.1  /* seconds between checks for another process with this rank, and for slow clients */
#define PAUSE_EVERY 0.02 /* the same, while there is no room for clients */

/* Wait for clients, beside the first n sockets of `polls`. PLAIT_ERR_TIMEOUT: it is time to look after other things. */
static enum plait_status wait_for_clients(const struct plait_rendezvous *r, struct pollfd *polls, uint32_t n,
                                          double until)
{
    const double next = plait_clock() + (r->listener.paused ? PAUSE_EVERY : LOOK_EVERY);

    n += plait_listener_watch(&r->listener, polls + n);
    return plait_frame_poll(polls, n, next < until ? next : until);
}

static void name_missing(const struct plait_bootstrap *b, char *text, size_t size)
{
    size_t n = 0;
    unsigned missing = 0;

    for (uint32_t r = 1; r < b->nrank && n + 16 < size; r++) {
        if (b->star.peers[r].fd >= 0)
            continue;
        if (++missing > 16) {
            snprintf(text + n, size - n, ", ...");
            return;
        }
        n += (size_t)snprintf(text + n, size - n, "%s%u", missing > 1 ? ", " : "", r);
    }
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

/* Add a rank. An error of its own, or a mismatch in its request, ends the rendezvous. */
static enum plait_status add_rank(struct plait_bootstrap *b, int fd, const struct plait_join_request *who,
                                  uint32_t *joined)
{
    struct pollfd *peers = b->star.peers;
    enum plait_status status = PLAIT_OK;

    ++*joined;
    if (who->verdict.status != PLAIT_OK)
        status = plait_fail(who->verdict.status, "%s", who->verdict.text);
    else if (who->nrank != b->nrank)
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
    char text[256] = "", why[256] = "";

    name_missing(b, text, sizeof text);
    if (r->tcp != NULL && plait_loopback_is_down())
        snprintf(why, sizeof why, "%s", PLAIT_LOOPBACK_IS_DOWN);
    plait_listener_explain(&r->listener, why, sizeof why);
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: %u of %u ranks did not join within %g s: rank %s%s",
                      b->nrank - joined, b->nrank, b->limit, text, why);
}

/*
 * One step: a rank joins, or one that has joined is lost. It sends nothing until all have joined, so an event on its
 * socket means that it is lost.
 */
static enum plait_status meet_next(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t *joined,
                                   double until)
{
    struct pollfd *peers = b->star.peers;
    struct plait_join_request who;
    int fd;

    enum plait_status status = wait_for_clients(r, peers, b->nrank, until);
    if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
        return status;
    const enum plait_status claimed = plait_claim_check(&b->nodes.claim, b->rank);
    if (claimed != PLAIT_OK)
        return claimed;
    if (status == PLAIT_ERR_TIMEOUT && plait_clock() >= until)
        return say_who_is_missing(b, r, *joined);
    for (uint32_t k = 1; k < b->nrank; k++)
        if (peers[k].fd >= 0 && peers[k].revents != 0)
            return plait_star_blame(b, k, PLAIT_ERR_PEER);
    status = plait_listener_take(&r->listener, &who, &fd);
    return fd < 0 ? status : add_rank(b, fd, &who, joined);
}

/* Name the missing ranks, too: some may have been in the process that died. */
static void add_missing(const struct plait_bootstrap *b, struct plait_error *death)
{
    const size_t n = strlen(death->text);
    char missing[256] = "";

    name_missing(b, missing, sizeof missing);
    if (missing[0] != '\0')
        snprintf(death->text + n, sizeof death->text - n, "; rank %s had not joined", missing);
}

/* ---- Telling ---------------------------------------------------------------------------------------- */

/* Tell ranks that still connect why the rendezvous has failed. `told`: how many know. */
static void refuse_late(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t told,
                        const struct plait_error *why)
{
    const double until = plait_clock() + plait_rendezvous_linger(b, why->status);

    while ((told < b->nrank || plait_rendezvous_is_shared(b, why->status)) && plait_clock() < until) {
        struct pollfd polls[PLAIT_LISTENER_POLLS];
        struct plait_join_request who;
        int fd;
        const enum plait_status status = wait_for_clients(r, polls, 0, until);
        if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
            return;
        plait_listener_take(&r->listener, &who, &fd);
        if (fd < 0)
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
    plait_rendezvous_raise_limit(true);
    plait_frame_unwatch(); /* ranks that connect now are told all the same */
    plait_star_tell_all(&b->star, b->nrank, why);
    plait_star_finish(&b->star, b->nrank);
    refuse_late(b, r, told, why);
    plait_rendezvous_raise_limit(false);
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

/* Is there room for the others' sockets? Clients get what is left, as poll() takes no more entries than the limit. */
static enum plait_status check_room(const struct plait_bootstrap *b, struct plait_listener *l)
{
    struct rlimit limit = { 0, 0 };

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < b->nrank + l->nsocket + PLAIT_MOST_CLIENTS)
        l->most = limit.rlim_cur > b->nrank + l->nsocket ? (unsigned)limit.rlim_cur - b->nrank - l->nsocket : 1;
    return plait_check_descriptors(b->nrank - 1, "rank 0 of a comm, to meet the others");
}

static enum plait_status serve_all(struct plait_bootstrap *b, struct plait_rendezvous *r, enum plait_status own)
{
    enum plait_status status = own;
    uint32_t joined = 1;

    b->star.peers = malloc((b->nrank + PLAIT_LISTENER_POLLS) * sizeof *b->star.peers);
    for (uint32_t k = 0; b->star.peers != NULL && k < b->nrank; k++)
        b->star.peers[k] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (status == PLAIT_OK && b->star.peers == NULL)
        status = plait_fail_memory("out of memory for %u ranks", b->nrank);
    if (status == PLAIT_OK)
        status = check_room(b, &r->listener);
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
    return plait_fail(status, "%s", mine.text);
}

/* Rank 0 cannot listen, and cannot tell the others, as they look for it elsewhere. */
static enum plait_status fail_to_listen(const struct plait_tcp_id *id, int error)
{
    if (error == EADDRNOTAVAIL)
        return plait_fail(PLAIT_ERR_ARG, "comm creation: no address of the id is one of this host; rank 0 must be on "
                                         "the host where the id was made");
    return plait_fail(PLAIT_ERR_ARG,
                      "comm creation: all ports that this id takes of %u to %u are in use on this host; name others by "
                      "PLAIT_PORTS, or by MASTER_PORT where that is set, which they follow",
                      id->first_port, id->first_port + id->nport - 1u);
}

/* Returns 0 or an errno; plait_tcp_listen() has the meanings. */
static int listen_at(struct plait_rendezvous *r, double until)
{
    const struct sockaddr *name = (const struct sockaddr *)&r->name.address;

    if (r->tcp != NULL)
        return plait_tcp_listen(r->tcp, until, &r->listener);
    return plait_listener_add(&r->listener, name, r->name.length) ? 0 : errno;
}

/*
 * Rank 0 does not listen. If it has failed itself and another rank 0 listens, it joins that one, which tells all that
 * connect. If not, the port is in use: an error of its own.
 */
static enum plait_status fail_to_serve(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own,
                                       int error)
{
    if (own != PLAIT_OK)
        return error == EADDRINUSE ? plait_rendezvous_attend(r, b, own) : own;
    const enum plait_status stopped = plait_frame_check();
    r->untold = stopped != PLAIT_OK || (error != EADDRNOTAVAIL && error != EBUSY);
    if (stopped != PLAIT_OK)
        return stopped;
    if (!r->untold)
        return fail_to_listen(r->tcp, error);
    return error == EADDRINUSE
               ? plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank 0, or the id is used twice")
               : plait_fail_errno(error, "comm creation: no socket to reach the other ranks");
}

enum plait_status plait_server_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    plait_listener_init(&r->listener, r->tcp != NULL ? r->tcp->secret : NULL);
    const double most = own == PLAIT_OK ? b->limit : plait_rendezvous_linger(b, own);
    const int error = listen_at(r, plait_clock() + most);
    const enum plait_status status = error == 0 ? serve_all(b, r, own) : fail_to_serve(r, b, own, error);
    plait_listener_close(&r->listener);
    return status;
}
