/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of Plait as a worker, in its own process or thread. */
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
    const struct options *options;
    struct plait_call call;
    struct plait_request *request[2]; /* of the operation in progress; NULL: ended */
    struct plait_comm
        *driver;       /* a communicator of this rank alone whose progress thread drives all others; NULL: none */
    cpu_set_t allowed; /* processors that this process may run on */
    uint32_t rank;
    bool library_memory, pinned, reproducible;
    /* Used by backend_fusion.c: */
    struct fused *fused; /* [nfused] one for each kind of step of this cell */
    uint32_t nfused;
    struct plait_fusion *fusion; /* of the current kind of step */
};

extern const struct fuser plait_fuser;

/* Join the communicator and serve commands; see worker_serve(). */
bool plait_worker(int fd, uint32_t rank, const struct options *o, const struct plait_unique_id *id);

/*
 * The same for a rank that a launcher started. Errors before it serves go to standard error.
 *
 * where  known to rank 0 only, which broadcasts it
 */
bool plait_worker_launched(const char *where, const struct options *o);

#endif
