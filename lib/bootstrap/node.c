/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share a node. Every rank tries to bind an abstract name derived from the id. In each network namespace
 * one rank gets the name and leads the node. The others connect to the leader, which becomes the hub of a second star.
 */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "unix.h"

#include <errno.h>
#include <stdlib.h>

#define CONNECT_LIMIT 10.0 /* seconds for the leader, which has bound the name, to listen */

struct view { /* what each rank sends to all */
    uint32_t leader;
    struct plait_hosts hosts;
    union plait_address from, to; /* local and remote address of the connection to rank 0; of no family on rank 0 */
};

struct finding { /* one rank's state while it finds its node */
    struct plait_bootstrap *b;
    struct view own, *all; /* [nrank] */
    int listener;          /* leader; else -1 */
    struct plait_config config;
};

/* ---- Before the first allgather: leaders listen, the others have sent their ranks ------------------------------ */

static enum plait_status connect_to_leader(struct finding *f, const struct plait_unix_name *name)
{
    static const char whom[] = "the first rank of this node";
    const double until = plait_clock() + CONNECT_LIMIT;
    enum plait_status status = plait_unix_connect(name, until, whom, &f->b->node.root);
    struct plait_error why;

    if (status == PLAIT_OK)
        status = plait_frame_send(f->b->node.root, &f->b->rank, sizeof f->b->rank, until);
    if (status != PLAIT_ERR_PEER && status != PLAIT_ERR_TIMEOUT)
        return status;
    /* It may have left because a rank has failed. Rank 0 says so, and sends nothing else before this rank's message. */
    if (f->b->rank > 0 && plait_frame_read(f->b->star.root, NULL, 0, plait_clock() + PLAIT_TELL, &why) == PLAIT_OK &&
        why.status != PLAIT_OK)
        return plait_restore_error(&why);
    return plait_fail(PLAIT_ERR_PEER, "comm creation: %s left or died", whom);
}

static enum plait_status find_leader(struct finding *f, const struct plait_unique_id *id)
{
    const struct plait_unix_name name = plait_unix_name_of(id, "node");

    f->listener = plait_listen((const struct sockaddr *)&name.address, name.length);
    if (f->listener < 0)
        return errno == EADDRINUSE ? connect_to_leader(f, &name)
                                   : plait_fail_errno(errno, "comm creation: a socket inside the node");
    f->own.leader = f->b->rank;
    f->b->node.peers = malloc(f->b->nrank * sizeof *f->b->node.peers);
    if (f->b->node.peers == NULL)
        return plait_fail_memory("out of memory for %u ranks", f->b->nrank);
    for (uint32_t r = 0; r < f->b->nrank; r++)
        f->b->node.peers[r].fd = -1;
    return PLAIT_OK;
}

static enum plait_status prepare(struct finding *f, const struct plait_unique_id *id)
{
    const uint32_t n = f->b->nrank;
    struct plait_nodes *nodes = &f->b->nodes;
    enum plait_status status = plait_config_load(&f->config);

    if (status == PLAIT_OK)
        status = plait_hosts_find(f->config.ifname, &f->own.hosts);
    if (status != PLAIT_OK)
        return status;
    getsockname(f->b->star.root, &f->own.from.any, &(socklen_t){ sizeof f->own.from }); /* fail on rank 0 */
    getpeername(f->b->star.root, &f->own.to.any, &(socklen_t){ sizeof f->own.to });
    nodes->of = malloc(n * sizeof *nodes->of);
    nodes->hosts = malloc(n * sizeof *nodes->hosts);
    f->all = malloc(n * sizeof *f->all);
    if (nodes->of == NULL || nodes->hosts == NULL || f->all == NULL)
        return plait_fail_memory("out of memory for %u ranks", n);
    return find_leader(f, id);
}

/* ---- Before the second: leaders know which ranks share their nodes --------------------------------------------- */

/* One connection of the backlog, whose rank was sent before the first allgather. Strangers are dropped. */
static enum plait_status receive_one(struct finding *f, int fd)
{
    uint32_t rank;
    int pid;

