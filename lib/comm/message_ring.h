/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of a rank's last sends and receives, in its arena, beside the ring of its collectives (record.h). Many are
 * pending at once and they end in any order, so each record has its own completion flag.
 *
 * A message gets its record when it becomes the first of its queue; records are in that order. A message that still
 * waits when later ones have overwritten its record gets a new one: the ring always has the message in which a rank
 * hangs. The clock is read only for messages of several slices and in long waits.
 *
 * Readers are concurrent, as with the other ring: `place` is zeroed first and written last.
 */
#ifndef PLAIT_LIB_COMM_MESSAGE_RING_H
#define PLAIT_LIB_COMM_MESSAGE_RING_H

#include "record.h"

#define PLAIT_NMESSAGE_RECORD 256 /* messages a rank remembers */

struct plait_message_what { /* a message as a rank called it */
    uint64_t number;        /* counts messages to, or from, this peer, from 1 */
    uint64_t count;
    uint32_t peer, nslice;
    uint8_t type, send;
};

struct plait_message_record {
    _Alignas(64) _Atomic uint64_t place; /* position in the ring's order, from 1; written last */
    _Atomic uint64_t number, count;
    _Atomic uint64_t began; /* nanoseconds of CLOCK_MONOTONIC; 0: not known */
    _Atomic uint32_t peer, slices, nslice;
    _Atomic uint8_t type, send;
    _Atomic uint8_t done, waiting, waited; /* waiting: in a long wait for the peer; waited: now or before */
};
_Static_assert(sizeof(struct plait_message_record) == 64, "one line each");

struct plait_message_ring {
    struct plait_message_record record[PLAIT_NMESSAGE_RECORD];
};

/* Write the record of `place`. began: 0: not known. */
static inline void plait_message_ring_add(struct plait_message_ring *ring, uint64_t place,
                                          const struct plait_message_what *what, uint64_t began, uint32_t slices)
{
    struct plait_message_record *r = &ring->record[place % PLAIT_NMESSAGE_RECORD];

    atomic_store_explicit(&r->place, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&r->number, what->number, memory_order_relaxed);
    atomic_store_explicit(&r->count, what->count, memory_order_relaxed);
    atomic_store_explicit(&r->began, began, memory_order_relaxed);
    atomic_store_explicit(&r->peer, what->peer, memory_order_relaxed);
    atomic_store_explicit(&r->slices, slices, memory_order_relaxed);
    atomic_store_explicit(&r->nslice, what->nslice, memory_order_relaxed);
    atomic_store_explicit(&r->type, what->type, memory_order_relaxed);
    atomic_store_explicit(&r->send, what->send, memory_order_relaxed);
    atomic_store_explicit(&r->done, 0, memory_order_relaxed);
    atomic_store_explicit(&r->waiting, 0, memory_order_relaxed);
    atomic_store_explicit(&r->waited, 0, memory_order_relaxed);
    atomic_store_explicit(&r->place, place, memory_order_release);
}

/* For the owner: the record of `place`; NULL if there is none, or it was overwritten. */
static inline struct plait_message_record *plait_message_ring_find(struct plait_message_ring *ring, uint64_t place)
{
    struct plait_message_record *r = &ring->record[place % PLAIT_NMESSAGE_RECORD];
    return place > 0 && atomic_load_explicit(&r->place, memory_order_relaxed) == place ? r : NULL;
}

/*
 * Visit at most `most` messages: the pending ones last, before them ended ones while there is room; each group oldest
 * first. Nothing that is read is trusted.
 */
void plait_message_ring_visit(const struct plait_message_ring *ring, bool failed, uint32_t most,
                              void (*visit)(void *context, const struct plait_operation *o), void *context);

/* Has the ring a receive of message `number` (from 1) from `peer`, pending or recently ended? */
bool plait_message_ring_receives(const struct plait_message_ring *ring, uint32_t peer, uint64_t number,
                                 struct plait_operation *out);

/* The newest message that is in a long wait; false: none. */
bool plait_message_ring_waits(const struct plait_message_ring *ring, struct plait_operation *out);

#endif
