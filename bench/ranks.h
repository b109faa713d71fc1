/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of one backend as the coordinator sees them: processes, sockets and the shared stage (stage.h). */
#ifndef PLAIT_BENCH_RANKS_H
#define PLAIT_BENCH_RANKS_H

#include "options.h"
#include "worker.h"

#include <signal.h>

struct ranks {
    char name[32];   /* "plait", "openmpi:ob1" */
    char about[160]; /* version, as the ranks say */
    uint32_t nrank;
    int *fd;             /* [nrank] sockets; -1: not connected */
    struct hello *hello; /* [nrank] the ranks' first messages */
    pid_t *child;        /* [nchild] processes that the coordinator started: ranks, or a launcher; 0: reaped */
    uint32_t nchild;
    bool launcher;            /* the child is a launcher, which is asked to end its ranks */
    bool apart;               /* ranks share no stage: they are on several hosts, or a launcher started them */
    int listen_fd;            /* where ranks connect; -1: they were given their sockets */
    int log_fd;               /* standard error of the launcher and its ranks; -1: not captured */
    const struct ranks *like; /* apart: the ranks of another backend on whose processors these run; or NULL */
    char where[GREET_WHERE];
    struct stage *stage;
    int stage_fd;
};

extern volatile sig_atomic_t interrupted; /* the signal that was received, or 0; it ends every wait */

/*
 * Initialise, and create the stage. Call ranks_stop() even after an error.
 *
 * counts  [ntensor] elements of each tensor
 */
bool ranks_init(struct ranks *r, const char *name, const struct options *o, uint32_t ntensor, const uint64_t *counts,
                uint32_t width);

/* Listen for ranks at r->where. */
bool ranks_listen(struct ranks *r);

/* Wait until all ranks have connected, allocated their buffers and are ready. */
bool ranks_greet(struct ranks *r, double seconds);

/*
 * Send a command to all ranks and collect their replies. Returns false after a message when a rank died, failed or is
 * late.
 */
bool ranks_command(struct ranks *r, const struct command *c, struct reply *replies, double seconds);

/* Stop the ranks: politely, or at once after an error. Returns when every child has been reaped. */
void ranks_stop(struct ranks *r, bool politely);

#endif
