/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room bootstrap: how ranks find each other before they can communicate.
 *
 * The room has unique ids, connections over Unix sockets and TCP, small allgathers, and the exchange of descriptors on
 * one host. In rendezvous.h ranks meet: rank 0 is the server, the others are its clients. unix.c tells the jobs on one
 * host apart; listener.c and id.c authenticate ranks.
 *
 * The room promises: every call is collective and ends within the time limit. It succeeds, or every rank that is still
 * there gets an error that names the missing ranks. A rank with an error of its own still takes part in the next call
 * and passes the error as `own`. The others get that error as their result, with the rank named, and the bootstrap is
 * over. Only the first call allocates memory, so a rank without memory can still report this.
 *
 * Bootstrap does not know communicators or collectives.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_BOOTSTRAP_H
#define PLAIT_LIB_BOOTSTRAP_BOOTSTRAP_H

#include "hosts.h"
#include "unix.h"

#include <plait/comm.h>

#include <stdbool.h>

struct plait_bootstrap; /* one rank's connection */

/*
 * Run the rendezvous at the id's name or addresses. `seconds` limits this call and every later one. A rank whose `own`
 * is an error, and a rank 0 that fails, stays up to 20 s to tell ranks that still connect. After a death rank 0 stays
 * 0.5 s.
 */
enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out);
void plait_bootstrap_destroy(struct plait_bootstrap *b);

/* all[r*bytes ..] = rank r's `mine`, on every rank; or the first error among the ranks' `own`. */
enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, enum plait_status own, const void *mine,
                                            size_t bytes, void *all);

/* data [bytes] of rank 0, on every rank. `bytes` is equal on all. */
enum plait_status plait_bootstrap_broadcast(struct plait_bootstrap *b, enum plait_status own, void *data, size_t bytes);

#define PLAIT_COMM_SHARES 2 /* per process of a comm: its arena, and a descriptor that shows its death */

/*
 * Exchange descriptors between the ranks of each node that give some. A rank does not get its own.
 *
 * gives  [nrank] the ranks that give, equal on all; at least one on each node with several ranks
 * mine   the n descriptors of this rank, if it gives
 * n      descriptors of each giving rank, equal on all
 * all    [nrank][n] new descriptors of the others, which the caller closes; -1: none, also after an error. The
 *        caller passes the result as `own` to its next call.
 */
enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n,
                                        int *all);

/* Which ranks share a node, that is, can pass each other descriptors. Nodes are numbered by their first ranks. */
struct plait_nodes {
    uint32_t n;
    uint32_t *of;                     /* [nrank] node of each rank; NULL: all on node 0 */
    struct plait_hosts *hosts;        /* [n] addresses of each node's host; NULL: not over TCP */
    char devices[PLAIT_DEVICES_TEXT]; /* this host's interfaces for data to other nodes; "": not known */
    struct plait_rank_claim claim;    /* of this rank */
};

static inline uint32_t plait_node_of(const struct plait_nodes *nodes, uint32_t rank)
{
    return nodes->of != NULL ? nodes->of[rank] : 0;
}

/* The addresses of a rank's host: `root` of plait_unique_id_derive() if this rank becomes rank 0. */
static inline const struct plait_hosts *plait_hosts_of(const struct plait_nodes *nodes, uint32_t rank)
{
    return nodes->hosts != NULL ? &nodes->hosts[plait_node_of(nodes, rank)] : NULL;
}

void plait_nodes_finish(struct plait_nodes *nodes); /* may be zeroed */

/* Valid as long as the bootstrap. A caller may move them: it zeroes the original and finishes the copy. */
struct plait_nodes *plait_bootstrap_nodes(struct plait_bootstrap *b);

/*
 * Move the star's sockets to the caller, which closes them. Rank 0 gets its socket to rank r at [r]; the others get
 * theirs to rank 0 at [0]. The rest of fds [nrank] is -1. Over TCP the sockets do not block and send at once
 * (TCP_NODELAY). No other call but destroy may follow.
 */
void plait_bootstrap_take_sockets(struct plait_bootstrap *b, int *fds);

/* Did every rank succeed? */
static inline enum plait_status plait_bootstrap_agree(struct plait_bootstrap *b, enum plait_status own)
{
    return plait_bootstrap_allgather(b, own, NULL, 0, NULL);
}

#endif
