/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's connections: messages and descriptors over its stars; how they are made, and end. */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void plait_hang_up(int fd)
{
    if (fd < 0)
        return;
    if (plait_descriptor_is_ours(fd))
        shutdown(fd, SHUT_RDWR);
    plait_descriptor_close(fd);
}

void plait_star_finish(struct plait_star *s, uint32_t nrank)
{
    plait_hang_up(s->root);
    for (uint32_t r = 0; s->peers != NULL && r < nrank; r++)
        plait_hang_up(s->peers[r].fd);
    free(s->peers);
    *s = (struct plait_star){ .root = -1 };
}

struct plait_error plait_star_own_error(const struct plait_bootstrap *b, enum plait_status own)
{
    struct plait_error e = { .status = own };

    snprintf(e.text, sizeof e.text, "rank %u: %s", b->rank, plait_last_error());
    return e;
}

enum plait_status plait_star_blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status)
{
    if (status == PLAIT_ERR_TIMEOUT)
        return plait_fail(status, "comm creation: nothing from rank %u for %g s", rank, b->limit);
    const enum plait_status why = status == PLAIT_ERR_PEER ? plait_frame_check() : PLAIT_OK; /* why it may have left */
    if (why != PLAIT_OK)
        return why;
    if (status == PLAIT_ERR_PEER)
        return plait_fail(status, "comm creation: rank %u left or died", rank);
    return status;
}

static int socket_of(const struct plait_star *s, uint32_t rank)
{
    return s->peers != NULL ? s->peers[rank].fd : s->root;
}

/* Of a frame from `rank`: the connection's status, or the error that came in place of the frame. */
static enum plait_status result_of(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status,
                                   const struct plait_error *error)
{
    if (status != PLAIT_OK)
        return plait_star_blame(b, rank, status);
    return plait_restore_error(error);
}

enum plait_status plait_star_read(const struct plait_bootstrap *b, const struct plait_star *s, uint32_t rank,
                                  void *data, size_t bytes, double until)
{
    struct plait_error error;

    return result_of(b, rank, plait_frame_read(socket_of(s, rank), data, bytes, until, &error), &error);
}

void plait_star_tell_all(struct plait_star *s, uint32_t nrank, const struct plait_error *why)
{
    if (s->over)
        return;
    s->over = true;
    if (s->root >= 0)
        plait_frame_write_error(s->root, why, plait_clock() + PLAIT_TELL);
    for (uint32_t r = 0; s->peers != NULL && r < nrank; r++)
        if (s->peers[r].fd >= 0)
            plait_frame_write_error(s->peers[r].fd, why, plait_clock() + PLAIT_TELL);
}

/* This rank gives up and tells the others. own: the error is its own, not one that it has found. */
static enum plait_status give_up(const struct plait_bootstrap *b, struct plait_star *s, enum plait_status status,
                                 bool own)
{
    const struct plait_error mine = plait_error_of(status), why = own ? plait_star_own_error(b, status) : mine;

    plait_star_tell_all(s, b->nrank, &why);
    return plait_restore_error(&mine);
}

/* Rank 0: all ranks' bytes, in order of arrival. A rank that leaves is noticed, also after its bytes have arrived. */
static enum plait_status collect(struct plait_bootstrap *b, size_t bytes, char *all, double until)
{
    struct pollfd *peers = b->star.peers;
    enum plait_status status = PLAIT_OK;
    uint32_t missing = b->nrank - 1;

    for (uint32_t r = 1; r < b->nrank; r++)
        peers[r].events = POLLIN;
    while (missing > 0 && status == PLAIT_OK) {
        status = plait_frame_poll(peers, b->nrank, until);
        for (uint32_t r = 1; r < b->nrank; r++) {
            if (status == PLAIT_ERR_TIMEOUT && peers[r].events != 0)
                return plait_star_blame(b, r, status);
            if (status != PLAIT_OK || peers[r].revents == 0)
                continue;
            status = peers[r].events != 0
                         ? plait_star_read(b, &b->star, r, bytes > 0 ? all + r * bytes : NULL, bytes, until)
                         : plait_star_blame(b, r, PLAIT_ERR_PEER);
            peers[r].events = 0;
            missing--;
        }
    }
    return status;
}

/* The deadline: 2 s later on the others than on the hub, whose error names the culprit, so that it arrives. */
static double deadline(const struct plait_bootstrap *b, const struct plait_star *s)
{
    return plait_clock() + b->limit + (b->rank != s->hub ? 2.0 : 0.0);
}

/* data [bytes] of rank 0, on every rank. A rank that has left is noticed by the next call. */
static enum plait_status spread(struct plait_bootstrap *b, void *data, size_t bytes, double until)
{
    struct plait_star *s = &b->star;
    enum plait_status status = PLAIT_OK;

