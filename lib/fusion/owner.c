/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The callbacks of a fusion for its communicator: a turn, and the tensors that ranks lack.
 *
 * While the fusion waits for tensors of this rank, no operation runs that would detect failures. Its turns detect them
 * instead, warn of a stall, and after the deadline fail the communicator.
 */
#include "fusion.h"

#include <stdio.h>

/* ---- Reports of stalls ------------------------------------------------------------------------------------ */

/* Name the tensors of a bucket that a rank has not marked in its next round: the first one, and how many more. */
static uint32_t name_missing(const struct plait_fusion *f, uint32_t k, const _Atomic uint32_t *marks, char *text,
                             size_t room)
{
    const uint32_t round = plait_bucket_ended(&f->buckets[k]) + 1;
    uint32_t n = 0, first = 0;
    char more[32] = "";

    for (uint32_t t = f->flat.buckets[k].first; t != PLAIT_NOTHING; t = f->flat.places[t].next)
        if (plait_mark_round(atomic_load_explicit(&marks[t], memory_order_relaxed)) != round && n++ == 0)
            first = t;
    if (n > 1)
        snprintf(more, sizeof more, " and %u more", n - 1);
    if (n > 0)
        snprintf(text, room, "%u '%s'%s of bucket %u %s neither ready nor skipped on it", first, f->tensors[first].name,
                 more, k, n > 1 ? "are" : "is");
    return n;
}

static void excuse(const void *fusion, uint32_t rank, char *text, size_t room)
{
    const struct plait_fusion *f = fusion;
    const uint32_t k = plait_fusion_oldest(f);
    char names[200];

    if (f->nflying == 0)
        return;
    if (f->others[rank] == NULL)
        snprintf(text, room, " (which tensors it lacks is known on its host only)");
    else if (name_missing(f, k, f->others[rank], names, sizeof names) > 0)
        snprintf(text, room, ": %s", names);
}

static uint32_t blame(const void *fusion, char *text, size_t room)
{
    const struct plait_fusion *f = fusion;
    char names[200] = "";
    const uint32_t n = name_missing(f, f->next, f->marks, names, sizeof names);

    snprintf(text, room, "rank %u: tensor%s %s", f->rank, n > 1 ? "s" : "", names);
    return f->rank + 1;
}

/* ---- Turns, under the comm's lock -------------------------------------------------------------------------- */

/* This rank is in no operation: other ranks ask excuse() instead of a note. */
static const struct plait_wait_kind for_tensors = { .blame = blame, .everybody = true };

static bool turn(void *fusion, bool rarely)
{
    struct plait_fusion *f = fusion;
    enum plait_fusion_awaits awaits = PLAIT_FUSION_AWAITS_RANKS;
    enum plait_status status = PLAIT_OK;
    const bool moved = plait_fusion_turn(f, &awaits);

    if (plait_has_failed(f->comm))
        return moved;
    for (unsigned i = 0; plait_spaces[i] != NULL && status == PLAIT_OK; i++)
        status = plait_spaces[i]->poll(f->comm);
    if (status == PLAIT_OK && awaits == PLAIT_FUSION_AWAITS_DEVICE)
        status = plait_wait_poll(f->comm, &f->queue_wait, moved, rarely);
    if (status == PLAIT_OK)
        status = plait_wait_poll(f->comm, &f->wait, moved || awaits != PLAIT_FUSION_AWAITS_SELF, rarely);
    if (status != PLAIT_OK)
        plait_requests_fail(f->comm, status);
    return moved || status != PLAIT_OK;
}

void plait_fusion_own(struct plait_fusion *f)
{
    f->owner = (struct plait_owner){ "a fusion's; plait_fusion_destroy() ends both", turn, excuse, f };
    plait_wait_init(&f->wait, &for_tensors, f);
    plait_queue_wait_init(f->comm, &f->queue_wait);
    pthread_mutex_lock(&f->comm->lock);
    f->comm->owner = &f->owner;
    pthread_mutex_unlock(&f->comm->lock);
}
