/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank and the coordinator meet. A rank that the coordinator's host can share memory with gets the stage; one that a
 * launcher has started, perhaps elsewhere, is told over TCP what is on it and makes its own.
 */
#ifndef PLAIT_BENCH_GREET_H
#define PLAIT_BENCH_GREET_H

#include "stage.h"

#include <sched.h>
#include <sys/types.h>

/* Where a coordinator listens: the name of an abstract Unix socket, or "tcp TOKEN PORT ADDRESS ...". */
#define GREET_WHERE 1024
#define GREET_TOKEN 33 /* 32 digits, which who does not have them cannot guess */

/* What a rank says first. */
struct hello {
    char token[GREET_TOKEN];
    uint32_t rank;
    pid_t pid;
    char about[160]; /* name and version of what is measured */
    char host[64];
    char machine[40]; /* equal for hosts that are one machine; "": unknown */
    cpu_set_t cpus;   /* that it may run on */
    uint32_t ncpu;    /* of the host, in use or not */
};

/* What it is told where it cannot see the stage; the elements of each tensor follow. */
struct welcome {
    uint32_t nrank, ntensor, width, unalign, inplace;
    uint32_t bound; /* it is to run on these: */
    cpu_set_t cpus;
};

/* Listen for `nrank` ranks. -1 with errno. */
int greet_listen(uint32_t nrank, bool tcp, char where[GREET_WHERE]);

/*
 * Where ranks come in, and strangers: whoever does not say at once who it is waits beside the others, and is turned away
 * after two seconds.
 */
struct door {
    int listen_fd;
    const char *where;
    struct guest *guest; /* [n] that have not said who they are, of at most `most` */
    struct pollfd *ready;
    uint32_t n, most;
};

/* false: out of memory. Close it all the same: guests are turned away, `listen_fd` stays open. */
bool door_open(struct door *door, int listen_fd, const char *where, uint32_t nrank);
void door_close(struct door *door);

/* The socket of who was started by us and has said so; -1: nobody has for now, which takes `ms` at most. */
int door_next(struct door *door, int ms, struct hello *out);

/*
 * Connect, greet, and get a stage. NULL with errno; *fd is the socket for worker_serve(). On this machine the rank is bound to
 * its share of the processors.
 */
struct stage *worker_meet(const char *where, uint32_t rank, const char *about, int *fd);

/* The same on a socket that is there; `where` may be NULL. */
struct stage *worker_greet(int fd, const char *where, uint32_t rank, const char *about);

/* The whole message, also of a stream. false: the other has gone. */
bool greet_receive(int fd, void *message, size_t bytes);

#endif