    if (b->rank > 0) {
        status = plait_star_read(b, s, 0, data, bytes, until);
        s->over = status != PLAIT_OK;
        return status;
    }
    for (uint32_t r = 1; r < b->nrank; r++) {
        status = plait_frame_write(s->peers[r].fd, data, bytes, until);
        if (status != PLAIT_OK && status != PLAIT_ERR_PEER)
            return give_up(b, s, plait_star_blame(b, r, status), status == PLAIT_ERR_SYSTEM);
    }
    return PLAIT_OK;
}

enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, enum plait_status own, const void *mine,
                                            size_t bytes, void *all)
{
    struct plait_star *s = &b->star;
    const double until = deadline(b, s);
    enum plait_status status;

    if (own != PLAIT_OK)
        return give_up(b, s, own, true);
    if (bytes > 0)
        memcpy((char *)all + b->rank * bytes, mine, bytes);
    status = b->rank > 0 ? plait_frame_write(s->root, mine, bytes, until) : collect(b, bytes, all, until);
    if (b->rank == 0 && status != PLAIT_OK)
        return give_up(b, s, status, false);
    if (status == PLAIT_OK || status == PLAIT_ERR_PEER) /* rank 0 may have closed the socket after saying why */
        return spread(b, all, b->nrank * bytes, until);
    if (status == PLAIT_ERR_SYSTEM)
        return give_up(b, s, status, true);
    s->over = true;
    return plait_star_blame(b, 0, status);
}

enum plait_status plait_bootstrap_broadcast(struct plait_bootstrap *b, enum plait_status own, void *data, size_t bytes)
{
    return own != PLAIT_OK ? give_up(b, &b->star, own, true) : spread(b, data, bytes, deadline(b, &b->star));
}

/* ---- Descriptors ----------------------------------------------------------------------------------------------- */

struct sharing { /* one plait_bootstrap_share(), inside this rank's node */
    struct plait_bootstrap *b;
    struct plait_star *s;
    const bool *gives;
    uint32_t n;
    int *all;
    double until;
};

static bool gives_to(const struct sharing *h, uint32_t from, uint32_t to)
{
    return h->gives[from] && from != to && plait_node_of(&h->b->nodes, from) == plait_node_of(&h->b->nodes, to);
}

/* An error of this rank's own, as no room for descriptors, ends the exchange. */
static enum plait_status read_fds(const struct sharing *h, uint32_t rank, int *fds, uint32_t n)
{
    struct plait_error error;
    const enum plait_status status = plait_frame_read_fds(socket_of(h->s, rank), fds, n, h->until, &error);

    return status == PLAIT_ERR_SYSTEM ? give_up(h->b, h->s, status, true) : result_of(h->b, rank, status, &error);
}

/* If it fails: the reason that `rank` may have sent before it closed its end. */
static enum plait_status write_fds(const struct sharing *h, uint32_t rank, const int *fds, uint32_t n)
{
    const enum plait_status status = plait_frame_write_fds(socket_of(h->s, rank), fds, n, h->until);

    if (status == PLAIT_ERR_SYSTEM)
        return give_up(h->b, h->s, status, true);
    return status == PLAIT_ERR_PEER ? plait_star_read(h->b, h->s, rank, NULL, 0, plait_clock() + PLAIT_TELL)
                                    : plait_star_blame(h->b, rank, status);
}

/*
 * Pass the descriptors for rank `to`: the hub writes them to it, it reads them from the hub. Full messages save
 * wake-ups: each message costs the receiver a turn on its processor.
 */
static enum plait_status pass_all(const struct sharing *h, uint32_t to)
{
    const bool writes = h->b->rank == h->s->hub;
    const uint32_t n = h->b->nrank * h->n;
    uint32_t left = 0, at = 0, end = 0; /* at, end: in `some`, one message */
    int some[PLAIT_FRAME_FDS];
    enum plait_status status = PLAIT_OK;

    for (uint32_t k = 0; k < n; k++)
        left += gives_to(h, k / h->n, to);
    for (uint32_t k = 0; k < n && (status == PLAIT_OK || at < end); k++) {
        if (!gives_to(h, k / h->n, to))
            continue;
        if (at == end) {
            at = 0;
            end = left < PLAIT_FRAME_FDS ? left : PLAIT_FRAME_FDS;
            left -= end;
            status = writes ? PLAIT_OK : read_fds(h, h->s->hub, some, end);
        }
        *(writes ? &some[at] : &h->all[k]) = writes ? h->all[k] : some[at];
        if (++at == end && writes)
            status = write_fds(h, to, some, end);
    }
    return status;
}

/* The hub collects each giver's descriptors, then sends every giver those of all others. */
static enum plait_status relay(const struct sharing *h)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < h->b->nrank && status == PLAIT_OK; r++)
        if (gives_to(h, r, h->s->hub))
            status = read_fds(h, r, h->all + r * h->n, h->n);
    for (uint32_t to = 0; to < h->b->nrank && status == PLAIT_OK; to++)
        if (gives_to(h, to, h->s->hub))
            status = pass_all(h, to);
    return status == PLAIT_OK ? PLAIT_OK : give_up(h->b, h->s, status, false);
}

