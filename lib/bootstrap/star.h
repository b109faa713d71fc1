/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's end of a star of sockets: everyone sends to rank 0, rank 0 answers all. */
#ifndef PLAIT_LIB_BOOTSTRAP_STAR_H
#define PLAIT_LIB_BOOTSTRAP_STAR_H

#include "bootstrap.h"
#include "frame.h"
#include "origin.h"

#include <poll.h>

#define PLAIT_TELL 1.0 /* seconds for one rank to take an error that fits in its socket */

struct plait_node;

struct plait_bootstrap {
    uint32_t rank, nrank;
    double limit;
    int root;             /* socket to rank 0; -1 on rank 0 */
    struct pollfd *peers; /* rank 0: socket of each rank, fd -1 when there is none; [0] is the listener. Else NULL */
    bool over;            /* failed, and everyone who could be reached knows why */
    bool launched;        /* the id is a launcher's that names no job: ranks of others may come (origin.h) */
    struct plait_origin origin;
    struct plait_origin *origins; /* rank 0: of each rank, while they meet */
    const uint32_t *names;        /* [nrank] what errors call the ranks; NULL: as they are */

    struct plait_nodes nodes;
    struct plait_node *node; /* over TCP: the ranks of this rank's node; NULL: all */
};

/* The rank as others know it. */
static inline uint32_t plait_star_name(const struct plait_bootstrap *b, uint32_t rank)
{
    return b->names != NULL ? b->names[rank] : rank;
}

/* Shut a connection down: closing alone would not end it while a child that was forked meanwhile has the socket too. */
void plait_hang_up(int fd);

/* Hang up on all. */
void plait_star_finish(struct plait_bootstrap *b);

/* plait_bootstrap_share() over this star, whose sockets are Unix sockets. */
enum plait_status plait_star_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n, int *all);

/* This rank's own error, as the others are told of it. */
struct plait_error plait_star_own_error(const struct plait_bootstrap *b, enum plait_status own);

/* Name the rank at the other end of a connection that failed. */
enum plait_status plait_star_blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status);

/* A frame of exactly `bytes` from `rank`, or the error it reports, whose text is recorded as it came. */
enum plait_status plait_star_read(const struct plait_bootstrap *b, uint32_t rank, void *data, size_t bytes,
                                  double until);

/*
 * Rank 0: wait until a peer (or the listener) has news, in revents. PLAIT_ERR_PEER: one is dead, whom the error names;
 * PLAIT_ERR_TIMEOUT: without a text.
 */
enum plait_status plait_star_poll(struct plait_bootstrap *b, double until);

/* Rank 0 gives up: everyone who is connected learns why. */
void plait_star_tell_all(struct plait_bootstrap *b, const struct plait_error *why);

#endif
