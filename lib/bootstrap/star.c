/* SPDX-License-Identifier: BSD-3-Clause */
#include "star.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The rank's number in error texts. */
static uint32_t name_of(const struct plait_bootstrap *b, uint32_t rank)
{
    return b->names != NULL ? b->names[rank] : rank;
}

void plait_hang_up(int fd)
{
    if (fd < 0)
        return;
    if (plait_descriptor_is_ours(fd))
        shutdown(fd, SHUT_RDWR);
    plait_descriptor_close(fd);
}

void plait_star_finish(struct plait_bootstrap *b)
{
    plait_hang_up(b->root);
    for (uint32_t r = 1; b->peers != NULL && r < b->nrank; r++)
        plait_hang_up(b->peers[r].fd);
    free(b->peers);
}

struct plait_error plait_star_own_error(const struct plait_bootstrap *b, enum plait_status own)
{
    struct plait_error e = { .status = own };

    snprintf(e.text, sizeof e.text, "rank %u: %s", name_of(b, b->rank), plait_last_error());
    return e;
}

enum plait_status plait_star_blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status)
{
    if (status == PLAIT_ERR_TIMEOUT)
        return plait_fail(status, "comm creation: nothing from rank %u for %g s", name_of(b, rank), b->limit);
    const enum plait_status why = status == PLAIT_ERR_PEER ? plait_frame_look() : PLAIT_OK; /* why it may have left */
    if (why != PLAIT_OK)
        return why;
    if (status == PLAIT_ERR_PEER)
        return plait_fail(status, "comm creation: rank %u left or died", name_of(b, rank));
    return status;
}

static int socket_of(const struct plait_bootstrap *b, uint32_t rank)
{
    return b->rank > 0 ? b->root : b->peers[rank].fd;
}

/* Of a frame from `rank`: the connection's status, or the error that came in place of the frame. */
static enum plait_status result_of(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status,
                                   const struct plait_error *error)
{
    if (status != PLAIT_OK)
        return plait_star_blame(b, rank, status);
    return error->status != PLAIT_OK ? plait_fail(error->status, "%s", error->text) : PLAIT_OK;
}

enum plait_status plait_star_read(const struct plait_bootstrap *b, uint32_t rank, void *data, size_t bytes,
                                  double until)
{
    struct plait_error error;

    return result_of(b, rank, plait_frame_read(socket_of(b, rank), data, bytes, until, &error), &error);
}

/* Writing to `rank` failed: read the reason that it may have sent before it closed its end. */
static enum plait_status reason_of(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status)
{
    return status == PLAIT_ERR_PEER ? plait_star_read(b, rank, NULL, 0, plait_clock() + PLAIT_TELL)
                                    : plait_star_blame(b, rank, status);
}

void plait_star_tell_all(struct plait_bootstrap *b, const struct plait_error *why)
{
    b->over = true;
    for (uint32_t r = 1; b->peers != NULL && r < b->nrank; r++)
        if (b->peers[r].fd >= 0)
            plait_frame_write_error(b->peers[r].fd, why, plait_clock() + PLAIT_TELL);
}

/* Rank 0 gives up with this error and tells the others. */
static enum plait_status give_up(struct plait_bootstrap *b, enum plait_status status)
{
    const struct plait_error why = plait_error_of(status);

    plait_star_tell_all(b, &why);
    return status;
}

/* This rank's own error ends the bootstrap. */
static enum plait_status leave(struct plait_bootstrap *b, enum plait_status own)
{
    const struct plait_error mine = plait_error_of(own), why = plait_star_own_error(b, own);

    if (b->rank == 0 && !b->over)
        plait_star_tell_all(b, &why);
    else if (!b->over)
        plait_frame_write_error(b->root, &why, plait_clock() + PLAIT_TELL);
    b->over = true;
    return plait_fail(own, "%s", mine.text);
}

/* A dead peer whose socket has nothing left to read, or 0. */
static uint32_t find_dead(struct plait_bootstrap *b)
{
    for (uint32_t r = 1; r < b->nrank; r++)
        if (b->peers[r].fd >= 0 && plait_frame_dead(b->peers[r].fd))
            return poll(&b->peers[r], 1, 0) > 0 ? 0 : r;
    return 0;
}