    if (plait_is_this_user(fd, &pid) &&
        plait_frame_receive(fd, &rank, sizeof rank, plait_clock() + PLAIT_TELL) == PLAIT_OK && rank < f->b->nrank &&
        rank != f->b->rank && f->b->node.peers[rank].fd < 0) {
        f->b->node.peers[rank].fd = fd;
        return plait_frame_send(fd, &f->b->rank, sizeof f->b->rank, plait_clock() + PLAIT_TELL);
    }
    plait_hang_up(fd);
    return PLAIT_OK;
}

static enum plait_status receive_all(struct finding *f)
{
    enum plait_status status = PLAIT_OK;

    while (status == PLAIT_OK || status == PLAIT_ERR_PEER) { /* rank 0 notices a rank that has left */
        const int fd = plait_descriptor_keep(accept4(f->listener, NULL, NULL, SOCK_CLOEXEC), PLAIT_FOR_RANKS);
        if (fd < 0 && errno == EAGAIN)
            return PLAIT_OK;
        if (fd >= 0)
            status = receive_one(f, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return plait_fail_errno(errno, "comm creation: accepting the ranks of this node");
    }
    return status;
}

/* ---- After the second ---------------------------------------------------------------------------------------- */

/* All ranks check the same data, so all come to the same result. */
static enum plait_status check_leaders(const struct finding *f)
{
    for (uint32_t r = 0; r < f->b->nrank; r++)
        if (f->all[r].leader >= f->b->nrank)
            return plait_fail(PLAIT_ERR_PEER, "comm creation: rank %u and the first rank of its node did not connect",
                              r);
    return PLAIT_OK;
}

/* Ranks with the same leader share a node. */
static void number_nodes(struct finding *f)
{
    struct plait_nodes *nodes = &f->b->nodes;

    nodes->n = 0;
    for (uint32_t r = 0; r < f->b->nrank; r++) {
        const uint32_t leader = f->all[r].leader;
        uint32_t first = 0;
        while (first < r && f->all[first].leader != leader)
            first++;
        nodes->of[r] = first < r ? nodes->of[first] : nodes->n;
        if (first == r)
            nodes->hosts[nodes->n++] = f->all[r].hosts;
    }
}

/*
 * Data uses addresses that are known to work. On rank 0's node these are the ones at which ranks of other nodes reached
 * rank 0; on another node, the ones from which its own ranks did.
 */
static void find_devices(struct finding *f)
{
    const uint32_t *of = f->b->nodes.of;
    const bool with_rank_0 = of[f->b->rank] == of[0];
    struct plait_hosts met = { { 0 } };

    for (uint32_t r = 1; r < f->b->nrank; r++)
        if (with_rank_0 ? of[r] != of[0] : of[r] == of[f->b->rank])
            plait_hosts_add(&met, with_rank_0 ? &f->all[r].to.any : &f->all[r].from.any);
    if (f->b->nodes.n > 1)
        plait_hosts_devices(f->config.ifname, &met, f->b->nodes.devices);
}

enum plait_status plait_node_find(struct plait_bootstrap *b, const struct plait_unique_id *id, enum plait_status own)
{
    struct finding f = { .b = b, .own.leader = UINT32_MAX, .listener = -1 };

    if (own == PLAIT_OK)
        own = prepare(&f, id);
    own = plait_bootstrap_agree(b, own);
    if (own == PLAIT_OK) {
        if (f.listener >= 0)
            own = receive_all(&f);
        else if (plait_frame_receive(b->node.root, &f.own.leader, sizeof f.own.leader, plait_clock() + b->limit) !=
                 PLAIT_OK)
            f.own.leader = UINT32_MAX; /* the leader has failed, and reports this in the next allgather */
        own = plait_bootstrap_allgather(b, own, &f.own, sizeof f.own, f.all);
    }
    if (own == PLAIT_OK)
        own = check_leaders(&f);
    if (own == PLAIT_OK) {
        number_nodes(&f);
        find_devices(&f);
        b->node.hub = f.own.leader;
    }
    plait_hang_up(f.listener);
    free(f.all);
    return own;
}
