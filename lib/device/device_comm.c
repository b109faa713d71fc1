/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_comm.h"

#include "base/clock.h"
#include "base/status.h"
#include "device_whole.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "memory/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_PATIENCE 2.0 /* seconds, as in plait_comm_destroy() */
#define MOST_ERRORS   3   /* failed queries of progress until the device counts as broken */

void plait_device_note_as(struct plait_comm *comm, enum plait_status status, const char *why)
{
    struct plait_device_comm *d = comm->device;

    if (why == NULL || d->why[0] != '\0')
        return;
    snprintf(d->why, sizeof d->why, "%s", why);
    d->as = status;
}

/* ---- What others see ------------------------------------------------------------------------------- */

static bool has_other_processes(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (comm->peers[r].process != NULL && comm->peers[r].process->base != NULL)
            return true;
    return false;
}

const struct plait_device_shown *plait_device_shown_by(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_peer *p = &comm->peers[rank];
    const uint64_t at = p->process != NULL ? atomic_load(&p->control->device) : 0;

    return at > 0 ? plait_process_at(p->process, at) : NULL;
}

static enum plait_status show(struct plait_comm *comm)
{
    struct plait_device_comm *d = comm->device;
    const struct plait_arena *arena;
    const size_t lines = (size_t)PLAIT_NFLAGGED * comm->nrank * PLAIT_WINDOW;
    struct {
        uint32_t first; /* the lowest rank of this host */
        unsigned char uuid[16];
    } gpu = { 0 };
    const char *why = NULL;
    void *memory;
    enum plait_status status = plait_arena_get(&arena);

    if (status == PLAIT_OK)
        status = plait_arena_alloc(sizeof *d->shown + lines * (sizeof(struct plait_mailbox) + sizeof(uint32_t)) +
                                       5 * comm->nrank * sizeof(uint64_t),
                                   &memory);
    if (status != PLAIT_OK)
        return status;
    d->shown = memory;
    d->shown->device = (uint32_t)d->device;
    d->shown->flags = (uintptr_t)d->flags;
    why = d->plugin->identify(d->device, gpu.uuid);
    if (why == NULL && has_other_processes(comm))
        why = d->plugin->export_memory(d->flags, &d->shown->flags_exported);
    if (why != NULL)
        return plait_device_result("memory of a GPU cannot be shown to other processes", why);
    while (comm->peers[gpu.first].process == NULL)
        gpu.first++;
    atomic_store(&comm->own->device, plait_arena_offset(memory)); /* before another's `quiet` is read */
    atomic_store(&comm->own->gpu, plait_hash(PLAIT_HASH_START, &gpu, sizeof gpu) | 1);
    plait_remote_tell(comm->remote);
    return PLAIT_OK;
}

/* ---- Making it ------------------------------------------------------------------------------------- */

static enum plait_status create(struct plait_comm *comm, int device)
{
    const struct plait_device_plugin *plugin = plait_device_used();
    struct plait_device_comm *d = calloc(1, sizeof *d);
    static const char what[] = "a comm cannot use its GPU";
    enum plait_status status;

    comm->stats.allocations++;
    if (d == NULL || (d->flags_awaited = calloc(comm->nrank, sizeof *d->flags_awaited)) == NULL) {
        free(d);
        return plait_fail_memory("out of memory for what a comm has on a GPU");
    }
    comm->device = d;
    d->comm = comm;
    d->plugin = plugin;
    d->device = device;
    status = plait_device_alloc(comm, 2 * plait_flag_words(comm->nrank) * 4, &d->flags);
    if (status == PLAIT_OK)
        status = plait_device_result(
            what, plugin->alloc(PLAIT_MEMORY_PINNED, device, sizeof *d->passed, (void **)(uintptr_t)&d->passed));
    if (status == PLAIT_OK)
        status = plait_device_result(what, plugin->create_event(device, &d->trails[1].end));
    for (int i = 0; i < 2 && status == PLAIT_OK; i++)
        status = plait_slices_create(comm->nrank, &d->slices[i]);
    if (status == PLAIT_OK)
        status = plait_device_result(what, plugin->open_queue(PLAIT_QUEUE_URGENT, NULL, device, &d->rescue));
    if (status == PLAIT_OK)
        status = show(comm);
    if (status == PLAIT_OK)
        status = plait_device_watch(d);
    if (status != PLAIT_OK)
        plait_device_comm_destroy(comm);
    return status;
}

enum plait_status plait_device_open(struct plait_comm *comm, const char *name, int device)
{
    enum plait_status status = PLAIT_OK;

    if (comm->device != NULL && comm->device->device != device)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: the stream is of GPU %d, but this rank has used GPU %d with this comm: a rank has one",
                          name, device, comm->device->device);
    if (comm->device != NULL)
        return PLAIT_OK;
    pthread_mutex_lock(&comm->lock);
    status = plait_comm_fail_too(comm, create(comm, device)); /* other ranks must not wait for this rank */
    pthread_mutex_unlock(&comm->lock);
    return status;
}

