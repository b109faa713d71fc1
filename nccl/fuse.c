/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuse.h"

#include "memory.h"

#include <string.h>

#define ALIGNMENT 64

static size_t bytes_of(const struct nccl_call *c)
{
    return c->count * plait_dtype_size(c->type);
}

static bool can_be_fused(const struct nccl_call *c)
{
    return c->kind->coll == PLAIT_ALLREDUCE && c->count > 0 && c->in != NULL && c->out != NULL &&
           c->count <= c->comm->fusion / plait_dtype_size(c->type);
}

static bool same_scale(const struct nccl_scale *a, const struct nccl_scale *b)
{
    if (a->op != b->op || a->op != PLAIT_PREMULSUM)
        return a->op == b->op;
    return a->when == b->when && a->late == b->late && memcmp(a->scalar, b->scalar, sizeof a->scalar) == 0;
}

static bool fits(const struct nccl_bucket *b, const struct nccl_call *c)
{
    const struct nccl_call *f = b->first;

    return b->open && f->comm == c->comm && f->type == c->type && same_scale(&f->scale, &c->scale) &&
           f->forced == c->forced && strcmp(f->algorithms, c->algorithms) == 0;
}

static void close_all(struct nccl_bucket *buckets, size_t n, const struct ncclComm *comm)
{
    for (size_t i = n; i-- > 0;)
        if (buckets[i].first->comm == comm)
            buckets[i].open = false;
}

static void join(struct nccl_bucket *b, struct nccl_call *c)
{
    b->bytes += bytes_of(c);
    b->last = c;
    b->nmember++;
    c->bucket = b;
}

/* The last open one of its kind, if there is room. */
static struct nccl_bucket *find(struct nccl_bucket *buckets, size_t n, const struct nccl_call *c)
{
    for (size_t i = n; i-- > 0;)
        if (fits(&buckets[i], c)) {
            if (buckets[i].bytes + bytes_of(c) <= c->comm->fusion)
                return &buckets[i];
            buckets[i].open = false;
            return NULL;
        }
    return NULL;
}

static size_t sort(struct nccl_call *calls, struct nccl_bucket *buckets)
{
    size_t n = 0;

    for (struct nccl_call *c = calls; c != NULL; c = c->next) {
        if (!can_be_fused(c)) {
            if (c->kind->coll >= 0 && c->kind->coll != PLAIT_ALLREDUCE)
                close_all(buckets, n, c->comm);
            continue;
        }
        struct nccl_bucket *b = find(buckets, n, c);
        if (b == NULL) {
            b = &buckets[n++];
            b->first = c;
            b->open = true;
        }
        join(b, c);
    }
    return n;
}

/* All of a comm's at once, as they are under way together. */
static bool place(struct nccl_bucket *buckets, size_t n, size_t i)
{
    struct ncclComm *comm = buckets[i].first->comm;
    size_t bytes = 0;

    for (size_t k = i; k < n; k++)
        if (buckets[k].first->comm == comm && buckets[k].nmember > 1) {
            buckets[k].at = bytes;
            bytes += (buckets[k].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
    char *memory = bytes > 0 ? nccl_memory_pack(comm, bytes) : NULL;
    for (size_t k = i; k < n; k++)
        if (buckets[k].first->comm == comm) {
            buckets[k].whole = *buckets[k].first;
            buckets[k].whole.in = buckets[k].whole.out = memory + (memory != NULL ? buckets[k].at : 0);
            buckets[k].whole.count = buckets[k].bytes / plait_dtype_size(buckets[k].whole.type);
        }
    return bytes == 0 || memory != NULL;
}

enum plait_status nccl_fuse(struct nccl_call *calls, struct nccl_bucket *buckets)
{
    const size_t n = sort(calls, buckets);

    for (size_t i = 0; i < n; i++)
        if (buckets[i].whole.kind == NULL && !place(buckets, n, i)) {
            plait_comm_abort(atomic_load(&buckets[i].first->comm->plait), "no memory to fuse a group's operations in");
            return PLAIT_ERR_NOMEM;
        }
    return PLAIT_OK;
}

static bool is_packed(const struct nccl_call *c)
{
    return c->bucket != NULL && c->bucket->nmember > 1;
}

const struct nccl_call *nccl_fuse_stands_for(const struct nccl_call *c)
{
    if (!is_packed(c))
        return c;
    return c == c->bucket->first ? &c->bucket->whole : NULL;
}

/* Where the member lies that follows what has been gone through: `at` counts, in each bucket. */
static char *advance(const struct nccl_call *c)
{
    struct nccl_bucket *b = c->bucket;

    if (c == b->first)
        b->at = 0;
    char *here = (char *)b->whole.out + b->at;
    b->at += bytes_of(c);
    return here;
}

void nccl_fuse_pack(const struct nccl_call *calls)
{
    for (const struct nccl_call *c = calls; c != NULL; c = c->next)
        if (is_packed(c))
            memcpy(advance(c), c->in, bytes_of(c));
}

void nccl_fuse_unpack(const struct nccl_call *calls)
{
    for (const struct nccl_call *c = calls; c != NULL; c = c->next)
        if (is_packed(c))
            memcpy(c->out, advance(c), bytes_of(c));
}
