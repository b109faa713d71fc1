/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: rank 0 accepts the others as clients and tells them when all have joined.
 *
 * Rank 0 watches every rank that has joined. A rank that reports a failure, or whose socket closes, ends the rendezvous
 * at once for all of them. Ranks that connect later are told too, for MOST_LINGER seconds. After a death it is
 * DEATH_LINGER: the dead process may have had more ranks, which never come, and nobody knows which.
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

#define OTHERS_COME 2.0 /* seconds for ranks of another job, once as many ranks as this job has were told */
#define LOOK_EVERY  0.1 /* seconds between checks for another process with this rank, and for slow clients */

static void name_missing(const struct plait_bootstrap *b, char *text, size_t size)
{
    size_t n = 0;
    unsigned missing = 0;

    for (uint32_t r = 1; r < b->nrank && n + 16 < size; r++) {
        if (b->peers[r].fd >= 0)
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
        plait_peer_name(b->peers[rank].fd, first);
    plait_peer_name(fd, second);
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank %u: %s and %s%s", rank, first, second,
                      b->launched ? "; " PLAIT_OTHER_JOB : "");
}

/* A connected rank with the same machine and another launcher; nrank: none. */
static uint32_t find_other_origin(const struct plait_bootstrap *b, struct plait_origin origin)
{
    uint32_t r = 0;

    while (r < b->nrank && !((r == 0 || b->peers[r].fd >= 0) && plait_origins_differ(b->origins[r], origin)))
        r++;
    return r;
}

