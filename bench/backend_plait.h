/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of Plait as a worker, in a process or a thread of its own. */
#ifndef PLAIT_BENCH_BACKEND_PLAIT_H
#define PLAIT_BENCH_BACKEND_PLAIT_H

#include "options.h"
#include "worker.h"

#include <plait/comm.h>

#include <sched.h>

struct plait_unique_id;
struct plait_fusion;

struct plait_rank { /* the backend's self */
    struct plait_comm *comm;
    struct plait_call call;
    struct plait_request *request[2]; /* the operation that goes on; NULL: ended */
    struct plait_comm *driver; /* of this rank alone, as its progress thread drives all comms; NULL: there is none */
    cpu_set_t allowed;         /* processors that this process may run on */
    uint32_t rank;
    bool library_memory, pinned, reproducible;
    /* Of backend_fusion.c: */
    struct fused *fused; /* [nfused] one for each kind of step of this cell */
    uint32_t nfused;
    struct plait_fusion *fusion; /* of the steps that are being made */
};

extern const struct fuser plait_fuser;

/* Join the comm and serve; as worker_serve(). */
bool plait_worker(int fd, uint32_t rank, const struct options *o, const struct plait_unique_id *id);

/*
 * The same of a rank that a launcher has started: `where` is known to rank 0 only, which tells the others over the comm.
 * What goes wrong before it is served is said on standard error.
 */
bool plait_worker_launched(const char *where, const struct options *o);

#endif
