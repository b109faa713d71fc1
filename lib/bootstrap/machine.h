/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads of one machine, over a Unix socket in the abstract name space.
 *
 * Every process of this user can connect. So rank 0 never waits for one connection: a connection counts only once it
 * has said which rank it is, and at most PLAIT_MOST_LOCAL_GUESTS others are open. A rank whose connection was closed
 * before rank 0 has acknowledged it comes again.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_MACHINE_H
#define PLAIT_LIB_BOOTSTRAP_MACHINE_H

#include "place.h"

#include <sys/socket.h>
#include <sys/un.h>

#define PLAIT_MOST_LOCAL_GUESTS 16

struct plait_local_guest { /* a connection that has not yet said which rank it is */
    int fd;                /* -1: none */
    int pid;
    double since;
    size_t got; /* bytes of `said` and the text */
    struct plait_local_hello {
        uint32_t magic;
        struct plait_hello hello;
        int32_t status; /* the rank's verdict */
        uint32_t bytes; /* of its text */
    } said;
    char text[sizeof((struct plait_error *)0)->text];
};

struct plait_machine_place {
    struct plait_place place;
    int listener;
    unsigned refused; /* connections */
    int stranger;     /* process of the last one */
    struct plait_local_guest guests[PLAIT_MOST_LOCAL_GUESTS];
    struct sockaddr_un address;
    socklen_t length;
};

/* An abstract name, which vanishes with the socket that has it. */
socklen_t plait_abstract_address(const char *name, size_t n, struct sockaddr_un *out);

/* Is the process at the other end of a Unix socket one of this user? *pid is its. */
bool plait_is_this_user(int fd, int *pid);

/* `name`: n bytes, fewer than sun_path holds. */
void plait_machine_place_init(struct plait_machine_place *place, const char *name, size_t n);

#endif
