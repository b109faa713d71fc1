/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_comm.h"

#include "base/clock.h"
#include "base/status.h"
#include "device_memory.h"
#include "device_whole.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "failure/report.h"
#include "memory/devices.h"
#include "operation/slices.h"
#include "progress/detector.h"
#include "progress/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_PATIENCE     2.0 /* seconds, as in plait_comm_destroy() */
#define MOST_ERRORS       3   /* failed queries of progress until the device counts as broken */
#define POLLS             64  /* polls of progress between two queries of the driver */
#define MOST_DYING        0.5 /* seconds that a process may take to die after its memory is gone */
#define QUEUES_BY_DEFAULT 8   /* hardware queues per GPU and process, unless CUDA_DEVICE_MAX_CONNECTIONS is set */

void plait_device_note(struct plait_comm *comm, const char *why)
{
    struct plait_device_comm *d = comm->device;

    if (why != NULL && d->why[0] == '\0')
        snprintf(d->why, sizeof d->why, "%s", why);
}

/* A dying process loses its shown memory before it is seen to be dead. */
static bool is_dying(const struct plait_peer *peer)
{
    const double until = plait_clock() + MOST_DYING;

    while (!plait_peer_died(peer) && plait_clock() < until)
        usleep(1000);
    return plait_peer_died(peer);
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
    const struct plait_arena *arena;

    if (p->process == NULL || plait_arena_get(0, &arena) != PLAIT_OK)
        return NULL;
    const uint64_t at = atomic_load(&p->control->device);
    return at > 0 ? (const void *)((p->process->base == NULL ? arena->base : p->process->base) + at) : NULL;
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
    enum plait_status status = plait_arena_get(0, &arena);

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
    atomic_store(&comm->own->device, (uint64_t)((char *)memory - arena->base)); /* before another's `quiet` is read */
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
    status = plait_device_room(comm, 2 * plait_flag_words(comm->nrank) * 4, &d->flags);
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

enum plait_status plait_device_open(struct plait_comm *comm, int device)
{
    enum plait_status status = PLAIT_OK;

    pthread_mutex_lock(&comm->lock);
    if (comm->device == NULL) {
        status = create(comm, device);
        if (status != PLAIT_OK) /* other ranks must not wait for this rank */
            status = plait_comm_fail(comm, status, "%s", plait_last_error());
    }
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

/* ---- Operations ------------------------------------------------------------------------------------ */

/*
 * The operations of a graph wait for those of graphs that are launched later. If their streams share a hardware queue,
 * they wait for ever. Without graphs streams cannot wait in a circle (device_comm.h).
 */
static enum plait_status check_queues(const struct plait_comm *comm)
{
    const char *setting = getenv("CUDA_DEVICE_MAX_CONNECTIONS"); /* the CUDA driver's */
    const long most = setting != NULL && atol(setting) > 0 ? atol(setting) : QUEUES_BY_DEFAULT;
    uint32_t n = 0;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        const bool here = comm->peers[r].process != NULL && comm->peers[r].process->base == NULL;
        const struct plait_device_shown *shown = here ? plait_device_shown_by(comm, r) : NULL;
        /* an unknown device may be this one */
        n += here && (shown == NULL || shown->device == (uint32_t)comm->device->device);
    }
    if ((long)n <= most)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_UNSUPPORTED,
        "%u ranks of this process capture graphs on a GPU that gives a process %ld hardware queues, so that "
        "they could wait for each other for ever: use at most %ld, or set CUDA_DEVICE_MAX_CONNECTIONS (at "
        "most 32)",
        n, most, most);
}

const char plait_device_no_graph[] = "the ranks are on several hosts, and the stream is captured: what goes to another "
                                     "host goes when it is called, so it cannot be in a graph; call it outside of one";

enum plait_status plait_device_captures(struct plait_comm *comm, struct plait_queue *queue, uint64_t *capture)
{
    struct plait_device_comm *d = comm->device;
    const char *why = d->plugin->capturing(queue, capture);

