/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's end of a star of sockets: all ranks send to rank 0, rank 0 answers all. */
#ifndef PLAIT_LIB_BOOTSTRAP_STAR_H
#define PLAIT_LIB_BOOTSTRAP_STAR_H

#include "bootstrap.h"
#include "frame.h"
#include "origin.h"

#include <poll.h>

#define PLAIT_TELL 1.0 /* seconds to send or read one error, which fits into a socket's buffer */

struct plait_node;

struct plait_bootstrap {
    uint32_t rank, nrank;
    double limit;
    int root;             /* socket to rank 0; -1 on rank 0 */
    struct pollfd *peers; /* rank 0: socket of each rank, fd -1: none; [0] is the listener. Else NULL */
    bool over;            /* failed, and every rank that could be reached knows why */
    bool launched;        /* from a launcher that names no job: ranks of another job may connect (origin.h) */
    struct plait_origin origin;
    struct plait_origin *origins; /* rank 0: of each rank, during the rendezvous */
    const uint32_t *names;        /* [nrank] the ranks' numbers in error texts; NULL: 0, 1, ... */

    struct plait_nodes nodes;
    struct plait_node *node; /* over TCP: the ranks of this rank's node; NULL: all */
};

/* shutdown() and close. close() alone does not end the connection while a forked child holds the socket, too. */
void plait_hang_up(int fd);

/* Hang up on all peers. */
void plait_star_finish(struct plait_bootstrap *b);

/* plait_bootstrap_share() over this star, whose sockets are Unix sockets. */
enum plait_status plait_star_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all);

/* This rank's own error, with the rank in front, to send to the others. */
struct plait_error plait_star_own_error(const struct plait_bootstrap *b, enum plait_status own);

/* The error of a failed connection, which names the rank at the other end. */
enum plait_status plait_star_blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status);

/* Read a frame of exactly `bytes` from `rank`, or the error that it reports, whose text is recorded unchanged. */
enum plait_status plait_star_read(const struct plait_bootstrap *b, uint32_t rank, void *data, size_t bytes,
                                  double until);

/*
 * Rank 0: wait for an event of a peer or the listener, in revents. PLAIT_ERR_PEER: a rank is dead, and the error names
 * it. PLAIT_ERR_TIMEOUT: no text is recorded.
 */
enum plait_status plait_star_poll(struct plait_bootstrap *b, double until);

/* Rank 0 gives up: all connected ranks learn why. */
void plait_star_tell_all(struct plait_bootstrap *b, const struct plait_error *why);

#endif
