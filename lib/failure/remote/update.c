/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include "base/system_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Replicas --------------------------------------------------------------------------------------------- */

/* Of address space: only the used part of the ring takes memory. */
#define REPLICA (offsetof(struct plait_replica, control) + offsetof(struct plait_control, calibration))

struct plait_replica *plait_replica_create(uint64_t id, uint32_t rank, uint32_t nrank, const char *name)
{
    struct plait_replica *m;
    void *pages;

    if (plait_reserve(REPLICA, true, -1, "what is heard of a rank", &pages) != PLAIT_OK)
        return NULL;
    m = pages;
    m->control.id = id;
    m->control.rank = rank;
    m->control.nrank = nrank;
    snprintf(m->control.name, sizeof m->control.name, "%s", name);
    return m;
}

void plait_replica_destroy(struct plait_replica *replica)
{
    if (replica != NULL)
        munmap(replica, REPLICA);
}

/* ---- Writing --------------------------------------------------------------------------------------------- */

/* False if the rank writes the record meanwhile; then the next update has it. */
static bool copy_record(const struct plait_ring *ring, uint64_t sequence, struct plait_record *out)
{
    const struct plait_record *r = plait_ring_record(ring, sequence);
    struct plait_operation o;
    const uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);

    if (!plait_ring_read(ring, sequence, 0, false, &o) || atomic_load_explicit(&r->word, memory_order_relaxed) != word)
        return false;
    atomic_store_explicit(&out->word, word, memory_order_relaxed);
    out->what = o.what;
    return true;
}

/*
 * Copy the records from `from` on, which others compare first, then the last ones; `*newest` is the newest. The last
 * ones do not suffice: a rank may be many operations ahead of another that hangs in a mismatched one.
 */
static uint32_t copy_records(const struct plait_ring *ring, uint64_t done, uint64_t from, struct plait_record *out,
                             uint64_t *newest)
{
    uint32_t n = 0, last = 0;

    for (uint64_t s = from; s <= done + 1 && n < PLAIT_CONTROL_UPDATE_RECORDS - PLAIT_CONTROL_UPDATE_LAST; s++)
        n += copy_record(ring, s, &out[n]);
    for (uint64_t s = done + 1; s > 0 && last < PLAIT_CONTROL_UPDATE_LAST; s--)
        if (copy_record(ring, s, &out[n + last]) && last++ == 0)
            *newest = s;
    return n + last;
}

static size_t bytes_of(const struct plait_control_update *u)
{
    return u->failed != PLAIT_OK ? sizeof *u : PLAIT_CONTROL_UPDATE_LEAST + u->nrecord * sizeof *u->record;
}

void plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint64_t now,
                                struct plait_control_update *u)
{
    enum { KEPT = PLAIT_NRECORD / 2 }; /* newest half of the ring: these are not overwritten soon */
    struct plait_operation newest;
    uint64_t last = 0;

    memset(u, 0, sizeof *u);
    u->rank = own->rank;
    u->now = now;
    u->seen = (uint64_t)(1e9 * atomic_load_explicit(&own->seen, memory_order_relaxed));
    u->failed = atomic_load_explicit(&own->failed, memory_order_acquire);
    u->noticed = (uint8_t)atomic_load_explicit(&own->noticed, memory_order_acquire);
    u->receiving = (uint8_t)atomic_load_explicit(&own->receiving, memory_order_acquire);
    u->gpu = atomic_load_explicit(&own->gpu, memory_order_acquire);
    u->done = atomic_load_explicit(&own->done, memory_order_acquire);
    u->wanted = atomic_load_explicit(&own->uncompared, memory_order_acquire); /* read after done: written before it */
    if (u->wanted == 0)
        u->wanted = u->done + 1;
    u->from = u->done > KEPT && wanted <= u->done - KEPT ? u->done - KEPT + 1 : wanted;
    u->nrecord = copy_records(&own->ring, u->done, u->from, u->record, &last);
    if (plait_ring_read(&own->ring, last, u->done, false, &newest) && newest.has_progress)
        u->progress = newest.progress;
    if (u->failed != PLAIT_OK) {
        u->culprit = own->culprit;
        memcpy(u->failure, own->failure, sizeof u->failure);
    }
    u->bytes = (uint32_t)bytes_of(u);
}

