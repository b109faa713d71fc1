/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned memory that copies read: the host may write it again when it has waited for the copy. Its bytes are hashed when
 * the copy is put on the stream, when it runs, and when the host learns that it is over. At the call only where nothing
 * can be about to write them in an order: no host function and no wait for a value is queued, and no operation writes to
 * pinned memory until the copy runs.
 */
#include "standin.h"

#include <stdatomic.h>
#include <string.h>

enum { READS = 1024 }; /* that the host has not waited for; more are forgotten */

static struct read {
    uint64_t start, bytes, hash;
    int actor;
    uint64_t time;
} reads_now[READS];
static uint32_t nread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the world's comes first */
static atomic_ullong nwrite = 1;                         /* operations that wrote to pinned memory */
static atomic_int npending;                              /* queued operations after which the host may write */

static uint64_t hash_of(uint64_t start, uint64_t bytes)
{
    const char *at = (const char *)(uintptr_t)start;
    uint64_t hash = bytes, word;

    for (; bytes > 0; at += sizeof word) {
        const uint64_t n = bytes < sizeof word ? bytes : sizeof word;
        word = 0;
        memcpy(&word, at, n);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        bytes -= n;
    }
    return hash;
}

static bool is_pinned(uint64_t address)
{
    struct mapping m;

    return mapping_find(address, &m) && m.kind == PINNED_MEMORY;
}

static _Noreturn void changed(const struct read *r)
{
    die("the host has written to %llu bytes of pinned memory at %#llx, which a copy on stream %d may still read: it "
        "has "
        "not waited for the copy",
        (unsigned long long)r->bytes, (unsigned long long)r->start, r->actor);
}

void pinned_pending(const struct op *op, int more)
{
    if (op->what == DO_CALL || op->what == DO_WAIT)
        npending += more;
}

void pinned_written(void)
{
    nwrite++;
}

void pinned_called(struct op *op)
{
    op->writes = npending == 0 && is_pinned(op->from) ? nwrite : 0;
    if (op->writes != 0)
        op->hash = hash_of(op->from, op->bytes);
}

void pinned_runs(const struct stream *stream, const struct op *op)
{
    if (!is_pinned(op->from))
        return;
    const struct read r = { op->from, op->bytes, hash_of(op->from, op->bytes), stream->actor,
                            actor_clock(stream->actor)->at[stream->actor] };
    if (op->writes == nwrite && op->hash != r.hash)
        changed(&r);
    pthread_mutex_lock(&lock);
    if (nread < READS)
        reads_now[nread++] = r;
    pthread_mutex_unlock(&lock);
}

/* Another process may have waited for a copy and told this one. */
void pinned_known(const struct clock *clock)
{
    const struct clock *host = host_clock();

    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < nread;) {
        const struct read *r = &reads_now[k];
        if (r->time > clock->at[r->actor]) {
            k++;
            continue;
        }
        if (r->time > host->at[r->actor] && hash_of(r->start, r->bytes) != r->hash)
            changed(r);
        reads_now[k] = reads_now[--nread];
    }
    pthread_mutex_unlock(&lock);
}

void pinned_freed(uint64_t start, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < nread;)
        if (reads_now[k].start - start < bytes)
            reads_now[k] = reads_now[--nread];
        else
            k++;
    pthread_mutex_unlock(&lock);
}
