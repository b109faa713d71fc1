/* SPDX-License-Identifier: BSD-3-Clause */
#include "relay.h"

#include "base/descriptor.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#define HEARTBEAT 0.5 /* seconds after which an unchanged update is sent again */

static bool is_root(const struct plait_remote *r)
{
    return r->comm->rank == 0;
}

static struct plait_control_update head_of(const char *update)
{
    struct plait_control_update head;

    memcpy(&head, update, sizeof head);
    return head;
}

/* Are two updates equal but for their clocks? */
static bool same(const char *a, const char *b)
{
    struct plait_control_update x = head_of(a), y = head_of(b);

    x.now = y.now = 0;
    return memcmp(&x, &y, sizeof x) == 0 && memcmp(a + sizeof x, b + sizeof y, x.bytes - sizeof x) == 0;
}

/* ---- This rank ------------------------------------------------------------------------------------------- */

/* The first operation that some rank of another host has yet to compare with this rank's, by its last update. */
static uint64_t wanted(const struct plait_remote *r)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t rank = 0; rank < r->comm->nrank; rank++) {
        const struct plait_replica *m = r->comm->peers[rank].replica;
        if (m != NULL && m->wanted < least)
            least = m->wanted;
    }
    return least > 0 ? least : 1;
}

/* Make a new update of this rank if its state has changed or a heartbeat is due. */
static void update_own(struct plait_remote *r, double now)
{
    const struct plait_control *own = r->comm->own;
    const double seen = atomic_load_explicit(&own->seen, memory_order_relaxed);
    struct plait_known *k = &r->known[0]; /* on rank 0, too */
    char update[PLAIT_CONTROL_UPDATE_MOST];

    r->probes += seen != r->seen;
    r->seen = seen;
    const uint32_t bytes =
        plait_control_update_write(own, wanted(r), r->probes, (uint64_t)(now * 1e9), atomic_load(&r->leaving), update);
    if (k->version > 0 && same(update, k->update) && now - r->sent < HEARTBEAT)
        return;
    memcpy(k->update, update, bytes);
    k->version = ++r->newest;
    r->sent = now;
}

/* ---- The others ------------------------------------------------------------------------------------------ */

/* Take an update of another rank: apply it to the replica, if there is one; rank 0 keeps it to relay it. */
static void learn(struct plait_remote *r, const char *update, double now)
{
    const struct plait_control_update head = head_of(update);
    struct plait_replica *replica = r->comm->peers[head.rank].replica;

    if (replica != NULL)
        plait_control_update_apply(update, replica, (uint64_t)(now * 1e9));
    if (!is_root(r))
        return;
    struct plait_known *k = &r->known[head.rank];
    if (k->version == 0 || !same(update, k->update))
        k->version = ++r->newest;
    memcpy(k->update, update, head.bytes);
}

/* Rank 0 reports a rank as dead or silent: the rank's last update, with the current clock. Not after a departure. */
static void report(struct plait_remote *r, uint32_t rank, bool dead, double now)
{
    const double silence = now - r->lines[rank].heard;
    struct plait_known k = r->known[rank];
    struct plait_control_update head = { .bytes = sizeof head + sizeof(struct plait_progress), .rank = rank };

    if (k.version > 0)
        head = head_of(k.update);
    if (head.departed)
        return;
    head.now += (uint64_t)(silence * 1e9);
    head.dead = dead;
    head.silence = dead ? 0 : (uint32_t)(silence * 1e3);
    memcpy(k.update, &head, sizeof head);
    learn(r, k.update, now);
}

/* The connection has ended: its rank departed, or it died. */
static void lose(struct plait_remote *r, uint32_t line, double now)
{
    struct plait_replica *replica = r->comm->peers[0].replica;

    plait_line_close(&r->lines[line]);
    if (is_root(r)) {
        report(r, line, true, now);
        return;
    }
    atomic_store(&r->over, true);
    if (replica != NULL && !atomic_load_explicit(&replica->control.departed, memory_order_relaxed))
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
}

void plait_relay_note_loss(struct plait_remote *r)
{
    if (atomic_load(&r->lost))
        return;
    snprintf(r->loss, sizeof r->loss, "%s", plait_last_error());
    atomic_store(&r->lost, true);
}

/* Is the line open, and its descriptor still ours? One that the program has reused is left open. */
static bool is_open(struct plait_remote *r, uint32_t line)
{
    struct plait_line *l = &r->lines[line];

    if (l->fd < 0 || plait_descriptor_check(l->fd) == PLAIT_OK)
        return l->fd >= 0;
    plait_relay_note_loss(r);
    plait_line_close(l);
    if (!is_root(r))
        atomic_store(&r->over, true);
    return false;
}

/* Take all updates that arrived; only rank 0 may send those of others. False: the connection has ended. */
static bool hear(struct plait_remote *r, uint32_t line, double now)
{
    struct plait_line *l = &r->lines[line];
    const bool open = plait_line_read(l);
    const char *update;

    while ((update = plait_line_next(l, r->comm->nrank)) != NULL) {
        const struct plait_control_update head = head_of(update);
        l->heard = now;
        l->silent = false;
        if (is_root(r) ? head.rank != line || head.dead || head.silence > 0 : head.rank == r->comm->rank)
            return false;
        learn(r, update, now);
    }
    return open && l->fd >= 0;
}

/* Rank 0: find ranks that missed their heartbeats, which come even while a rank computes. */
static void find_silent(struct plait_remote *r, double now)
{
    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++) {
        struct plait_line *l = &r->lines[rank];
        if (l->fd < 0 || l->silent || now - l->heard < PLAIT_REMOTE_SILENCE)
            continue;
        l->silent = true;
        report(r, rank, false, now);
    }
}

/* Send the updates that the other end lacks. True: all are sent. */
static bool speak(struct plait_remote *r, uint32_t line)
{
    struct plait_line *l = &r->lines[line];

    if (l->fd < 0)
        return true;
    if (plait_line_is_idle(l) && l->told != r->newest) {
        bool all = true;
        for (uint32_t k = 0; k < r->nline && all; k++)
            if (r->known[k].version > l->told && (!is_root(r) || k != line))
                all = plait_line_add(l, r->known[k].update, head_of(r->known[k].update).bytes);
        if (all) /* else it is out of memory: retry at the next turn */
            l->told = r->newest;
    }
    plait_line_write(l);
    return plait_line_is_idle(l) && l->told == r->newest;
}

/*
 * Rank 0 leaves when all have finished. Have updates from all of them said so, for it to relay? It may know of ranks on
 * its own host earlier, from their control blocks.
 */
static bool has_heard_all(const struct plait_remote *r)
{
    const uint64_t done = atomic_load_explicit(&r->comm->own->done, memory_order_relaxed);

    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++)
        if (r->lines[rank].fd >= 0 && head_of(r->known[rank].update).done < done &&
            atomic_load(&r->comm->own->failed) == PLAIT_OK)
            return false;
    return true;
}

void plait_relay_turn(struct plait_remote *r, double now)
{
    bool all = true;

    update_own(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        if (is_open(r, i) && !hear(r, i, now) && (r->lines[i].fd < 0 || is_open(r, i)))
            lose(r, i, now);
    find_silent(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        all &= speak(r, i);
    if (all && atomic_load(&r->leaving) && has_heard_all(r))
        r->left = true;
}
