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
    uint32_t number;     /* of the comm's calls so far, messages not counted */
    uint32_t mark;       /* struct plait_call; 0 but of a bucket */
    cudaStream_t native;
    struct plait_stream *on;        /* NULL: memory of the host, no stream; */
    const struct nccl_call *shared; /* whose `on` it is: an earlier one's of the group; NULL: its own */
    bool blocks;                    /* memory of the host, which must wait for `on` (stream.h) */
    uint64_t capture;               /* plait_stream_captures(), of a group's call that streams */
    const void *in;
    void *out;
    size_t count;
    enum plait_dtype type;
    uint32_t root; /* or peer */
    struct nccl_scale scale;
    char algorithms[128];       /* that are asked for */
    bool forced;                /* one of them must run */
    struct nccl_bucket *bucket; /* what it is fused into; NULL: nothing */
    struct nccl_call *fellow;   /* the next in there */
};

/* Is it put on a stream, on memory of a GPU? */
static inline bool nccl_call_streams(const struct nccl_call *c)
{
    return c->on != NULL && !c->blocks;
}

/* Begin it, in the group that is open; or do it. The text of an error is the library's. */
enum plait_status nccl_call_run(const struct nccl_call *c);

#endif
