/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuse.h"

#include "error.h"
#include "memory.h"

#include "../lib/base/bytes.h"

#include <plait/stream.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define LINE      16 /* bytes that a GPU thread accesses at once */

static size_t bytes_of(const struct nccl_call *c)
{
    return c->count * plait_dtype_size(c->type);
}

/*
 * Offset in a bucket of the next call's part, after `bytes` of others. A GPU copies 16 bytes at once where both
 * addresses are aligned to them, and single bytes at worst. So parts that follow one of odd size are aligned. The gap
 * is summed too, whatever it holds, and never read.
 */
static size_t place_after(size_t bytes, const struct nccl_call *c)
{
    return nccl_call_streams(c) ? (bytes + LINE - 1) / LINE * LINE : bytes;
}

static bool can_be_fused(const struct nccl_call *c)
{
    return c->kind->coll == PLAIT_ALLREDUCE && c->count > 0 && c->in != NULL && c->out != NULL &&
           c->scale.op != PLAIT_PREMULSUM && c->count <= c->comm->fusion / plait_dtype_size(c->type);
}

static bool fits(const struct nccl_bucket *b, const struct nccl_call *c)
{
    const struct nccl_call *f = b->first;

    return b->open && f->comm == c->comm && nccl_call_streams(f) == nccl_call_streams(c) && f->type == c->type &&
           f->scale.op == c->scale.op && f->forced == c->forced && strcmp(f->algorithms, c->algorithms) == 0;
}

static void close_all(struct nccl_bucket *buckets, size_t n, const struct ncclComm *comm)
{
    for (size_t i = n; i-- > 0;)
        if (buckets[i].first->comm == comm)
            buckets[i].open = false;
}

/* Marks the fused calls, so that ranks that fused different calls find a mismatch, as with single calls. */
static uint32_t mix(uint32_t mark, uint64_t value)
{
    for (; value != 0; value >>= 16)
        mark = (mark ^ (uint32_t)(value & 0xffff)) * 0x9e3779b1u;
    return mark ^ mark >> 15;
}

static void join(struct nccl_bucket *b, struct nccl_call *c)
{
    b->mark = mix(mix(b->mark, c->number - b->first->number + 1), c->count);
    b->bytes = place_after(b->bytes, c) + bytes_of(c);
    if (b->last != NULL)
        b->last->fellow = c;
    b->last = c;
    b->nmember++;
    c->bucket = b;
}

