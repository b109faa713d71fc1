/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of a meeting over TCP share a node: those that can pass each other a descriptor.
 *
 * Every rank tries to take an abstract name that follows from the id. Who gets it, in its network name space, leads the
 * node; the others connect to it and pass a descriptor. The connections stay, as a star of their own in which the
 * leader is first, until the bootstrap is destroyed.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_NODE_H
#define PLAIT_LIB_BOOTSTRAP_NODE_H

#include "id.h"
#include "star.h"

struct plait_node {
    uint32_t *members; /* [star.nrank] this node's ranks, its leader first, then in order */
    bool *gives;       /* [star.nrank] plait_bootstrap_share()'s arrays of these ranks only */
    int *fds;          /* [star.nrank * PLAIT_MOST_SHARED] */
    struct plait_bootstrap star;
};

/* Collective, also over ranks with an error of their own. On success b->node and b->nodes are set. */
enum plait_status plait_node_find(struct plait_bootstrap *b, const struct plait_tcp_id *id, enum plait_status own);
void plait_node_destroy(struct plait_node *node);

/* plait_bootstrap_share() inside the node. */
enum plait_status plait_node_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all);

#endif
