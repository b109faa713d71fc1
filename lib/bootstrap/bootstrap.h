/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room bootstrap: how ranks find each other before they can communicate.
 *
 * It has unique ids, connections over Unix sockets and TCP, a few small messages between all ranks, and the exchange
 * of descriptors on one host. meeting.c is rank 0 as the server and the others as its clients; machine.c and tcp.c
 * are the two places where they meet. origin.c tells the jobs on one host apart; crypto.c and secret.c say who may
 * come in.
 *
 * Every call is collective and ends: in success, or within the time limit in an error that names who is missing and
 * that every rank still there gets. A rank with an error of its own takes part in the next call all the same and
 * gives the error as its verdict (`own`). The others get it as their result, with the rank named, and the meeting is
 * over. No call but the first allocates memory, so a rank without any can still say so.
 *
 * Bootstrap does not know communicators or collectives.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_H
#define PLAIT_LIB_BOOTSTRAP_H

#include "hosts.h"
#include "origin.h"

#include <plait/comm.h>

#include <stdbool.h>

struct plait_bootstrap; /* one rank's connection */

/*
 * Meet at the id's place. `seconds` limits this and every later call. A rank whose `own` is an error, and any rank 0
 * that fails, stays for at most a few seconds to tell those who come; rank 0 that hears of a death, for half of one.
 */
enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out);
void plait_bootstrap_destroy(struct plait_bootstrap *b);

/* all[r*bytes ..] = rank r's `mine`, on every rank; or the first verdict that is an error. */
enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, enum plait_status own, const void *mine,
                                            size_t bytes, void *all);

#define PLAIT_MOST_SHARED 4
#define PLAIT_COMM_SHARES 2 /* of each process of a comm: its arena, and what shows its death */

/*
 * Descriptors of every rank that gives some, to every rank of its node that gives some (not its own).
 *
 * gives  [nrank] the ranks that give, equal on all; at least one on each node with several ranks
 * mine   the n descriptors this rank gives, if it does
 * n      how many each giving rank gives, equal on all; at most PLAIT_MOST_SHARED
 * all    [nrank][n] new descriptors of the others, to be closed by the caller; -1 where there is none, after an
 *        error too. The caller's next call takes the result as its `own`.
 */
enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n,
                                        int *all);

/* Which ranks share a node: those that can pass each other descriptors. Nodes are numbered by their first ranks. */
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

/* The addresses of a rank's host, which plait_unique_id_derive() takes of a new rank 0. */
static inline const struct plait_hosts *plait_hosts_of(const struct plait_nodes *nodes, uint32_t rank)
{
    return nodes->hosts != NULL ? &nodes->hosts[plait_node_of(nodes, rank)] : NULL;
}

void plait_nodes_finish(struct plait_nodes *nodes); /* may be zeroed */

/* They live as long as the bootstrap, or become the caller's, who calls plait_nodes_finish(). */
const struct plait_nodes *plait_bootstrap_nodes(const struct plait_bootstrap *b);
struct plait_nodes plait_bootstrap_take_nodes(struct plait_bootstrap *b);

/*
 * The sockets of the star become the caller's, who closes them: rank 0 has one to each rank, at [rank]; the others
 * theirs to rank 0, at [0]. The rest of fds [nrank] is -1. Over TCP they do not block and send at once (TCP_NODELAY).
 * No other call but destroy may follow.
 */
void plait_bootstrap_take_sockets(struct plait_bootstrap *b, int *fds);

/* Did every rank succeed? */
static inline enum plait_status plait_bootstrap_agree(struct plait_bootstrap *b, enum plait_status own)
{
    return plait_bootstrap_allgather(b, own, NULL, 0, NULL);
}

#endif
