/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous: rank 0 is the server, the others are its clients. The server listens at a name on this machine, or on
 * the addresses of an id over TCP, on the first free one of its ports. Clients try all until the right rank 0 answers.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_RENDEZVOUS_H
#define PLAIT_LIB_BOOTSTRAP_RENDEZVOUS_H

#include "id.h"
#include "listener.h"
#include "star.h"
#include "unix.h"

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
