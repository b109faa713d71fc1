/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous of processes and threads of one machine, over a Unix socket in the abstract namespace.
 *
 * Every process of this user can connect, so rank 0 never waits for one connection. A connection counts only once it
 * has named its rank; at most PLAIT_MOST_LOCAL_CLIENTS others are open. If a connection closes before rank 0 has
 * acknowledged it, the rank connects again.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_MACHINE_H
#define PLAIT_LIB_BOOTSTRAP_MACHINE_H

#include "place.h"

#include <sys/socket.h>
#include <sys/un.h>

#define PLAIT_MOST_LOCAL_CLIENTS 16

struct plait_local_client { /* a connection that has not yet named its rank */
    int fd;                 /* -1: none */
    int pid;
    double since;
    size_t got; /* bytes received of `said` and `text` */
    struct plait_local_hello {
        uint32_t magic;
        struct plait_hello hello;
        int32_t status; /* the rank's verdict */
        uint32_t bytes; /* of `text` */
    } said;
    char text[sizeof((struct plait_error *)0)->text];
};

struct plait_machine_place {
    struct plait_place place;
    int listener;
    unsigned refused; /* connections */
    int stranger;     /* process of the last refused connection */
    struct plait_local_client clients[PLAIT_MOST_LOCAL_CLIENTS];
    struct sockaddr_un address;
    socklen_t length;
};

/* An abstract address. The name vanishes with the socket bound to it. */
socklen_t plait_abstract_address(const char *name, size_t n, struct sockaddr_un *out);

/* Does the peer of a Unix socket belong to this user? *pid is the peer's process. */
bool plait_is_this_user(int fd, int *pid);

/* `name`: n bytes, fewer than sun_path holds. */
void plait_machine_place_init(struct plait_machine_place *place, const char *name, size_t n);

#endif
