/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-hosts: virtual hosts on one machine.
 *
 * The process that the user starts, the supervisor (supervise.c), moves into a network namespace of its own, which
 * holds the bridges and one end of each link (wires.c). Each host is a child that is the first process of its
 * namespaces (host.c). So nothing can be left behind: when that process ends, the kernel ends all processes of the
 * host, and removes its interfaces with the namespace. A host ends with the supervisor, however that ends: its channel
 * closes, and the kernel kills it (PR_SET_PDEATHSIG) even if it is stopped.
 */
#ifndef PLAIT_TOOLS_HOSTS_H
#define PLAIT_TOOLS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOSTS_MAX          256 /* most hosts, and most ranks of one host */
#define HOSTS_FAILED       125 /* exit status when the hosts cannot be made, as of env(1) and timeout(1) */
#define HOSTS_ADDRESS_SIZE 16  /* bytes of "10.77.0.1" */

struct hosts_plan {
    uint32_t nhost, nrack;         /* nrack 0: one bridge for all */
    uint32_t first[HOSTS_MAX + 1]; /* host h has ranks first[h] .. first[h + 1] - 1 */
    uint64_t link, uplink;         /* bit/s each way; 0: not limited */
    bool raw;                      /* ranks inherit stdin, stdout and stderr */
    const char *latency;           /* NULL: none */
    const char *share;             /* folders separated by ':', or NULL */
    char **command;                /* ended by NULL */
};

struct host {
    pid_t pid;
    int channel; /* socket for messages; -1: the host has ended */
};

/* ---- Between supervisor and host ------------------------------------------------------------------ */

enum host_message_kind {
    HOST_WIRED,  /* to the host: its link exists */
    HOST_READY,  /* from the host: network and file systems are set up */
    HOST_START,  /* to the host: run the ranks */
    HOST_SIGNAL, /* to the host: send signal `value` to its ranks */
    HOST_ENDED,  /* from the host: `rank` ended with status `value`, as of waitpid() */
    HOST_COMMAND /* both ways, with a request: run it on host `rank` */
};

struct host_message {
    enum host_message_kind kind;
    uint32_t rank;
    int value;
};

#define HOST_TEXT_MOST (32 << 10)
#define HOST_FDS       4

/* A request to run a command on another host. */
struct host_request {
    int fds[HOST_FDS]; /* stdin, stdout and stderr, and a pipe for the status; -1: none */
    size_t length;
    char text[HOST_TEXT_MOST + 2]; /* working directory and command, each ended by a zero */
};

void host_send(int channel, enum host_message_kind kind, uint32_t rank, int value);

/* Send HOST_COMMAND for host `h`; descriptors stay open here, too. */
bool host_pass(int channel, uint32_t h, const struct host_request *request);

/* Returns false when the other end has gone. Descriptors are only set when there is a request. */
bool host_receive(int channel, struct host_message *out, struct host_request *request);

/*
 * Run host `h` in its first process, until `channel` closes. outputs: stdout and stderr of each rank, or NULL:
 * inherited
 */
_Noreturn void host_main(const struct hosts_plan *plan, uint32_t h, int channel, int (*outputs)[2]);

/* ---- Sessions: plait-hosts on HOST COMMAND -------------------------------------------------------- */

/*
 * In a process of a host: run a command on another. words: the host and the command. Returns the command's exit status.
 */
int session_run(char *const words[]);

/* In the first process of a host. */
int session_listen(void);                          /* a socket for requests of this host */
void session_pass(int listener, int channel);      /* forward the next request to the supervisor */
void session_start(struct host_request *request);  /* run a request for this host, and close its descriptors */
void session_end(pid_t pid, int status);           /* a process, perhaps of a session, has ended */
void session_forget(struct host_request *request); /* close its descriptors */

/* ---- Wires ------------------------------------------------------------------------------------- */

/* The address of host h, into text[HOSTS_ADDRESS_SIZE]. */
void wires_address(uint32_t h, char *text);

/* Find ip and tc, or fail with an error that says what to install. Call it before the functions that use them. */
void wires_find_tools(const struct hosts_plan *plan);

/* In the supervisor: create the bridges, and a link into the namespace of each host. */
void wires_make(const struct hosts_plan *plan, const struct host *hosts);

/* On host h: set up its end of the link, and wait as wires_run() does. */
void wires_finish(const struct hosts_plan *plan, uint32_t h);

/* Take the link of host h down or up, in the namespace of the bridges. Returns false with errno. */
bool wires_set(uint32_t h, bool up);

/*
 * Wait until a link that was taken up carries packets. The kernel notices late, by a second or more while it removes
 * other namespaces. Returns false after ten seconds.
 */
bool wires_run(uint32_t h);

/* ---- The supervisor ---------------------------------------------------------------------------- */

struct hosts_cut {
    double when; /* seconds after the ranks started */
    uint32_t host;
    bool up;
};

/* Make the hosts, run the ranks, and end the hosts. Returns the exit status. cuts: [ncut] in order of time */
int supervise(const struct hosts_plan *plan, const struct hosts_cut *cuts, uint32_t ncut);

#endif