/* Add a rank. An error of its own, or a mismatch in its request, ends the rendezvous. */
static enum plait_status add_rank(struct plait_bootstrap *b, int fd, const struct plait_join_request *who,
                                  const struct plait_error *verdict, uint32_t *joined)
{
    enum plait_status status = PLAIT_OK;
    uint32_t other;

    if (verdict->status != PLAIT_OK)
        status = plait_fail(verdict->status, "%s", verdict->text);
    else if (who->nrank != b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: nrank is %u on rank 0 and %u on rank %u", b->nrank,
                            who->nrank, who->rank);
    else if (who->rank == 0 || who->rank >= b->nrank || b->peers[who->rank].fd >= 0)
        status = refuse_twin(b, who->rank, fd);
    else if (b->launched && (other = find_other_origin(b, who->origin)) < b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH,
                            "comm creation: two launchers on one host started ranks %u and %u: " PLAIT_OTHER_JOB
                            "; or ranks of one job have a launcher or a wrapper script each, which TORCHELASTIC_RUN_ID "
                            "fixes: set it to one value for all of them",
                            other, who->rank);
    ++*joined;
    if (status == PLAIT_OK) {
        b->peers[who->rank].fd = fd;
        b->origins[who->rank] = who->origin;
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
    const double look = plait_clock() + LOOK_EVERY;
    struct plait_join_request who;
    struct plait_error verdict;
    int fd;

    enum plait_status status = plait_star_poll(b, look < until ? look : until);
    if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
        return status;
    const enum plait_status claimed = plait_claim_check(&b->nodes.claim, b->rank);
    if (claimed != PLAIT_OK)
        return claimed;
    if (status == PLAIT_ERR_TIMEOUT && until <= look)
        return say_who_is_missing(b, r, *joined);
    for (uint32_t k = 1; k < b->nrank; k++)
        if (b->peers[k].fd >= 0 && b->peers[k].revents != 0)
            return plait_star_blame(b, k, PLAIT_ERR_PEER);
    status = plait_listener_take(&r->listener, &who, &verdict, &fd);
    return fd < 0 ? status : add_rank(b, fd, &who, &verdict, joined);
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

bool plait_server_refuse(const struct plait_bootstrap *b, struct plait_listener *l, uint32_t *told,
                         const struct plait_error *why, double until)
{
    /* Two jobs have this id, and all ranks of both connect here. */
    const bool twice = b->launched && why->status == PLAIT_ERR_MISMATCH;
    double last = 0; /* deadline for the other job's ranks; 0: fewer ranks have been told than this job has */

    for (uint32_t expected = (twice ? 2 : 1) * b->nrank; *told < expected;) {
        struct plait_join_request who;
        struct plait_error verdict;
        int fd;
        if (twice && last == 0 && *told >= b->nrank)
            last = plait_clock() + OTHERS_COME;
        const double end = last > 0 && last < until ? last : until, tick = plait_clock() + LOOK_EVERY;
        const enum plait_status status = plait_frame_wait(plait_listener_fd(l), POLLIN, end < tick ? end : tick);
        if ((status == PLAIT_ERR_TIMEOUT && end < tick) || (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT))
            break;
        if (plait_listener_check(l) != PLAIT_OK)
            break;
        if (plait_listener_take(l, &who, &verdict, &fd) != PLAIT_OK)
            return false;
        if (fd < 0)
            continue;
        plait_frame_write_error(fd, why, plait_clock() + PLAIT_TELL);
        plait_descriptor_close(fd);
        ++*told;
        expected = who.nrank > expected ? who.nrank : expected;
    }
    return true;
}

/*
 * End a failed rendezvous. Ranks that have joined are told first and hung up, which frees descriptors for the others.
 */
static void break_up(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t told,
                     const struct plait_error *why)
{
    plait_star_tell_all(b, why);
    for (uint32_t k = 1; b->peers != NULL && k < b->nrank; k++) {
        plait_hang_up(b->peers[k].fd);
        b->peers[k].fd = -1;
    }
    if (!plait_server_refuse(b, &r->listener, &told, why, plait_clock() + plait_rendezvous_linger(b, why->status)))
        plait_rendezvous_tell_apart(r, b, told, why);
}

/* ---- The whole rendezvous -------------------------------------------------------------------------- */

static bool all_agree(const struct plait_bootstrap *b)
{
    uint32_t r = 0;

    while (r < b->nrank && plait_origins_agree(b->origins[r], b->origin))
        r++;
    return r == b->nrank;
}

/* Wait until all have joined; then tell them so, and whether one process started them all. */
static enum plait_status meet_all(struct plait_bootstrap *b, struct plait_rendezvous *r, uint32_t *joined)
{
    const double until = plait_clock() + b->limit;
    enum plait_status status = PLAIT_OK;

    b->peers[0].fd = plait_listener_fd(&r->listener);
    while (status == PLAIT_OK && *joined < b->nrank)
        status = meet_next(b, r, joined, until);
    b->peers[0].fd = -1;
    if (status != PLAIT_OK)
        return status;
    const uint8_t agree = all_agree(b);
    if (agree)
        b->nodes.claim.of_all = b->origin;
    for (uint32_t k = 1; k < b->nrank; k++)
        plait_frame_write(b->peers[k].fd, &agree, sizeof agree, plait_clock() + PLAIT_TELL);
    return PLAIT_OK;
}

static enum plait_status serve_all(struct plait_bootstrap *b, struct plait_rendezvous *r, enum plait_status own)
{
    enum plait_status status = own;
    uint32_t joined = 1;

    b->peers = malloc(b->nrank * sizeof *b->peers);
    b->origins = calloc(b->nrank, sizeof *b->origins);
    for (uint32_t k = 0; b->peers != NULL && k < b->nrank; k++)
        b->peers[k] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (b->origins != NULL)
        b->origins[0] = b->origin;
    if (status == PLAIT_OK && (b->peers == NULL || b->origins == NULL))
        status = plait_fail_memory("out of memory for %u ranks", b->nrank);
    if (status == PLAIT_OK)
        status = plait_check_descriptors(b->nrank - 1, "rank 0 of a comm, to meet the others");
    const bool failed = status != PLAIT_OK;
    if (!failed)
        status = meet_all(b, r, &joined);
    if (status != PLAIT_OK) {
        struct plait_error mine = plait_error_of(status);
        if (!failed && status == PLAIT_ERR_PEER)
            add_missing(b, &mine);
        const bool stopped = !failed && plait_frame_look() != PLAIT_OK;
        const struct plait_error why = failed || stopped ? plait_star_own_error(b, status) : mine;
        plait_frame_unwatch(); /* ranks that connect now are told all the same */
        break_up(b, r, joined, &why);
        plait_fail(status, "%s", mine.text);
    }
    free(b->origins);
    b->origins = NULL;
    return status;
}

/* Rank 0 cannot listen, and cannot tell the others, as they look for it elsewhere. */
static enum plait_status fail_to_listen(const struct plait_tcp_id *id, int error)
{
    uint16_t least = UINT16_MAX, most = 0;

    if (error == EADDRNOTAVAIL)
        return plait_fail(PLAIT_ERR_ARG,
                          "comm creation: no address of the id is one of this host; rank 0 must be on the host where "
                          "the id was made%s",
                          plait_loopback_is_down() ? PLAIT_LOOPBACK_IS_DOWN : "");
    for (unsigned i = 0; i < plait_tcp_id_nport(id); i++) {
        const uint16_t port = plait_tcp_id_port(id, i);
        least = port < least ? port : least;
        most = port > most ? port : most;
    }
    return plait_fail(PLAIT_ERR_ARG,
                      "comm creation: all ports that the id names are in use on this host: %u to %u; name others by "
                      "PLAIT_PORTS, or by MASTER_PORT where that is set, which they follow",
                      least, most);
}

int plait_server_listen(struct plait_rendezvous *r, double until)
{
    struct plait_listener *l = &r->listener;
    const struct sockaddr *name = (const struct sockaddr *)&r->name.address;
    int error = 0;

    if (!plait_listener_open(l)) /* before bind(), so that no rank connects in vain */
        return errno;
    if (r->tcp != NULL)
        error = plait_tcp_listen(r->tcp, until, l);
    else if (!plait_listener_add(l, name, r->name.length))
        error = errno;
    if (error != 0) {
        plait_descriptor_close(l->events);
        l->events = -1;
        return error;
    }
    plait_listener_spare(l);
    return 0;
}

enum plait_status plait_server_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    const int error = plait_server_listen(r, plait_clock() + b->limit);
    enum plait_status status = own;

    if (error == 0) {
        status = serve_all(b, r, own);
        plait_listener_close(&r->listener);
        return status;
    }
    if (status == PLAIT_OK)
        status = plait_frame_look(); /* this rank may have been told to stop */
    if (error == EADDRINUSE) {       /* join the other rank 0, as each of its ranks does: it tells all that connect */
        if (status == PLAIT_OK)
            status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank 0, or the id is used twice%s",
                                b->launched ? "; " PLAIT_OTHER_JOB : "");
        return plait_rendezvous_attend(r, b, status);
    }
    if (error == EADDRNOTAVAIL || error == EBUSY)
        return status != PLAIT_OK ? status : fail_to_listen(r->tcp, error);
    return plait_rendezvous_fail_apart(
        r, b,
        status != PLAIT_OK ? status : plait_fail_errno(error, "comm creation: no socket to reach the other ranks"));
}
