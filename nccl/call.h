/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation as it was called: run at once, or kept until its group ends. */
#ifndef PLAIT_NCCL_CALL_H
#define PLAIT_NCCL_CALL_H

#include "comm.h"
#include "operator.h"

#include <plait/coll.h>

struct nccl_call;
struct nccl_bucket;

struct nccl_kind {
    const char *name; /* "ncclAllReduce" */
    int coll;         /* enum plait_coll; -1: a message */
    bool reduces, rooted;
    enum plait_status (*run)(const struct nccl_call *c, struct plait_comm *comm, const struct plait_call *options);
};

struct nccl_call {
    struct nccl_call *next;
    const struct nccl_kind *kind;
    struct ncclComm *comm;
    uint32_t generation; /* the comm's */
    uint32_t number;     /* number among the comm's calls so far, without messages */
    uint32_t mark;       /* struct plait_call; 0 except for a bucket */
    cudaStream_t native;
    struct plait_stream *on;        /* NULL: host memory, no stream */
    const struct nccl_call *shared; /* owner of `on`: an earlier call of the group; NULL: this call */
    bool blocks;                    /* host memory, but the call must wait for `on` (stream.h) */
    uint64_t capture;               /* plait_stream_captures(), for a group's call on a stream */
    const void *in;
    void *out;
    size_t count;
    enum plait_dtype type;
    uint32_t root; /* or peer */
    struct nccl_scale scale;
    char algorithms[128];       /* requested algorithms */
    bool forced;                /* one of them must run */
    struct nccl_bucket *bucket; /* bucket into which it is fused; NULL: none */
    struct nccl_call *fellow;   /* the next call in that bucket */
};

/* Does it run on a stream, on device memory? */
static inline bool nccl_call_streams(const struct nccl_call *c)
{
    return c->on != NULL && !c->blocks;
}

/* Start the operation in the open group, or run it. The error text is the library's. */
enum plait_status nccl_call_run(const struct nccl_call *c);

#endif