/* The others send theirs and receive all. */
static enum plait_status exchange(const struct sharing *h, const int *mine)
{
    enum plait_status status = write_fds(h, h->s->hub, mine, h->n);

    if (status == PLAIT_OK)
        status = pass_all(h, h->b->rank);
    h->s->over |= status != PLAIT_OK;
    return status;
}

enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n,
                                        int *all)
{
    struct plait_star *s = b->tcp ? &b->node : &b->star;
    const struct sharing h = { b, s, gives, n, all, deadline(b, s) };
    enum plait_status status = PLAIT_OK;

    for (uint32_t i = 0; i < b->nrank * n; i++)
        all[i] = -1;
    if (b->rank != s->hub)
        return gives[b->rank] ? exchange(&h, mine) : PLAIT_OK;
    memcpy(all + b->rank * n, mine, n * sizeof *mine);
    if (b->nrank > 1)
        status = relay(&h);
    for (uint32_t i = 0; i < n; i++)
        all[b->rank * n + i] = -1;
    return status;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static void finish(struct plait_bootstrap *b)
{
    plait_star_finish(&b->star, b->nrank);
    plait_star_finish(&b->node, b->nrank);
    plait_nodes_finish(&b->nodes);
}

/* On this machine or over TCP, as the id says. */
static enum plait_status run_rendezvous(struct plait_bootstrap *b, const struct plait_unique_id *id,
                                        enum plait_status own)
{
    struct plait_rendezvous r;
    struct plait_tcp_id tcp;
    const char *name = (const char *)id->bytes;
    enum plait_status status = PLAIT_OK;

    b->tcp = plait_tcp_id_of(id, &tcp);
    r.tcp = b->tcp ? &tcp : NULL;
    if (b->tcp)
        status = plait_crypto_ready();
    else if (strncmp(name, PLAIT_ID_MACHINE, strlen(PLAIT_ID_MACHINE)) == 0 &&
             strnlen(name, sizeof id->bytes) < sizeof r.name.address.sun_path)
        r.name = plait_unix_name_make(name);
    else
        status = plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create() nor by "
                                           "plait_unique_id_create_tcp()");
    if (status != PLAIT_OK)
        return own != PLAIT_OK ? own : status;
    if (own == PLAIT_OK)
        own = plait_claim_make(id, b->rank, b->limit, &b->nodes.claim);
    status = plait_rendezvous_run(&r, b, own);
    if (status != PLAIT_OK)
        return status;
    status = plait_claim_check(&b->nodes.claim, b->rank);
    if (!b->launched) { /* the id is nobody else's */
        plait_descriptor_close(b->nodes.claim.fd);
        b->nodes.claim.fd = 0;
    }
    return b->tcp ? plait_node_find(b, id, status) : plait_bootstrap_agree(b, status);
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out)
{
    struct plait_bootstrap *b = malloc(sizeof *b), here;

    here = (struct plait_bootstrap){ .rank = rank,
                                     .nrank = nrank,
                                     .limit = seconds,
                                     .launched = nrank > 1 && id->bytes[sizeof id->bytes - 1] == PLAIT_ID_LAUNCHED,
                                     .star = { .root = -1 },
                                     .node = { .root = -1 },
                                     .nodes = { .n = 1 } };
    if (b == NULL && own == PLAIT_OK)
        own = plait_fail_memory("out of memory for the bootstrap");
    if (nrank > 1)
        own = run_rendezvous(&here, id, own);
    if (own != PLAIT_OK) {
        finish(&here);
        free(b);
        return own;
    }
    if (b != NULL)
        *b = here;
    *out = b;
    return PLAIT_OK;
}

void plait_bootstrap_destroy(struct plait_bootstrap *b)
{
    if (b != NULL)
        finish(b);
    free(b);
}

void plait_nodes_finish(struct plait_nodes *nodes)
{
    free(nodes->of);
    free(nodes->hosts);
    if (nodes->claim.fd > 0)
        plait_descriptor_close(nodes->claim.fd);
    *nodes = (struct plait_nodes){ 0 };
}

struct plait_nodes *plait_bootstrap_nodes(struct plait_bootstrap *b)
{
    return &b->nodes;
}

void plait_bootstrap_take_sockets(struct plait_bootstrap *b, int *fds)
{
    for (uint32_t r = 0; r < b->nrank; r++) {
        fds[r] = b->star.peers != NULL ? b->star.peers[r].fd : -1;
        if (fds[r] >= 0)
            b->star.peers[r].fd = -1;
    }
    if (b->rank > 0) {
        fds[0] = b->star.root;
        b->star.root = -1;
    }
}
