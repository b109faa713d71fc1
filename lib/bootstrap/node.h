/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of a rendezvous over TCP share a node, that is, can pass each other a descriptor.
 *
 * Every rank tries to bind an abstract name derived from the id. In each network namespace one rank gets the name and
 * leads the node. The others connect to the leader. The connections stay until the bootstrap is destroyed, as a second
 * star whose rank 0 is the leader.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_NODE_H
#define PLAIT_LIB_BOOTSTRAP_NODE_H

#include "id.h"
#include "star.h"

struct plait_node {
    uint32_t *members; /* [star.nrank] this node's ranks, its leader first, then in order */
    bool *gives;       /* [star.nrank] plait_bootstrap_share()'s arrays, for these ranks only */
    int *fds;          /* [star.nrank * PLAIT_MOST_SHARED] */
    struct plait_bootstrap star;
};

/* Collective; ranks with an error in `own` call it too. On success b->node and b->nodes are set. */
enum plait_status plait_node_find(struct plait_bootstrap *b, const struct plait_tcp_id *id, enum plait_status own);
void plait_node_destroy(struct plait_node *node);

/* plait_bootstrap_share() inside the node. */
enum plait_status plait_node_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all);

#endif
