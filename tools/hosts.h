/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-hosts: virtual hosts on one machine.
 *
 * The process that the user starts (supervise.c) moves into a network namespace of its own, which holds the bridges and the
 * ends of all links (wires.c). Each host is a child that is the first process of its namespaces (host.c). So nothing can
 * be left behind: the kernel ends all processes of a host when its first one ends, and removes interfaces with their
 * namespace. A host ends with the supervisor, whatever ends that one: its channel is at its end then, and the kernel kills it
 * (PR_SET_PDEATHSIG) even if it is stopped.
 */
#ifndef PLAIT_TOOLS_HOSTS_H
#define PLAIT_TOOLS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOSTS_MAX          256 /* hosts, and ranks of one */
#define HOSTS_FAILED       125 /* exit status when there are no hosts to run on, as of env(1) and timeout(1) */
#define HOSTS_ADDRESS_SIZE 16  /* of "10.77.0.1" */

struct hosts_plan {
    uint32_t nhost, nrack;         /* nrack 0: one bridge for all */
    uint32_t first[HOSTS_MAX + 1]; /* host h has ranks first[h] .. first[h + 1] - 1 */
    uint64_t link, uplink;         /* bit/s each way; 0: as fast as they go */
    bool raw;                      /* ranks have our stdin, stdout and stderr */
    const char *latency;           /* NULL: none */
    const char *share;             /* directories with ':' between, or NULL */
    char **command;                /* ended by NULL */
};

struct host {
    pid_t pid;
    int channel; /* messages; -1 when the host has ended */
};

/* ---- Between supervisor and host ------------------------------------------------------------------ */

enum host_message_kind {
    HOST_WIRED,  /* to the host: its link is there */
    HOST_READY,  /* from the host: network and file systems are set up */
    HOST_START,  /* to the host: run the ranks */
    HOST_SIGNAL, /* to the host: send signal `value` to its ranks */
    HOST_ENDED,  /* from the host: `rank` ended with `value`, as waitpid() gives it */
    HOST_COMMAND /* both ways, with a request: run it on host `rank` */
};

struct host_message {
    enum host_message_kind kind;
    uint32_t rank;
    int value;
};

#define HOST_TEXT_MOST (32 << 10)
#define HOST_FDS       4

/* A command for another host. */
struct host_request {
    int fds[HOST_FDS]; /* its stdin, stdout and stderr, and a pipe that takes its status; -1: none */
    size_t length;
    char text[HOST_TEXT_MOST + 2]; /* working directory, 0, command, 0 */
};

void host_send(int channel, enum host_message_kind kind, uint32_t rank, int value);

/* HOST_COMMAND for host `h`; descriptors stay open here, too. */
bool host_pass(int channel, uint32_t h, const struct host_request *request);

/* False: the other end is gone. Without descriptors there is no request. */
bool host_receive(int channel, struct host_message *out, struct host_request *request);

/*
 * The life of host `h`, in its first process. `outputs` are stdout and stderr of each rank, or NULL: as they are.
 * It ends when `channel` does.
 */
_Noreturn void host_main(const struct hosts_plan *plan, uint32_t h, int channel, int (*outputs)[2]);

/* ---- Sessions: plait-hosts on HOST COMMAND -------------------------------------------------------- */

/* From a process of a host: `words` are the host and the command. The command's exit status. */
int session_run(char *const words[]);

/* In the first process of a host. */
int session_listen(void);                          /* a socket for requests of this host */
void session_pass(int listener, int channel);      /* send the next one to the supervisor */
void session_start(struct host_request *request);  /* run one that came for this host; its descriptors are closed */
void session_end(pid_t pid, int status);           /* a process, perhaps of a session, has ended */
void session_forget(struct host_request *request); /* close its descriptors */

/* ---- Wires ------------------------------------------------------------------------------------- */

/* Of host h, into text[HOSTS_ADDRESS_SIZE]. */
void wires_address(uint32_t h, char *text);

/* ip and tc are found, or the error says what to install. Before any other function that uses them. */
void wires_find_tools(const struct hosts_plan *plan);

/* From the supervisor: bridges, and a link into the namespace of each host. */
void wires_make(const struct hosts_plan *plan, const struct host *hosts);

/* From host h: its end of the link; waits as wires_run(). */
void wires_finish(const struct hosts_plan *plan, uint32_t h);

/* Take the link of host h down or up, in the namespace of the bridges. False: errno. */
bool wires_set(uint32_t h, bool up);

/*
 * Wait until a link that was taken up carries packets, which the kernel finds out later, a second and more where it
 * takes down other namespaces meanwhile. False: not within ten.
 */
bool wires_run(uint32_t h);

/* ---- The supervisor ---------------------------------------------------------------------------- */

struct hosts_cut {
    double when; /* seconds after the ranks started */
    uint32_t host;
    bool up;
};

/* Everything from making the hosts to their end; the exit status. `cuts` are in order of time. */
int supervise(const struct hosts_plan *plan, const struct hosts_cut *cuts, uint32_t ncut);

#endif