enum plait_status plait_star_poll(struct plait_bootstrap *b, double until)
{
    for (;;) {
        const double left = until - plait_clock(), tick = plait_frame_tick(), wait = left < tick ? left : tick;
        const int n = left > 0 ? poll(b->peers, b->nrank, (int)(wait * 1e3) + 1) : 0;
        for (uint32_t r = 0; r < b->nrank; r++)
            if ((n == 0 || b->peers[r].revents != 0) && plait_descriptor_check(b->peers[r].fd) != PLAIT_OK)
                return PLAIT_ERR_SYSTEM;
        if (n > 0)
            return PLAIT_OK;
        if (left <= 0)
            return PLAIT_ERR_TIMEOUT;
        if (n < 0 && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: rank 0 cannot wait for the others");
        const enum plait_status status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        const uint32_t dead = n == 0 ? find_dead(b) : 0;
        if (dead > 0)
            return plait_star_blame(b, dead, PLAIT_ERR_PEER);
    }
}

/* Rank 0: all ranks' bytes, in order of arrival. A rank that leaves is noticed, also after its bytes have arrived. */
static enum plait_status collect(struct plait_bootstrap *b, size_t bytes, char *all, double until)
{
    enum plait_status status = PLAIT_OK;
    uint32_t missing = b->nrank - 1;

    for (uint32_t r = 1; r < b->nrank; r++)
        b->peers[r].events = POLLIN;
    while (missing > 0 && status == PLAIT_OK) {
        status = plait_star_poll(b, until);
        for (uint32_t r = 1; r < b->nrank; r++) {
            if (status == PLAIT_ERR_TIMEOUT && b->peers[r].events != 0)
                return plait_star_blame(b, r, status);
            if (status != PLAIT_OK || b->peers[r].revents == 0)
                continue;
            status = b->peers[r].events != 0 ? plait_star_read(b, r, bytes > 0 ? all + r * bytes : NULL, bytes, until)
                                             : plait_star_blame(b, r, PLAIT_ERR_PEER);
            b->peers[r].events = 0;
            missing--;
        }
    }
    return status;
}

/* The deadline: 2 s later on the others than on rank 0, whose error names the culprit, so that it arrives. */
static double patience(const struct plait_bootstrap *b)
{
    return plait_clock() + b->limit + (b->rank > 0 ? 2.0 : 0.0);
}

enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, enum plait_status own, const void *mine,
                                            size_t bytes, void *all)
{
    const double until = patience(b);
    enum plait_status status;

    if (own != PLAIT_OK)
        return leave(b, own);
    if (bytes > 0)
        memcpy((char *)all + b->rank * bytes, mine, bytes);
    if (b->rank > 0) {
        status = plait_frame_write(b->root, mine, bytes, until);
        /* Rank 0 may have closed the socket after saying why. */
        status = status == PLAIT_OK || status == PLAIT_ERR_PEER ? plait_star_read(b, 0, all, b->nrank * bytes, until)
                                                                : plait_star_blame(b, 0, status);
        b->over = status != PLAIT_OK;
        return status;
    }
    status = collect(b, bytes, all, until);
    if (status != PLAIT_OK)
        return give_up(b, status);
    for (uint32_t r = 1; r < b->nrank; r++)
        plait_frame_write(b->peers[r].fd, all, b->nrank * bytes, until);
    return PLAIT_OK;
}

static enum plait_status read_fds_from(struct plait_bootstrap *b, uint32_t rank, int *fds, uint32_t n, double until,
                                       bool *all)
{
    struct plait_error error;

    return result_of(b, rank, plait_frame_read_fds(socket_of(b, rank), fds, n, until, &error, all), &error);
}

static enum plait_status no_room(uint32_t n)
{
    return plait_fail_errno(EMFILE, "comm creation: no room for %u descriptors of another process", n);
}