void plait_device_comm_destroy(struct plait_comm *comm)
{
    struct plait_device_comm *d = comm->device;

    if (comm->own_queue != NULL)
        plait_device_used()->close_queue(comm->own_queue);
    comm->own_queue = NULL;
    if (d == NULL)
        return;
    plait_device_unwatch(d);
    if (d->rescue != NULL)
        d->plugin->drain(d->rescue);
    atomic_store_explicit(&comm->own->device, 0, memory_order_relaxed);
    for (int i = 0; i < 2; i++)
        plait_slices_destroy(d->slices[i]);
    d->plugin->destroy_event(d->trails[1].end);
    if (d->passed != NULL && !d->lost)
        d->plugin->free(PLAIT_MEMORY_PINNED, d->passed);
    plait_device_free_all(d);
    d->plugin->close_queue(d->rescue);
    comm->shown = d->shown;
    plait_device_whole_destroy(d);
    free(d->flags_awaited);
    free(d);
    comm->device = NULL;
}

/* ---- Leaving ---------------------------------------------------------------------------------------- */

/*
 * Streams that a failed rank released may still read and write other ranks' memory. A dead rank is not waited for, a
 * stopped or broken one at most MOST_PATIENCE: the memory that it uses then leaks until the process ends.
 */
static bool others_are_quiet(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_control *c = comm->peers[r].control;
        if (r != comm->rank && atomic_load(&c->device) != 0 && !atomic_load(&c->quiet) && !atomic_load(&c->departed) &&
            !plait_peer_died(&comm->peers[r]))
            return false;
    }
    return true;
}

/*
 * Nobody knows whether a graph runs. If the comm has failed, the graph may wait for a flag, which the watch sets. The
 * device cannot be waited for while a stream is captured: this rank waits for that, too, but at most MOST_PATIENCE.
 */
static void end_graphs(struct plait_device_comm *d)
{
    const double until = plait_clock() + MOST_PATIENCE;

    while (d->captured && !d->lost && d->plugin->finish(d->device) != NULL)
        if (plait_clock() < until)
            usleep(1000);
        else
            d->lost = true;
}

/* Does the driver know, too, that the queues have passed? It frees memory without waiting for them. */
static bool agrees(const struct plait_device_comm *d)
{
    const struct plait_signal all = { PLAIT_SIGNAL_REACH, atomic_load(&d->put), (uintptr_t)d->passed };

    if (d->plugin->signal(d->rescue, &all, 1) != NULL && d->plugin->signal(d->rescue, &all, 1) != NULL)
        return false; /* not even a second time, as a call may return the error of an earlier one */
    return d->plugin->drain(d->rescue) == NULL;
}

void plait_device_settle(struct plait_comm *comm)
{
    struct plait_device_comm *d = comm->device;
    bool passed = d == NULL || plait_device_has_passed_all(d), done;

    for (unsigned errors = 0; !passed && errors < MOST_ERRORS; passed = plait_device_has_passed_all(d)) {
        errors += d->plugin->query(d->rescue, &done) != NULL;
        usleep(50);
    }
    if (d != NULL)
        d->lost |= !passed || !agrees(d); /* the device is broken */
    if (d == NULL || atomic_load(&comm->own->failed) == PLAIT_OK)
        return;
    end_graphs(d);
    const double until = plait_clock() + MOST_PATIENCE;
    atomic_store(&comm->own->quiet, 1);
    while (!others_are_quiet(comm) && plait_clock() < until)
        if (!plait_progress()) /* the other rank may be driven by this thread */
            usleep(200);
    d->lost |= !others_are_quiet(comm);
}

/*
 * Did or will another rank set flags that this rank has not waited for? Its stream does so if it called an operation
 * that this rank did not call, or sends a message that this rank does not receive.
 */
static bool flags_are_to_come(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_device_shown *shown = r != comm->rank ? plait_device_shown_by(comm, r) : NULL;
        if (shown != NULL &&
            atomic_load(plait_device_flags_set(shown, comm->nrank, comm->rank)) != comm->device->flags_awaited[r])
            return true;
    }
    return false;
}

bool plait_device_leaves_some(struct plait_comm *comm)
{
    char text[128];

    if (comm->device == NULL)
        return false;
    /* from here on nobody sets a flag of this rank that flags_are_to_come() does not see */
    atomic_store(&comm->own->quiet, 1);
    if (!flags_are_to_come(comm))
        return false;
    snprintf(text, sizeof text, "comm '%s': rank %u left the comm after operation #%llu", comm->name, comm->rank,
             (unsigned long long)atomic_load(&comm->own->done));
    plait_announce_failure(comm, PLAIT_ERR_PEER, text, comm->rank + 1);
    return true;
}
