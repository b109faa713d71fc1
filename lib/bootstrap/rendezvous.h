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
    struct plait_listener listener; /* of the server */
};

/* On success the star is complete; an error is known to all ranks that could be reached. */
enum plait_status plait_rendezvous_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own);

/* The error of a rank whose wait for rank 0 is over. */
enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why);

/* ---- Between its files ----------------------------------------------------------------------------------------- */

enum plait_status plait_server_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own);

/* Returns 0 or an errno; plait_tcp_listen() has the meanings. */
int plait_server_listen(struct plait_rendezvous *r, double until);

/*
 * Tell ranks that still connect why the rendezvous has failed. *told: how many know. False: this process has no
 * descriptor to accept them.
 */
bool plait_server_refuse(const struct plait_bootstrap *b, struct plait_listener *l, uint32_t *told,
                         const struct plait_error *why, double until);

/* The clients' side. A second rank 0 is a client, too. */
enum plait_status plait_rendezvous_attend(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own);

/* Seconds that a failed rank tells others why: at most the time for which it would have waited for them. */
double plait_rendezvous_linger(const struct plait_bootstrap *b, enum plait_status why);

/* Tell the others without a free descriptor; fail_apart: of this rank's own error, which is returned. */
void plait_rendezvous_tell_apart(struct plait_rendezvous *r, struct plait_bootstrap *b, uint32_t told,
                                 const struct plait_error *why);
enum plait_status plait_rendezvous_fail_apart(struct plait_rendezvous *r, struct plait_bootstrap *b,
                                              enum plait_status status);

/* ---- Over TCP ------------------------------------------------------------------------------------------------- */

/*
 * Listen on all addresses of the id that this host has. Returns 0 or an errno. EADDRINUSE: another rank 0 of this id
 * listens on one. EBUSY: other programs have all the ports. EADDRNOTAVAIL: no address is this host's.
 */
int plait_tcp_listen(const struct plait_tcp_id *id, double until, struct plait_listener *listener);

/* Find rank 0. *out is the socket, -1 after an error, and `h` is complete. PLAIT_ERR_TIMEOUT has a text, too. */
enum plait_status plait_tcp_find(const struct plait_tcp_id *id, const struct plait_bootstrap *b, double until,
                                 struct plait_handshake *h, int *out);

#endif
