/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of one backend as the coordinator sees them: processes, sockets and the shared stage. */
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
    struct hello *hello; /* [nrank] what the ranks said of themselves */
    pid_t *child;        /* [nchild] processes that this one started: ranks, or a launcher; 0: reaped */
    uint32_t nchild;
    bool launcher;            /* the child is a launcher, which must be asked to end its ranks */
    bool apart;               /* ranks are on several hosts, or were started by a launcher */
    int listen_fd;            /* where ranks connect; -1: they were given their sockets */
    int log_fd;               /* what the launcher and its ranks wrote to standard error; -1: not caught */
    const struct ranks *like; /* apart: each rank runs on the processors of that one's; or NULL */
    char where[GREET_WHERE];
    struct stage *stage;
    int stage_fd;
};

extern volatile sig_atomic_t interrupted; /* the number of the signal, or 0: then every wait ends */

/* Zero, and make the stage: `counts` are the elements of each tensor. ranks_stop() frees it, also after an error. */
bool ranks_init(struct ranks *r, const char *name, const struct options *o, uint32_t ntensor, const uint64_t *counts,
                uint32_t width);

/* Let ranks come to r->where. */
bool ranks_listen(struct ranks *r);

/* Wait until all ranks have connected, allocated their buffers and are ready. */
bool ranks_greet(struct ranks *r, double seconds);

/* Send a command to all ranks and collect their answers. false: a rank died, failed or is late; said which. */
bool ranks_command(struct ranks *r, const struct command *c, struct reply *replies, double seconds);

/* End the ranks: politely, or at once after an error. Returns when every child has been reaped. */
void ranks_stop(struct ranks *r, bool politely);

#endif