bool plait_control_update_same(const struct plait_control_update *a, const struct plait_control_update *b)
{
    struct plait_control_update x = *a;

    x.now = b->now;
    return x.bytes == b->bytes && memcmp(&x, b, b->bytes) == 0;
}

uint64_t plait_control_wanted(const struct plait_comm *comm)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t rank = 0; rank < comm->nrank; rank++) {
        const struct plait_replica *m = comm->peers[rank].replica;
        if (m != NULL && m->wanted < least)
            least = m->wanted;
    }
    return least > 0 ? least : 1;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

size_t plait_control_update_read(const void *bytes, size_t n, uint32_t nrank, struct plait_control_update *out)
{
    if (n < PLAIT_CONTROL_UPDATE_LEAST)
        return 0;
    memset(out, 0, sizeof *out);
    memcpy(out, bytes, PLAIT_CONTROL_UPDATE_LEAST);
    if (out->rank >= nrank || out->nrecord > PLAIT_CONTROL_UPDATE_RECORDS || out->culprit > nrank ||
        out->bytes != bytes_of(out))
        return SIZE_MAX;
    if (n < out->bytes)
        return 0;
    memcpy(out, bytes, out->bytes);
    out->failure[sizeof out->failure - 1] = '\0';
    return out->bytes;
}

/* ahead: ns by which the clock of this process is ahead of the rank's. */
static void apply_progress(struct plait_ring *ring, const struct plait_progress *from, uint64_t ahead)
{
    struct plait_progress p = *from;

    if (p.sequence == 0)
        return;
    p.began += p.began > 0 ? ahead : 0;
    plait_progress_write(plait_ring_progress(ring, p.sequence), &p);
}

static void apply_record(struct plait_ring *ring, const struct plait_record *from)
{
    const uint64_t word = atomic_load_explicit(&from->word, memory_order_relaxed);
    const struct plait_record *old = plait_ring_record(ring, (uint32_t)word);

    if ((uint32_t)word != 0 && atomic_load_explicit(&old->word, memory_order_relaxed) != word)
        plait_ring_add(ring, (uint32_t)word, word, &from->what, memory_order_release);
}

void plait_control_update_apply(const struct plait_control_update *u, struct plait_replica *replica, uint64_t now)
{
    struct plait_control *c = &replica->control;

    for (uint32_t i = 0; i < u->nrecord; i++)
        apply_record(&c->ring, &u->record[i]);
    apply_progress(&c->ring, &u->progress, now - u->now);
    replica->wanted = u->wanted;
    atomic_store_explicit(&replica->from, u->from, memory_order_release);
    if (u->seen > 0) /* by this process's clock */
        atomic_store_explicit(&c->seen, 1e-9 * (double)(now - u->now + u->seen), memory_order_relaxed);
    atomic_store_explicit(&replica->silent, u->silence > 0 ? 1e-9 * (double)now - 1e-3 * u->silence : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&c->receiving, u->receiving, memory_order_relaxed);
    atomic_store_explicit(&c->gpu, u->gpu, memory_order_relaxed);
    atomic_store_explicit(&c->noticed, u->noticed, memory_order_relaxed);
    if (u->done > atomic_load_explicit(&c->done, memory_order_relaxed))
        atomic_store_explicit(&c->done, u->done, memory_order_release);
    if (u->failed != PLAIT_OK && atomic_load_explicit(&c->failed, memory_order_relaxed) == PLAIT_OK) {
        memcpy(c->failure, u->failure, sizeof c->failure);
        c->culprit = u->culprit;
        atomic_store(&c->failed, u->failed);
    }
    atomic_store_explicit(&c->departed, u->departed, memory_order_release);
    if (u->dead)
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
}
