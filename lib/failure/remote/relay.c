/* SPDX-License-Identifier: BSD-3-Clause */
#include "relay.h"

#include "base/clock.h"
#include "base/descriptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HEARTBEAT 0.5 /* seconds after which an unchanged update is sent again */

/* ---- This rank ------------------------------------------------------------------------------------------- */

/* Are two updates equal but for their clocks? */
static bool same(const struct plait_control_update *a, const struct plait_control_update *b)
{
    struct plait_control_update x = *a;

    x.now = b->now;
    return x.bytes == b->bytes && memcmp(&x, b, b->bytes) == 0;
}

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
    struct line *k = &r->lines[0]; /* on rank 0, too */
    struct plait_control_update update;

    r->probes += seen != r->seen;
    r->seen = seen;
    plait_control_update_write(own, wanted(r), (uint64_t)(now * 1e9), &update);
    update.probes = r->probes;
    update.departed = r->leaving;
    if (k->version > 0 && same(&update, &k->update) && now - r->sent < HEARTBEAT)
        return;
    k->update = update;
    k->version = ++r->newest;
    r->sent = now;
}

/* ---- The others ------------------------------------------------------------------------------------------ */

/* Take an update of another rank: apply it to the replica, if there is one; rank 0 keeps it to relay it. */
static void learn(struct plait_remote *r, const struct plait_control_update *update, double now)
{
    struct plait_replica *replica = r->comm->peers[update->rank].replica;

    if (replica != NULL)
        plait_control_update_apply(update, replica, (uint64_t)(now * 1e9));
    if (!plait_relay_is_root(r))
        return;
    struct line *k = &r->lines[update->rank];
    if (k->version == 0 || !same(update, &k->update))
        k->version = ++r->newest;
    k->update = *update;
}

/* Rank 0 reports a rank as dead or silent: the rank's last update, with the current clock. Not after a departure. */
static void report(struct plait_remote *r, uint32_t rank, bool dead, double now)
{
    const double silence = now - r->lines[rank].heard;
    struct plait_control_update update = r->lines[rank].update;

    if (update.departed)
        return;
    update.now += (uint64_t)(silence * 1e9);
    update.dead = dead;
    update.silence = dead ? 0 : (uint32_t)(silence * 1e3);
    learn(r, &update, now);
}

void plait_relay_note_loss(struct plait_remote *r, enum plait_status status)
{
    if (atomic_load(&r->lost))
        return;
    r->loss = plait_error_of(status);
    atomic_store(&r->lost, true);
}

/* The connection has ended: its rank departed, it died, or the program has closed the descriptor. */
static void lose(struct plait_remote *r, uint32_t line, double now)
{
    struct plait_replica *replica = r->comm->peers[0].replica;
    const enum plait_status status = plait_descriptor_check(r->lines[line].fd);

    plait_descriptor_close(r->lines[line].fd);
    r->lines[line].fd = -1;
    if (!plait_relay_is_root(r))
        atomic_store(&r->over, true);
    if (status != PLAIT_OK) {
        plait_relay_note_loss(r, status);
    } else if (plait_relay_is_root(r)) {
        report(r, line, true, now);
    } else if (replica != NULL && !atomic_load_explicit(&replica->control.departed, memory_order_relaxed)) {
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
    }
}

/* Take all updates that arrived; only rank 0 may send those of others. False: the connection has ended. */
static bool hear(struct plait_remote *r, uint32_t line, double now)
{
    struct line *l = &r->lines[line];
    struct plait_control_update update;
    ssize_t n;

    while ((n = recv(l->fd, l->in + l->have, sizeof l->in - l->have, MSG_DONTWAIT)) > 0) {
        size_t taken = 0, bytes;
        l->have += (size_t)n;
        while ((bytes = plait_control_update_read(l->in + taken, l->have - taken, r->comm->nrank, &update)) > 0) {
            if (bytes == SIZE_MAX || (plait_relay_is_root(r) ? update.rank != line || update.dead || update.silence > 0
                                                             : update.rank == r->comm->rank))
                return false;
            taken += bytes;
            l->heard = now;
            l->silent = false;
            learn(r, &update, now);
        }
        l->have -= taken;
        memmove(l->in, l->in + taken, l->have);
    }
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* Rank 0: find ranks that missed their heartbeats, which come even while a rank computes. */
static void find_silent(struct plait_remote *r, double now)
{
    for (uint32_t rank = 1; plait_relay_is_root(r) && rank < r->nline; rank++) {
        struct line *l = &r->lines[rank];
        if (l->fd < 0 || l->silent || now - l->heard < PLAIT_REMOTE_SILENCE)
            continue;
        l->silent = true;
        report(r, rank, false, now);
    }
}

/* Send as much of `out` as the socket accepts. Returns whether that is all. A failure shows at the next read. */
static bool flush(struct line *l)
{
    while (l->sent < l->filled) {
        const ssize_t n = send(l->fd, l->out + l->sent, l->filled - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        l->sent += n > 0 ? (size_t)n : 0;
    }
    l->filled = l->sent = 0;
    return true;
}

/* Send the updates that the other end lacks. True: all are sent. */
static bool speak(struct plait_remote *r, uint32_t line)
{
    struct line *l = &r->lines[line];

    while (l->fd >= 0 && (l->next > 0 || l->told != r->newest)) {
        const struct line *k = &r->lines[l->next];
        l->upto = l->next == 0 ? r->newest : l->upto;
        if (k->version > l->told && (!plait_relay_is_root(r) || l->next != line)) {
            if (sizeof l->out - l->filled < k->update.bytes && !flush(l))
                return false;
            memcpy(l->out + l->filled, &k->update, k->update.bytes);
            l->filled += k->update.bytes;
        }
        if (++l->next == r->nline) {
            l->next = 0;
            l->told = l->upto;
        }
    }
    return l->fd < 0 || flush(l);
}

/*
 * Rank 0 leaves when all have finished. Have updates from all of them said so, for it to relay? It may know of ranks on
 * its own host earlier, from their control blocks.
 */
static bool has_heard_all(const struct plait_remote *r)
{
    const uint64_t done = atomic_load_explicit(&r->comm->own->done, memory_order_relaxed);

    for (uint32_t rank = 1; plait_relay_is_root(r) && rank < r->nline; rank++)
        if (r->lines[rank].fd >= 0 && r->lines[rank].update.done < done &&
            atomic_load(&r->comm->own->failed) == PLAIT_OK)
            return false;
    return true;
}

void plait_relay_turn(struct plait_remote *r)
{
    const double now = plait_clock();
    bool all = true;

    update_own(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        if (r->lines[i].fd >= 0 && (!plait_descriptor_is_ours(r->lines[i].fd) || !hear(r, i, now)))
            lose(r, i, now);
    find_silent(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        all &= speak(r, i);
    r->left |= all && r->leaving && has_heard_all(r);
}
