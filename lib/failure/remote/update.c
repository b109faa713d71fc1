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
    return offsetof(struct plait_replica, control) + offsetof(struct plait_control, small);
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

static void copy_progress(const struct plait_operation *o, struct plait_progress *out)
{
    memset(out, 0, sizeof *out);
    if (!o->has_progress)
        return;
    atomic_init(&out->sequence, o->sequence);
    atomic_init(&out->began, o->began);
    atomic_init(&out->probed, o->probed);
    atomic_init(&out->steps, o->steps);
    atomic_init(&out->nstep, o->nstep);
    atomic_init(&out->slices, o->slices);
    atomic_init(&out->nslice, o->nslice);
    atomic_init(&out->waiting_for, o->waiting_for);
    atomic_init(&out->waited_for, o->waited_for);
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

uint32_t plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint32_t looks, uint64_t now,
                                    bool departs, void *out)
{
    enum { KEPT = PLAIT_NRECORD / 2 }; /* newest half of the ring: these are not overwritten soon */
    struct plait_control_update news = { .rank = own->rank, .looks = looks, .now = now };
    struct plait_record records[PLAIT_CONTROL_UPDATE_RECORDS];
    struct plait_progress progress;
    struct plait_operation newest = { .has_progress = false };
    uint64_t last = 0;
    char *at = out;

    news.departed = departs;
    news.failed = atomic_load_explicit(&own->failed, memory_order_acquire);
    news.noticed = (uint8_t)atomic_load_explicit(&own->noticed, memory_order_acquire);
    news.receiving = (uint8_t)atomic_load_explicit(&own->receiving, memory_order_acquire);
    news.culprit = news.failed != PLAIT_OK ? own->culprit : 0;
    news.done = atomic_load_explicit(&own->done, memory_order_acquire);
    news.wanted = atomic_load_explicit(&own->unheard, memory_order_acquire); /* read after done: written before it */
    if (news.wanted == 0)
        news.wanted = news.done + 1;
    news.from = news.done > KEPT && wanted <= news.done - KEPT ? news.done - KEPT + 1 : wanted;
    news.nrecord = copy_records(&own->ring, news.done, news.from, records, &last);
    plait_ring_read(&own->ring, last, news.done, false, &newest);
    copy_progress(&newest, &progress);
    news.bytes = (uint32_t)(sizeof news + news.nrecord * sizeof *records + sizeof progress +
                            (news.failed != PLAIT_OK ? sizeof own->failure : 0));
    memcpy(at, &news, sizeof news);
    at += sizeof news;
    memcpy(at, records, news.nrecord * sizeof *records);
    at += news.nrecord * sizeof *records;
    memcpy(at, &progress, sizeof progress);
    at += sizeof progress;
    if (news.failed != PLAIT_OK)
        memcpy(at, own->failure, sizeof own->failure);
    return news.bytes;
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

bool plait_control_update_check(const void *bytes, size_t n, uint32_t nrank)
{
    struct plait_control_update news;

    if (n < sizeof news)
        return false;
    memcpy(&news, bytes, sizeof news);
    if (news.bytes > n || news.rank >= nrank || news.nrecord > PLAIT_CONTROL_UPDATE_RECORDS || news.culprit > nrank)
        return false;
    const size_t text = news.failed != PLAIT_OK ? sizeof((struct plait_control *)0)->failure : 0;
    return news.bytes ==
           sizeof news + news.nrecord * sizeof(struct plait_record) + sizeof(struct plait_progress) + text;
}

/* As readers of rings expect: `sequence` is zeroed first and written last. */
static void apply_progress(struct plait_ring *ring, const struct plait_progress *from, uint64_t ahead)
{
    const uint64_t sequence = atomic_load_explicit(&from->sequence, memory_order_relaxed);
    struct plait_progress *to = plait_ring_progress(ring, sequence);

    if (sequence == 0)
        return;
    const uint64_t began = atomic_load_explicit(&from->began, memory_order_relaxed);
    plait_progress_begin(ring, sequence, began > 0 ? began + ahead : 0,
                         atomic_load_explicit(&from->nslice, memory_order_relaxed),
                         atomic_load_explicit(&from->nstep, memory_order_relaxed));
    atomic_store_explicit(&to->probed, atomic_load_explicit(&from->probed, memory_order_relaxed) + ahead,
                          memory_order_relaxed);
    atomic_store_explicit(&to->steps, atomic_load_explicit(&from->steps, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&to->slices, atomic_load_explicit(&from->slices, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&to->waited_for, atomic_load_explicit(&from->waited_for, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->waiting_for, atomic_load_explicit(&from->waiting_for, memory_order_relaxed),
                          memory_order_release);
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
    struct plait_control_update news;
    const char *at = bytes;

    memcpy(&news, at, sizeof news);
    at += sizeof news;
    for (uint32_t i = 0; i < news.nrecord; i++, at += sizeof record) {
        memcpy(&record, at, sizeof record);
        apply_record(&c->ring, &record);
    }
    memcpy(&progress, at, sizeof progress);
    at += sizeof progress;
    apply_progress(&c->ring, &progress, now - news.now);
    replica->wanted = news.wanted;
    atomic_store_explicit(&replica->from, news.from, memory_order_release);
    if (news.looks != replica->looks)
        atomic_store_explicit(&c->seen, 1e-9 * (double)now, memory_order_relaxed);
    replica->looks = news.looks;
    atomic_store_explicit(&replica->silent, news.silence > 0 ? 1e-9 * (double)now - 1e-3 * news.silence : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&c->receiving, news.receiving, memory_order_relaxed);
    atomic_store_explicit(&c->noticed, news.noticed, memory_order_relaxed);
    if (news.done > atomic_load_explicit(&c->done, memory_order_relaxed))
        atomic_store_explicit(&c->done, news.done, memory_order_release);
    if (news.failed != PLAIT_OK && atomic_load_explicit(&c->failed, memory_order_relaxed) == PLAIT_OK) {
        memcpy(c->failure, at, sizeof c->failure);
        c->failure[sizeof c->failure - 1] = '\0';
        c->culprit = news.culprit;
        atomic_store(&c->failed, news.failed);
    }
    atomic_store_explicit(&c->departed, news.departed, memory_order_release);
    if (news.dead)
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
}
