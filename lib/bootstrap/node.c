/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "unix.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_LIMIT 10.0 /* seconds for the leader, which has bound the name, to listen */

struct view { /* what each rank sends to all */
    uint32_t leader;
    struct plait_hosts hosts;
    struct plait_hosts from, to; /* local and remote address of the connection to rank 0; empty on rank 0 */
};

struct finding { /* one rank's state while it finds its node */
    struct plait_bootstrap *b;
    struct plait_node *node;
    struct plait_nodes nodes;
    struct view own, *all; /* [nrank] */
    int *fds;              /* [nrank] leader: connection to each rank of the node; else -1 */
    int listener;          /* leader; else -1 */
    int upward;            /* the others: connection to the leader */
    char ifname[sizeof((struct plait_config *)0)->ifname];
};

/* ---- Before the first allgather: leaders listen, the others have sent their ranks ------------------------------ */

static enum plait_status connect_to_leader(struct finding *f, const struct plait_unix_name *name)
{
    const double until = plait_clock() + CONNECT_LIMIT;
    int pid = 0;
    enum plait_status status = plait_unix_connect(name, until, &f->upward, &pid);

    if (status == PLAIT_ERR_PEER)
        return plait_fail(
            PLAIT_ERR_SYSTEM,
            "comm creation: another user's process (%d) has the name by which the ranks of this node meet", pid);
    if (status == PLAIT_ERR_TIMEOUT)
        return plait_fail(status, "comm creation: the first rank of this node did not listen within %g s",
                          CONNECT_LIMIT);
    if (status == PLAIT_OK)
        status = plait_frame_write(f->upward, &f->b->rank, sizeof f->b->rank, until);
    return status == PLAIT_ERR_PEER || status == PLAIT_ERR_TIMEOUT
               ? plait_fail(PLAIT_ERR_PEER, "comm creation: the first rank of this node (process %d) left or died", pid)
               : status;
}

static enum plait_status find_leader(struct finding *f, const struct plait_tcp_id *id)
{
    unsigned char hash[PLAIT_MAC_BYTES];
    char text[64];

    plait_mac(id->secret, "node", NULL, 0, hash);
    snprintf(text, sizeof text, "plait1-node-%016llx%016llx", *(unsigned long long *)(void *)hash,
             *(unsigned long long *)(void *)(hash + 8));
    const struct plait_unix_name name = plait_unix_name_make(text);
    f->listener = plait_unix_socket(SOCK_NONBLOCK);
    if (f->listener < 0)
        return plait_fail_errno(errno, "comm creation: a socket inside the node");
    if (plait_unix_listen(&name, f->listener)) {
        f->own.leader = f->b->rank;
        return PLAIT_OK;
    }
    const int error = errno;
    plait_descriptor_close(f->listener);
    f->listener = -1;
    return error == EADDRINUSE ? connect_to_leader(f, &name)
                               : plait_fail_errno(error, "comm creation: a name inside the node");
}

static void note_ends(int fd, struct view *own)
{
    union plait_address a;
    socklen_t n = sizeof a;

    if (fd >= 0 && getsockname(fd, &a.any, &n) == 0)
        plait_hosts_add(&own->from, &a.any);
    n = sizeof a;
    if (fd >= 0 && getpeername(fd, &a.any, &n) == 0)
        plait_hosts_add(&own->to, &a.any);
}

static enum plait_status prepare(struct finding *f, const struct plait_tcp_id *id)
{
    struct plait_config config;
    const uint32_t n = f->b->nrank;
    enum plait_status status = plait_config_load(&config);

    if (status == PLAIT_OK)
        status = plait_hosts_find(config.ifname, &f->own.hosts);
    if (status != PLAIT_OK)
        return status;
    snprintf(f->ifname, sizeof f->ifname, "%s", config.ifname);
    note_ends(f->b->root, &f->own);
    f->node = calloc(1, sizeof *f->node);
    f->nodes.of = malloc(n * sizeof *f->nodes.of);
    f->nodes.hosts = malloc(n * sizeof *f->nodes.hosts);
    f->all = malloc(n * sizeof *f->all);
    f->fds = malloc(n * sizeof *f->fds);
    for (uint32_t r = 0; f->fds != NULL && r < n; r++)
        f->fds[r] = -1;
    if (f->node != NULL) {
        f->node->star.root = -1;
        f->node->members = malloc(n * sizeof *f->node->members);
        f->node->gives = malloc(n * sizeof *f->node->gives);
        f->node->fds = malloc(n * PLAIT_MOST_SHARED * sizeof *f->node->fds);
        f->node->star.peers = malloc(n * sizeof *f->node->star.peers);
    }
    if (f->nodes.of == NULL || f->nodes.hosts == NULL || f->all == NULL || f->fds == NULL || f->node == NULL ||
        f->node->members == NULL || f->node->gives == NULL || f->node->fds == NULL || f->node->star.peers == NULL)
        return plait_fail_memory("out of memory for %u ranks", n);
    return find_leader(f, id);
}

/* ---- Before the second: leaders know which ranks share their nodes --------------------------------------------- */

/* One connection of the backlog, whose rank was sent before the first allgather. Strangers are dropped. */
static enum plait_status receive_one(struct finding *f, int fd)
{
    struct plait_error error;
    uint32_t rank;
    int pid;

