/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fusion: all-reduces of one group that differ only in buffers and counts become one, of up to PLAIT_NCCL_FUSION bytes,
 * packed into memory of the comm, on a GPU each aligned to 16 bytes. What is fused depends on the sequence of calls,
 * and on whether they use device or host memory, which is the same on all ranks; not on addresses or streams.
 * Pre-multiplied sums stay single: their factors may differ between ranks.
 *
 * A bucket runs on the stream of its first member, which waits for those of the others, and they for it. Another
 * collective of the comm closes open buckets, since the order of a comm's collectives is kept. An all-reduce that is
 * too large runs from its own buffers, in order. Ranks whose buckets have other members get an error, as for single
 * calls. As in NCCL, calls of one group must not depend on each other.
 */
#ifndef PLAIT_NCCL_FUSE_H
#define PLAIT_NCCL_FUSE_H

#include "call.h"

struct nccl_bucket {
    struct nccl_call whole; /* the fused operation, when it has several members */
    struct nccl_call *first, *last;
    size_t bytes;
    uint32_t mark; /* hash of its members' offsets and counts */
    unsigned nmember;
    bool open;
    enum nccl_pack_kind kind;
    size_t at;    /* offset in the comm's memory of this kind */
    char *memory; /* and its address */
};

/*
 * Sort the calls of a group, whose comms are entered, into buckets: [number of calls], zeroed. After an error the comm
 * has failed on all ranks.
 */
ncclResult_t nccl_fuse(struct nccl_call *calls, struct nccl_bucket *buckets);

/* What to start instead of this call: the call, its bucket, or NULL when the bucket was started already. */
const struct nccl_call *nccl_fuse_stands_for(const struct nccl_call *c);

/* Before: pack the members' inputs. After: unpack the results. After an error a comm has failed. */
enum plait_status nccl_fuse_pack(const struct nccl_call *calls);
enum plait_status nccl_fuse_unpack(const struct nccl_call *calls);

#endif
