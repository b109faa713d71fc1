/* SPDX-License-Identifier: BSD-3-Clause */
#include "message_ring.h"

/* ---- Reading ------------------------------------------------------------------------------------- */

/* Copy the record of `place`. False if the ring does not have it or its owner is writing it. */
static bool read_record(const struct plait_message_ring *ring, uint64_t place, bool failed, struct plait_operation *out)
{
    const struct plait_message_record *r = &ring->record[place % PLAIT_NMESSAGE_RECORD];

    if (place == 0 || atomic_load_explicit(&r->place, memory_order_acquire) != place)
        return false;
    *out = (struct plait_operation){ .message = true };
    out->sequence = atomic_load_explicit(&r->number, memory_order_relaxed);
    out->what.count = atomic_load_explicit(&r->count, memory_order_relaxed);
    out->began = atomic_load_explicit(&r->began, memory_order_relaxed);
    out->peer = atomic_load_explicit(&r->peer, memory_order_relaxed);
    out->slices = atomic_load_explicit(&r->slices, memory_order_relaxed);
    out->nslice = atomic_load_explicit(&r->nslice, memory_order_relaxed);
    out->what.type = atomic_load_explicit(&r->type, memory_order_relaxed);
    out->send = atomic_load_explicit(&r->send, memory_order_relaxed) != 0;
    out->waiting_for = atomic_load_explicit(&r->waiting, memory_order_relaxed) ? out->peer + 1 : 0;
    out->waited_for = atomic_load_explicit(&r->waited, memory_order_relaxed) ? out->peer + 1 : 0;
    out->state = atomic_load_explicit(&r->done, memory_order_relaxed) ? PLAIT_DONE
                 : failed                                             ? PLAIT_FAILED
                                                                      : PLAIT_RUNNING;
    out->has_progress = out->began > 0;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&r->place, memory_order_relaxed) == place;
}

/* The place of the newest record, or 0. */
static uint64_t newest(const struct plait_message_ring *ring)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < PLAIT_NMESSAGE_RECORD; i++) {
        const uint64_t place = atomic_load_explicit(&ring->record[i].place, memory_order_relaxed);
        most = place > most ? place : most;
    }
    return most;
}

/* Count the messages that have ended, or those that have not; visit all but the oldest `skip` of them. */
static uint32_t walk(const struct plait_message_ring *ring, bool failed, bool ended, uint32_t skip,
                     void (*visit)(void *context, const struct plait_operation *o), void *context)
{
    const uint64_t last = newest(ring);
    struct plait_operation o;
    uint32_t n = 0;

    for (uint64_t k = PLAIT_NMESSAGE_RECORD; k-- > 0;)
        if (last > k && read_record(ring, last - k, failed, &o) && (o.state == PLAIT_DONE) == ended)
            if (n++ >= skip && visit != NULL)
                visit(context, &o);
    return n;
}

static uint32_t excess(uint32_t n, uint32_t most)
{
    return n > most ? n - most : 0;
}

void plait_message_ring_visit(const struct plait_message_ring *ring, bool failed, uint32_t most,
                              void (*visit)(void *context, const struct plait_operation *o), void *context)
{
    const uint32_t pending = walk(ring, failed, false, 0, NULL, NULL), ended = walk(ring, failed, true, 0, NULL, NULL);

    walk(ring, failed, true, excess(ended, excess(most, pending)), visit, context);
    walk(ring, failed, false, excess(pending, most), visit, context);
}

bool plait_message_ring_waits(const struct plait_message_ring *ring, struct plait_operation *out)
{
    const uint64_t last = newest(ring);

    for (uint64_t k = 0; k < PLAIT_NMESSAGE_RECORD && k < last; k++)
        if (read_record(ring, last - k, false, out) && out->state == PLAIT_RUNNING && out->waiting_for > 0)
            return true;
    return false;
}

bool plait_message_ring_receives(const struct plait_message_ring *ring, uint32_t peer, uint64_t number,
                                 struct plait_operation *out)
{
    const uint64_t last = newest(ring);

    for (uint64_t k = 0; k < PLAIT_NMESSAGE_RECORD && k < last; k++)
        if (read_record(ring, last - k, false, out) && !out->send && out->peer == peer && out->sequence == number)
            return true;
    return false;
}