    if (plait_is_this_user(fd, &pid) &&
        plait_frame_read(fd, &rank, sizeof rank, plait_clock() + PLAIT_TELL, &error) == PLAIT_OK &&
        error.status == PLAIT_OK && rank < f->b->nrank && rank != f->b->rank && f->fds[rank] < 0) {
        f->fds[rank] = fd;
        return plait_frame_write(fd, &f->b->rank, sizeof f->b->rank, plait_clock() + PLAIT_TELL);
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

/* Read the leader's rank. A leader that sends none has failed, and reports this in the next allgather. */
static void read_leader(struct finding *f)
{
    const double until = plait_clock() + f->b->limit;
    struct plait_error error;

    if (plait_frame_read(f->upward, &f->own.leader, sizeof f->own.leader, until, &error) != PLAIT_OK ||
        error.status != PLAIT_OK)
        f->own.leader = UINT32_MAX;
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
    struct plait_nodes *nodes = &f->nodes;

    for (uint32_t r = 0; r < f->b->nrank; r++) {
        const uint32_t leader = f->all[r].leader;
        uint32_t first = 0;
        while (first < r && f->all[first].leader != leader)
            first++;
        nodes->of[r] = first < r ? nodes->of[first] : nodes->n;
        if (first == r)
            nodes->hosts[nodes->n++] = f->all[r].hosts;
    }
    struct plait_hosts *fewer = realloc(nodes->hosts, nodes->n * sizeof *fewer);
    nodes->hosts = fewer != NULL ? fewer : nodes->hosts;
}

static void add_all(struct plait_hosts *to, const struct plait_hosts *from)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];

    for (unsigned i = 0, n = plait_hosts_list(from, 1, all); i < n; i++)
        plait_hosts_add(to, &all[i].any);
}

/*
 * Data uses addresses that are known to work. On rank 0's node these are the ones at which ranks of other nodes reached
 * rank 0; on another node, the ones from which its own ranks did.
 */
static void find_devices(struct finding *f)
{
    const uint32_t *of = f->nodes.of;
    const bool with_rank_0 = of[f->b->rank] == of[0];
    struct plait_hosts met = { { 0 } };

    for (uint32_t r = 1; r < f->b->nrank; r++)
        if (with_rank_0 ? of[r] != of[0] : of[r] == of[f->b->rank])
            add_all(&met, with_rank_0 ? &f->all[r].to : &f->all[r].from);
    if (f->nodes.n > 1)
        plait_hosts_devices(f->ifname, &met, f->nodes.devices);
}

static void make_star(struct finding *f)
{
    struct plait_node *node = f->node;
    struct plait_bootstrap *s = &node->star;

    node->members[s->nrank++] = f->own.leader;
    for (uint32_t r = 0; r < f->b->nrank; r++)
        if (r != f->own.leader && f->nodes.of[r] == f->nodes.of[f->b->rank])
            node->members[s->nrank++] = r;
    for (uint32_t i = 0; i < s->nrank; i++) {
        s->rank = node->members[i] == f->b->rank ? i : s->rank;
        s->peers[i] = (struct pollfd){ .fd = f->fds[node->members[i]], .events = POLLIN };
        f->fds[node->members[i]] = -1;
    }
    s->names = node->members;
    s->limit = f->b->limit;
    s->root = f->upward;
    f->upward = -1;
    if (s->rank > 0) {
        free(s->peers);
        s->peers = NULL;
    }
}

static void end_finding(struct finding *f)
{
    for (uint32_t r = 0; f->fds != NULL && r < f->b->nrank; r++)
        plait_hang_up(f->fds[r]);
    plait_hang_up(f->listener);
    plait_hang_up(f->upward);
    free(f->fds);
    free(f->all);
    plait_nodes_finish(&f->nodes);
    plait_node_destroy(f->node);
}

enum plait_status plait_node_find(struct plait_bootstrap *b, const struct plait_tcp_id *id, enum plait_status own)
{
    struct finding f = { .b = b, .own.leader = UINT32_MAX, .listener = -1, .upward = -1 };

    if (own == PLAIT_OK)
        own = prepare(&f, id);
    own = plait_bootstrap_agree(b, own);
    if (own == PLAIT_OK) {
        if (f.listener >= 0)
            own = receive_all(&f);
        else
            read_leader(&f);
        own = plait_bootstrap_allgather(b, own, &f.own, sizeof f.own, f.all);
    }
    if (own == PLAIT_OK)
        own = check_leaders(&f);
    if (own == PLAIT_OK) {
        number_nodes(&f);
        find_devices(&f);
        make_star(&f);
        b->node = f.node;
        f.nodes.claim = b->nodes.claim;
        b->nodes = f.nodes;
        f.node = NULL;
        f.nodes = (struct plait_nodes){ 0 };
    }
    end_finding(&f);
    return own;
}

void plait_node_destroy(struct plait_node *node)
{
    if (node == NULL)
        return;
    plait_star_finish(&node->star);
    free(node->members);
    free(node->gives);
    free(node->fds);
    free(node);
}

/* ---- Descriptors inside the node -------------------------------------------------------------------------------- */

enum plait_status plait_node_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all)
{
    struct plait_node *node = b->node;

    assert(n <= PLAIT_MOST_SHARED);
    for (uint32_t i = 0; i < b->nrank * n; i++)
        all[i] = -1;
    for (uint32_t i = 0; i < node->star.nrank; i++)
        node->gives[i] = gives[node->members[i]];
    const enum plait_status status = plait_star_share(&node->star, node->gives, mine, n, node->fds);
    for (uint32_t i = 0; i < node->star.nrank; i++)
        memcpy(all + node->members[i] * n, node->fds + i * n, n * sizeof *all);
    return status;
}