/*
 * The ranks from `first` on whose descriptors fit into one message. Full messages save wake-ups: each message costs the
 * receiver a turn on its processor. Returns the rank after them; *have: how many descriptors.
 */
static uint32_t next_batch(const struct plait_bootstrap *b, const bool *gives, uint32_t except, uint32_t n,
                           uint32_t first, uint32_t *have)
{
    uint32_t r = first;

    for (*have = 0; r < b->nrank && *have + n <= PLAIT_FRAME_FDS; r++)
        *have += gives[r] && r != except ? n : 0;
    return r;
}

/* Send one rank the descriptors of all others. */
static enum plait_status send_fds(struct plait_bootstrap *b, const bool *gives, uint32_t to, uint32_t n, const int *all,
                                  double until)
{
    int some[PLAIT_FRAME_FDS];
    enum plait_status status = PLAIT_OK;

    for (uint32_t first = 0, end, have; first < b->nrank && status == PLAIT_OK; first = end) {
        end = next_batch(b, gives, to, n, first, &have);
        int *at = some;
        for (uint32_t r = first; r < end; r++)
            if (gives[r] && r != to)
                at = (int *)memcpy(at, all + r * n, n * sizeof *at) + n;
        if (have > 0)
            status = plait_frame_write_fds(b->peers[to].fd, some, have, until);
    }
    return status;
}

/* Rank 0 collects each giver's descriptors, then sends every giver those of all others. */
static enum plait_status relay(struct plait_bootstrap *b, const bool *gives, uint32_t n, int *all, double until)
{
    enum plait_status status = PLAIT_OK;
    bool came = true;

    for (uint32_t r = 1; r < b->nrank && status == PLAIT_OK && came; r++)
        if (gives[r])
            status = read_fds_from(b, r, all + r * n, n, until, &came);
    if (status == PLAIT_OK && !came)
        return leave(b, no_room(n));
    for (uint32_t to = 1; to < b->nrank && status == PLAIT_OK; to++)
        if (gives[to]) {
            status = send_fds(b, gives, to, n, all, until);
            if (status == PLAIT_ERR_SYSTEM)
                return leave(b, status);
            status = status == PLAIT_OK ? PLAIT_OK : reason_of(b, to, status);
        }
    return status == PLAIT_OK ? PLAIT_OK : give_up(b, status);
}

/* The others send theirs and receive all. A rank without room for some receives the rest, as rank 0 goes on sending. */
static enum plait_status exchange(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all,
                                  double until)
{
    int some[PLAIT_FRAME_FDS];
    enum plait_status status = plait_frame_write_fds(b->root, mine, n, until);
    bool room = true;

    if (status == PLAIT_ERR_SYSTEM) /* this rank's own error */
        return leave(b, status);
    status = status == PLAIT_OK ? PLAIT_OK : reason_of(b, 0, status);
    for (uint32_t first = 0, end, have; first < b->nrank && status == PLAIT_OK; first = end) {
        bool came = true;
        end = next_batch(b, gives, b->rank, n, first, &have);
        if (have > 0)
            status = read_fds_from(b, 0, some, have, until, &came);
        const int *at = some;
        for (uint32_t r = first; have > 0 && r < end; r++)
            if (gives[r] && r != b->rank) {
                memcpy(all + r * n, at, n * sizeof *at); /* -1 for those that did not arrive */
                at += n;
            }
        room &= came;
    }
    b->over = status != PLAIT_OK;
    return status == PLAIT_OK && !room ? no_room(n) : status;
}

enum plait_status plait_star_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all)
{
    const double until = patience(b);
    enum plait_status status = PLAIT_OK;

    for (uint32_t i = 0; i < b->nrank * n; i++)
        all[i] = -1;
    if (b->rank > 0)
        return gives[b->rank] ? exchange(b, gives, mine, n, all, until) : PLAIT_OK;
    memcpy(all, mine, n * sizeof *mine);
    if (b->nrank > 1)
        status = relay(b, gives, n, all, until);
    for (uint32_t i = 0; i < n; i++)
        all[i] = -1;
    return status;
}
