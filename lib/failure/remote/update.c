/* SPDX-License-Identifier: BSD-3-Clause */
#include "update.h"

#include "base/system_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Replicas --------------------------------------------------------------------------------------------- */

size_t plait_replica_bytes(void)
{
    return offsetof(struct plait_replica, control) + offsetof(struct plait_control, calibration);
}

/* On demand-zero pages: only written ones take memory, and most comms use a small part of the ring. */
struct plait_replica *plait_replica_create(uint64_t id, uint32_t rank, uint32_t nrank, const char *name)
{
    struct plait_replica *m;
    void *pages;

    if (plait_reserve(plait_replica_bytes(), true, -1, "what is heard of a rank", &pages) != PLAIT_OK)
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
        munmap(replica, plait_replica_bytes());
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

uint32_t plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint32_t probes, uint64_t now,
                                    bool departs, void *out)
{
    enum { KEPT = PLAIT_NRECORD / 2 }; /* newest half of the ring: these are not overwritten soon */
    struct plait_control_update update = { .rank = own->rank, .probes = probes, .now = now };
    struct plait_record records[PLAIT_CONTROL_UPDATE_RECORDS];
    struct plait_progress progress;
    struct plait_operation newest;
    uint64_t last = 0;
    char *at = out;

    update.departed = departs;
    update.failed = atomic_load_explicit(&own->failed, memory_order_acquire);
    update.noticed = (uint8_t)atomic_load_explicit(&own->noticed, memory_order_acquire);
    update.receiving = (uint8_t)atomic_load_explicit(&own->receiving, memory_order_acquire);
    update.culprit = update.failed != PLAIT_OK ? own->culprit : 0;
    update.done = atomic_load_explicit(&own->done, memory_order_acquire);
    update.wanted = atomic_load_explicit(&own->unheard, memory_order_acquire); /* read after done: written before it */
    if (update.wanted == 0)
        update.wanted = update.done + 1;
    update.from = update.done > KEPT && wanted <= update.done - KEPT ? update.done - KEPT + 1 : wanted;
    update.nrecord = copy_records(&own->ring, update.done, update.from, records, &last);
    memset(&progress, 0, sizeof progress);
    if (plait_ring_read(&own->ring, last, update.done, false, &newest) && newest.has_progress)
        plait_progress_write(&progress, &newest);
    update.bytes = (uint32_t)(sizeof update + update.nrecord * sizeof *records + sizeof progress +
                              (update.failed != PLAIT_OK ? sizeof own->failure : 0));
    memcpy(at, &update, sizeof update);
    at += sizeof update;
    memcpy(at, records, update.nrecord * sizeof *records);
    at += update.nrecord * sizeof *records;
    memcpy(at, &progress, sizeof progress);
    at += sizeof progress;
    if (update.failed != PLAIT_OK)
        memcpy(at, own->failure, sizeof own->failure);
    return update.bytes;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

bool plait_control_update_check(const void *bytes, size_t n, uint32_t nrank)
{
    struct plait_control_update update;

    if (n < sizeof update)
        return false;
    memcpy(&update, bytes, sizeof update);
    if (update.bytes > n || update.rank >= nrank || update.nrecord > PLAIT_CONTROL_UPDATE_RECORDS ||
        update.culprit > nrank)
        return false;
    const size_t text = update.failed != PLAIT_OK ? sizeof((struct plait_control *)0)->failure : 0;
    return update.bytes ==
           sizeof update + update.nrecord * sizeof(struct plait_record) + sizeof(struct plait_progress) + text;
}

/* ahead: ns by which the clock of this process is ahead of the rank's. */
static void apply_progress(struct plait_ring *ring, const struct plait_progress *from, uint64_t ahead)
{
    struct plait_operation o = { .sequence = atomic_load_explicit(&from->sequence, memory_order_relaxed) };

    if (o.sequence == 0 || !plait_progress_read(from, &o))
        return;
    o.began += o.began > 0 ? ahead : 0;
    o.probed += ahead;
    plait_progress_write(plait_ring_progress(ring, o.sequence), &o);
}

static void apply_record(struct plait_ring *ring, const struct plait_record *from)
{
    const uint64_t word = atomic_load_explicit(&from->word, memory_order_relaxed);
    const struct plait_record *old = plait_ring_record(ring, (uint32_t)word);

    if ((uint32_t)word != 0 && atomic_load_explicit(&old->word, memory_order_relaxed) != word)
        plait_ring_add(ring, (uint32_t)word, word, &from->what, memory_order_release);
}

void plait_control_update_apply(const void *bytes, struct plait_replica *replica, uint64_t now)
{
    struct plait_control *c = &replica->control;
    struct plait_record record;
    struct plait_progress progress;
    struct plait_control_update update;
    const char *at = bytes;

    memcpy(&update, at, sizeof update);
    at += sizeof update;
    for (uint32_t i = 0; i < update.nrecord; i++, at += sizeof record) {
        memcpy(&record, at, sizeof record);
        apply_record(&c->ring, &record);
    }
    memcpy(&progress, at, sizeof progress);
    at += sizeof progress;
    apply_progress(&c->ring, &progress, now - update.now);
    replica->wanted = update.wanted;
    atomic_store_explicit(&replica->from, update.from, memory_order_release);
    if (update.probes != replica->probes)
        atomic_store_explicit(&c->seen, 1e-9 * (double)now, memory_order_relaxed);
    replica->probes = update.probes;
    atomic_store_explicit(&replica->silent, update.silence > 0 ? 1e-9 * (double)now - 1e-3 * update.silence : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&c->receiving, update.receiving, memory_order_relaxed);
    atomic_store_explicit(&c->noticed, update.noticed, memory_order_relaxed);
    if (update.done > atomic_load_explicit(&c->done, memory_order_relaxed))
        atomic_store_explicit(&c->done, update.done, memory_order_release);
    if (update.failed != PLAIT_OK && atomic_load_explicit(&c->failed, memory_order_relaxed) == PLAIT_OK) {
        memcpy(c->failure, at, sizeof c->failure);
        c->failure[sizeof c->failure - 1] = '\0';
        c->culprit = update.culprit;
        atomic_store(&c->failed, update.failed);
    }
    atomic_store_explicit(&c->departed, update.departed, memory_order_release);
    if (update.dead)
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
}