    if (why != NULL)
        return plait_device_result("an operation cannot be put on its stream", why);
    if (*capture == 0)
        return PLAIT_OK;
    if (comm->remote != NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s", plait_device_no_graph);
    d->captured = true;
    return check_queues(comm);
}

static void put_signals(struct plait_comm *comm, unsigned which)
{
    struct plait_device_comm *d = comm->device;

    if (d->nbatch[which] > 0 && plait_device_works(comm))
        plait_device_note(comm, d->plugin->signal(d->batch_queue, d->batch[which], d->nbatch[which]));
    d->nbatch[which] = 0;
}

static void flush(struct plait_comm *comm)
{
    struct plait_device_comm *d = comm->device;
    const struct plait_copy *one = &d->copies[0];

    put_signals(comm, 0);
    if (d->ncopy > 0 && plait_device_works(comm))
        plait_device_note(comm, d->ncopy == 1 ? d->plugin->copy(d->batch_queue, one->to, one->from, one->bytes)
                                              : d->plugin->copies(d->batch_queue, d->copies, d->ncopy));
    d->ncopy = 0;
    put_signals(comm, 1);
    for (uint32_t i = 0; i < d->nword && plait_device_works(comm); i++)
        d->words[i].say(d->words[i].link, d->words[i].number);
    d->nword = 0;
}

/* The next work is for this queue. */
static void batch_for(struct plait_comm *comm, struct plait_queue *queue)
{
    struct plait_device_comm *d = comm->device;

    if (d->batch_queue != queue && d->nbatch[0] + d->ncopy > 0)
        flush(comm);
    d->batch_queue = queue;
}

static void add_signal(struct plait_comm *comm, struct plait_queue *queue, struct plait_signal signal)
{
    struct plait_device_comm *d = comm->device;

    batch_for(comm, queue);
    uint32_t which = d->ncopy > 0 && signal.what == PLAIT_SIGNAL_SET;
    if (d->nbatch[which] == PLAIT_NBATCH) {
        flush(comm);
        which = 0;
    }
    d->batch[which][d->nbatch[which]++] = signal;
}

/* Put the next count on the queue, after an error, too: that is how the host knows when all of it has completed. */
static void count_operation(struct plait_comm *comm, const struct plait_trail *t)
{
    struct plait_device_comm *d = comm->device;
    const uint32_t next = atomic_load(&d->put) + 1;
    const struct plait_signal signal = { PLAIT_SIGNAL_SET, next, (uintptr_t)d->passed };
    const char *why = NULL;

    atomic_store(&d->put, next);
    if (plait_device_works(comm)) {
        add_signal(comm, t->last, signal);
        flush(comm);
    }
    if (!plait_device_works(comm))
        why = d->plugin->signal(t->last, &signal, 1);
    if (why != NULL) {
        atomic_store(&d->put, next - 1);
        d->lost = true; /* nobody can tell when the operation has completed */
    }
}

static void rest(struct plait_comm *comm, struct plait_trail *t)
{
    const struct plait_device_comm *d = comm->device;

    if (!t->ahead)
        return;
    t->ahead = false;
    if (t->capture == 0) {
        count_operation(comm, t);
        return;
    }
    flush(comm);
    const char *why = d->plugin->record_event(t->last, t->end);
    t->called |= why == NULL;
    plait_device_note(comm, why);
}

bool plait_device_has_passed(struct plait_comm *comm, uint32_t put)
{
    struct plait_device_comm *d = comm->device;
    const bool passed = (int32_t)(atomic_load(d->passed) - put) >= 0;
    bool done;

    if (passed)
        d->plugin->seen(d->passed, put);
    else if (plait_device_works(comm) && d->npoll++ % POLLS == 0) /* has the device failed? */
        plait_device_note(comm, d->plugin->query(d->rescue, &done));
    return passed;
}

void plait_device_rest(struct plait_comm *comm)
{
    for (int i = 0; i < 2 && comm->device != NULL; i++)
        rest(comm, &comm->device->trails[i]);
}

/* Make the aimed queue wait for the operations on others. */
static void follow(struct plait_comm *comm, const struct plait_trail *t)
{
    struct plait_device_comm *d = comm->device;
    const uint32_t put = atomic_load(&d->put);

    if (d->capture == 0 && put > 0)
        add_signal(comm, d->queue, (struct plait_signal){ PLAIT_SIGNAL_REACH, put, (uintptr_t)d->passed });
    else if (d->capture != 0 && t->called && d->capture == t->capture)
        plait_device_note(comm, d->plugin->wait_event(d->queue, t->end));
}

/* The next signal or other work goes on the aimed queue. False: the device has reported an error. */
static bool turn_to_queue(struct plait_comm *comm)
{
    struct plait_device_comm *d = comm->device;
    struct plait_trail *t = &d->trails[d->capture != 0];
    const uint64_t stream = d->plugin->id_of(d->queue);

    if (plait_device_works(comm) && (stream != t->stream || d->capture != t->capture)) {
        rest(comm, t);
        if (plait_device_works(comm))
            follow(comm, t);
        if (plait_device_works(comm)) {
            t->stream = stream;
            t->capture = d->capture;
        }
    }
    if (!plait_device_works(comm))
        return false;
    t->last = d->queue; /* the caller may have another queue for the same stream */
    t->ahead = true;
    return true;
}

void plait_device_signal(struct plait_comm *comm, enum plait_signalling what, uint64_t address, uint32_t value)
{
    if (turn_to_queue(comm))
        add_signal(comm, comm->device->queue, (struct plait_signal){ what, value, address });
}

struct plait_queue *plait_device_here(struct plait_comm *comm)
{
    if (!turn_to_queue(comm))
        return NULL;
    flush(comm);
    return plait_device_works(comm) ? comm->device->queue : NULL;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

void plait_device_copy(struct plait_comm *comm, void *to, const void *from, size_t bytes)
{
    struct plait_device_comm *d = comm->device;
    bool follows = d->ncopy == PLAIT_NCOPIES; /* must it come behind another copy? */

    if (!turn_to_queue(comm))
        return;
    batch_for(comm, d->queue);
    for (uint32_t i = 0; i < d->ncopy && !follows; i++) {
        const struct plait_copy *c = &d->copies[i];
        follows = overlap(to, bytes, c->to, c->bytes) || overlap(to, bytes, c->from, c->bytes) ||
                  overlap(from, bytes, c->to, c->bytes);
    }
    if (follows)
        flush(comm);
    d->copies[d->ncopy++] = (struct plait_copy){ to, from, bytes };
}

void plait_device_word(struct plait_comm *comm, const struct plait_word *word)
{
    struct plait_device_comm *d = comm->device;

    if (d->nword == PLAIT_NWORD)
        flush(comm);
    d->words[d->nword++] = *word;
}

enum plait_status plait_device_status(struct plait_comm *comm)
{
    const struct plait_device_comm *d = comm->device;

    if (d != NULL)
        flush(comm);
    if (d == NULL || plait_device_works(comm))
        return PLAIT_OK;
    if (comm->failed != PLAIT_OK)
        return comm->failed;
    const uint32_t r = d->unmapped - 1;
    if (d->unmapped != 0 && is_dying(&comm->peers[r]))
        return plait_comm_blame(comm, PLAIT_ERR_PEER, r, "rank %u (process %d) died after operation #%llu", r,
                                plait_peer_pid(&comm->peers[r]),
                                (unsigned long long)atomic_load(&comm->peers[r].control->done));
    return plait_comm_fail(comm, PLAIT_ERR_SYSTEM, "on GPU %d: %s", d->device, d->why);
}

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
 * Nobody knows whether a graph runs. If the comm has failed, the graph may wait for a flag, which the watch sets.
 * Trick: freeing device memory waits until everything on the device has completed.
 */
static void end_graphs(const struct plait_device_comm *d)
{
    void *memory;

    if (d->captured && d->plugin->alloc(PLAIT_MEMORY_DEVICE, d->device, sizeof(uint32_t), &memory) == NULL)
        d->plugin->free(PLAIT_MEMORY_DEVICE, memory);
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