/* The last open bucket of its kind, if it has room. */
static struct nccl_bucket *find(struct nccl_bucket *buckets, size_t n, const struct nccl_call *c)
{
    for (size_t i = n; i-- > 0;)
        if (fits(&buckets[i], c)) {
            if (place_after(buckets[i].bytes, c) + bytes_of(c) <= c->comm->fusion)
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

static bool is_packed(const struct nccl_bucket *b)
{
    return b != NULL && b->nmember > 1;
}

static bool lie_together(const struct nccl_bucket *a, const struct nccl_bucket *b)
{
    return a->first->comm == b->first->comm && a->kind == b->kind;
}

static enum nccl_pack_kind kind_of(const struct nccl_call *c)
{
    return c->capture != 0 ? NCCL_PACK_GRAPH : nccl_call_streams(c) ? NCCL_PACK_GPU : NCCL_PACK_HOST;
}

/* All buckets of a comm in one kind of memory together, since they are in flight together. */
static bool place(struct nccl_bucket *buckets, size_t n, size_t i)
{
    struct ncclComm *comm = buckets[i].first->comm;
    size_t bytes = 0;

    for (size_t k = i; k < n; k++)
        if (lie_together(&buckets[i], &buckets[k]) && is_packed(&buckets[k])) {
            buckets[k].at = bytes;
            bytes += (buckets[k].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
    char *memory = bytes > 0 ? nccl_memory_pack(comm, buckets[i].kind, bytes) : NULL;
    for (size_t k = i; k < n; k++)
        if (lie_together(&buckets[i], &buckets[k])) {
            buckets[k].whole = *buckets[k].first;
            buckets[k].whole.mark = buckets[k].mark;
            buckets[k].memory = memory != NULL ? memory + buckets[k].at : NULL;
            buckets[k].whole.in = buckets[k].memory;
            buckets[k].whole.out = buckets[k].memory;
            buckets[k].whole.count = buckets[k].bytes / plait_dtype_size(buckets[k].whole.type);
        }
    return bytes == 0 || memory != NULL;
}

/* Abort, so that the other ranks do not wait for this one. */
static void fail(const struct nccl_bucket *b, const char *what)
{
    char why[512];

    snprintf(why, sizeof why, "%s to fuse a group's operations in: %s", what, plait_last_error());
    plait_comm_abort(atomic_load(&b->first->comm->plait), why);
}

ncclResult_t nccl_fuse(struct nccl_call *calls, struct nccl_bucket *buckets)
{
    const size_t n = sort(calls, buckets);

    for (size_t i = 0; i < n; i++)
        buckets[i].kind = kind_of(buckets[i].first);
    for (size_t i = 0; i < n; i++)
        if (buckets[i].whole.kind == NULL && !place(buckets, n, i)) {
            char why[512];
            snprintf(why, sizeof why, "%s", plait_last_error());
            fail(&buckets[i], "no memory");
            return nccl_fail(ncclSystemError, buckets[i].first->comm, "no memory to fuse a group's operations in: %s",
                             why);
        }
    return ncclSuccess;
}

const struct nccl_call *nccl_fuse_stands_for(const struct nccl_call *c)
{
    if (!is_packed(c->bucket))
        return c;
    return c == c->bucket->first ? &c->bucket->whole : NULL;
}

/* ---- In and out ---------------------------------------------------------------------------------------------- */

static void copy_on_host(const struct nccl_bucket *b, bool pack)
{
    char *here = b->memory;

    for (const struct nccl_call *c = b->first; c != NULL; c = c->fellow) {
        memcpy(pack ? here : c->out, pack ? c->in : here, bytes_of(c));
        here += bytes_of(c);
    }
}

/* Order the members' streams. Before: the first one's waits for the others. After: the others wait for it. */
static enum plait_status order(const struct nccl_bucket *b, bool before)
{
    enum plait_status status = PLAIT_OK;

    for (const struct nccl_call *c = b->first; c->fellow != NULL && status == PLAIT_OK; c = c->fellow)
        if (c->fellow->native != c->native && c->fellow->native != b->first->native)
            status = before ? plait_stream_follow(b->first->on, c->fellow->on)
                            : plait_stream_follow(c->fellow->on, b->first->on);
    return status;
}

static enum plait_status copy_on_stream(const struct nccl_bucket *b, bool pack)
{
    struct plait_copy *copies = malloc(b->nmember * sizeof *copies);
    size_t n = 0, at = 0;

    if (copies == NULL)
        return PLAIT_ERR_NOMEM;
    for (const struct nccl_call *c = b->first; c != NULL; c = c->fellow) {
        at = place_after(at, c);
        char *here = b->memory + at;
        copies[n++] = (struct plait_copy){ pack ? here : c->out, pack ? c->in : here, bytes_of(c) };
        at += bytes_of(c);
    }
    const enum plait_status status =
        plait_comm_copy(atomic_load(&b->first->comm->plait), copies, b->nmember, b->first->on);
    free(copies);
    return status;
}

static enum plait_status copy(const struct nccl_bucket *b, bool pack)
{
    enum plait_status status = PLAIT_OK;

    if (!nccl_call_streams(b->first)) {
        copy_on_host(b, pack);
        return PLAIT_OK;
    }
    if (pack)
        status = order(b, true);
    if (status == PLAIT_OK)
        status = copy_on_stream(b, pack);
    if (status == PLAIT_OK && !pack)
        status = order(b, false);
    if (status != PLAIT_OK)
        fail(b, "could not move data");
    return status;
}

static enum plait_status copy_all(const struct nccl_call *calls, bool pack)
{
    enum plait_status status = PLAIT_OK;

    for (const struct nccl_call *c = calls; c != NULL && status == PLAIT_OK; c = c->next)
        if (is_packed(c->bucket) && c == c->bucket->first)
            status = copy(c->bucket, pack);
    return status;
}

enum plait_status nccl_fuse_pack(const struct nccl_call *calls)
{
    return copy_all(calls, true);
}

enum plait_status nccl_fuse_unpack(const struct nccl_call *calls)
{
    return copy_all(calls, false);
}
