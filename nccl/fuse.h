/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fusion: all-reduces of one group that differ in nothing but buffers and counts become one, of up to PLAIT_NCCL_FUSION
 * bytes, packed one behind the other in memory of the comm's; on a GPU each begins on 16 bytes.
 *
 * What becomes one follows from the sequence of calls, and from whether they are on memory of a GPU or of the host,
 * which is the same on all ranks; not from where buffers lie, nor from which stream they are on. Sums of inputs that
 * are multiplied first stay single: their factors may differ from rank to rank. A bucket is on the stream of its first
 * member, which waits for those of the others, and they for it. Another collective of the comm ends what is open, as
 * the order of a comm's collectives stays; an all-reduce that is too large travels from where it lies, at its place.
 * Ranks whose buckets have other members are told, as with single calls. As in NCCL, calls of one group must not depend
 * on each other.
 *
 * An all-to-all in place, which the library has not, is a bucket of its own: its input is packed, its output is the
 * caller's. One whose count the library refuses is left to it, and refused.
 */
#ifndef PLAIT_NCCL_FUSE_H
#define PLAIT_NCCL_FUSE_H

#include "call.h"

struct nccl_bucket {
    struct nccl_call whole; /* the operation that it becomes, when it has several members */
    struct nccl_call *first, *last;
    size_t bytes;
    uint32_t mark; /* of its members' places and counts */
    unsigned nmember;
    bool open;
    enum nccl_pack_kind kind;
    size_t at;    /* in the comm's memory of its kind, */
    char *memory; /* here */
};

/* Is it an all-to-all in place, whose input is to be copied first? Alone it needs a group. */
bool nccl_fuse_stages(const struct nccl_call *c);

/*
 * Sort the calls of a group, each with its comm entered, into buckets: [as many as calls] of zeroes. After an error the
 * comm has failed on all ranks.
 */
ncclResult_t nccl_fuse(struct nccl_call *calls, struct nccl_bucket *buckets);

/* What is to be begun in the place of this call: it, its bucket, or NULL, when the bucket was begun before. */
const struct nccl_call *nccl_fuse_stands_for(const struct nccl_call *c);

/* Before: members' inputs into the buckets. After: results out of them. After an error a comm has failed. */
enum plait_status nccl_fuse_pack(const struct nccl_call *calls);
enum plait_status nccl_fuse_unpack(const struct nccl_call *calls);

#endif
