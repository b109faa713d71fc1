/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous: rank 0 is the server, the others are its clients. The server listens at a name on this machine, or on
 * the addresses of an id over TCP, on the first free one of its ports. Clients try all until the right rank 0 answers.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_RENDEZVOUS_H
#define PLAIT_LIB_BOOTSTRAP_RENDEZVOUS_H

#include "bootstrap.h"
#include "id.h"
#include "listener.h"
#include "unix.h"

/* ---- The star ------------------------------------------------------------------------------------------------- */

/*
 * One rank's end of a star of sockets, and the state of a bootstrap, which has one or two. In the first all ranks send
 * to rank 0, and rank 0 answers all. Over TCP there is one for each node, of Unix sockets, whose hub is a rank there.
 */
#define PLAIT_TELL 1.0 /* seconds to send or read one error, which fits into a socket's buffer */

struct plait_star {
    uint32_t hub;
    int root;             /* socket to the hub; -1 on the hub */
    struct pollfd *peers; /* hub: socket of each rank, fd -1: none. Else NULL */
    bool over;            /* failed, and every rank that could be reached knows why */
};

struct plait_bootstrap {
    uint32_t rank, nrank;
    double limit;
    bool tcp;
    bool launched; /* the id is made from a launcher's variables: ranks of another job may connect */
    struct plait_star star, node;
    struct plait_nodes nodes;
};

/* shutdown() and close. close() alone does not end the connection while a forked child holds the socket, too. */
void plait_hang_up(int fd);

/* Hang up on the hub or on all peers; no star is left. */
void plait_star_finish(struct plait_star *s, uint32_t nrank);

/* This rank's own error, with the rank in front, to send to the others. */
struct plait_error plait_star_own_error(const struct plait_bootstrap *b, enum plait_status own);

/* The error of a failed connection, which names the rank at the other end. */
enum plait_status plait_star_blame(const struct plait_bootstrap *b, uint32_t rank, enum plait_status status);

/* Read a frame of exactly `bytes` from `rank`, or the error that it reports, whose text is recorded unchanged. */
enum plait_status plait_star_read(const struct plait_bootstrap *b, const struct plait_star *s, uint32_t rank,
                                  void *data, size_t bytes, double until);

/* This rank gives up: all that it is connected to learn why, once. */
void plait_star_tell_all(struct plait_star *s, uint32_t nrank, const struct plait_error *why);

/*
 * After a rendezvous over TCP: find which ranks share a node, that is, can pass each other a descriptor. Collective;
 * ranks with an error in `own` call it too. On success b->node and b->nodes are set.
 */
enum plait_status plait_node_find(struct plait_bootstrap *b, const struct plait_unique_id *id, enum plait_status own);

/* ---- The rendezvous ------------------------------------------------------------------------------------------- */

struct plait_rendezvous {
    const struct plait_tcp_id *tcp; /* NULL: on one machine, at `name` */
    struct plait_unix_name name;
    struct plait_listener listener; /* of the server; no memory is allocated for it */
    bool untold;                    /* it failed with an error that this rank could tell nobody yet */
};

/* On success the star is complete; an error is known to all ranks that could be reached. */
enum plait_status plait_rendezvous_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own);

/* The error of a rank whose wait for rank 0 is over. */
enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why);

/*
 * Over TCP: listen on all addresses of the id that this host has. Returns 0 or an errno. EBUSY: other programs have all
 * the ports. EADDRNOTAVAIL: no address is this host's.
 */
int plait_tcp_listen(const struct plait_tcp_id *id, double until, struct plait_listener *listener);

/* Over TCP: find rank 0. *out is the socket, -1 after an error, and `h` is complete. PLAIT_ERR_TIMEOUT has a text. */
enum plait_status plait_tcp_find(const struct plait_tcp_id *id, const struct plait_bootstrap *b, double until,
                                 struct plait_handshake *h, int *out);

#endif
