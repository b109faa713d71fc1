/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks connect to the coordinator. Ranks on the coordinator's machine map its stage. A rank that a launcher
 * started, perhaps elsewhere, gets the contents over TCP and makes a stage of its own.
 */
#ifndef PLAIT_BENCH_GREET_H
#define PLAIT_BENCH_GREET_H

#include "stage.h"

#include <sched.h>
#include <sys/types.h>

/* The coordinator's address: the name of an abstract Unix socket, or "tcp TOKEN PORT ADDRESS ...". */
#define GREET_WHERE 1024
#define GREET_TOKEN 33 /* 32 random hexadecimal digits, by which ranks prove that they belong here */

/* A rank's first message. */
struct hello {
    char token[GREET_TOKEN];
    uint32_t rank;
    pid_t pid;
    char about[160]; /* name and version of the measured library */
    char host[64];
    char machine[40]; /* equal for hosts that are one machine; "": unknown */
    cpu_set_t cpus;   /* processors that the rank may run on */
    uint32_t ncpu;    /* processors of the host */
};

/* The answer to a rank that cannot map the stage; the elements of each tensor follow. */
struct welcome {
    uint32_t nrank, ntensor, width, unalign, inplace;
    uint32_t bound; /* run on these processors: */
    cpu_set_t cpus;
};

/* Listen for `nrank` ranks. -1 with errno. */
int greet_listen(uint32_t nrank, bool tcp, char where[GREET_WHERE]);

/*
 * The listening socket and its connections. One that does not send a complete hello within two seconds is closed; ranks
 * behind it do not wait.
 */
struct listener {
    int listen_fd;
    const char *where;
    struct client *client; /* [n] connections without a complete hello, at most `most` */
    struct pollfd *ready;
    uint32_t n, most;
};

/* Returns false when out of memory; call listener_close() even then. It closes clients, but not `listen_fd`. */
bool listener_open(struct listener *listener, int listen_fd, const char *where, uint32_t nrank);
void listener_close(struct listener *listener);

/* Wait up to `ms` milliseconds. Returns the socket of a rank that has said hello, or -1. */
int listener_next(struct listener *listener, int ms, struct hello *out);

/*
 * Connect, say hello and get a stage. NULL with errno.
 *
 * fd  gets the socket for worker_serve()
 * On this machine the rank is bound to its share of the processors.
 */
struct stage *worker_meet(const char *where, uint32_t rank, const char *about, int *fd);

/* The same on an open socket; `where` may be NULL. */
struct stage *worker_greet(int fd, const char *where, uint32_t rank, const char *about);

/* Receive a whole message, also from a stream. Returns false when the other end has gone. */
bool greet_receive(int fd, void *message, size_t bytes);

#endif
