/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A turn collects signals, copies and notifications of other ranks, and enqueues them together. The queues of a comm's
 * operations wait for each other.
 */
#include "device_comm.h"

#include "base/clock.h"
#include "base/status.h"
#include "failure/failure.h"
#include "memory/devices.h"

#include <stdlib.h>
#include <unistd.h>

#define POLLS             64  /* polls of progress between two queries of the driver */
#define MOST_DYING        0.5 /* seconds that a process may take to die after its memory is gone */
#define QUEUES_BY_DEFAULT 8   /* hardware queues per GPU and process, unless CUDA_DEVICE_MAX_CONNECTIONS is set */

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

enum plait_status plait_device_captures(struct plait_comm *comm, struct plait_target *target)
{
    struct plait_device_comm *d = comm->device;
    const char *why = d->plugin->capturing(target->queue, &target->note);

    if (why != NULL)
        return plait_device_result("an operation cannot be put on its stream", why);
    if (target->note == 0)
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

    put_signals(comm, 0);
    if (d->ncopy > 0 && plait_device_works(comm))
        plait_device_note(comm, d->plugin->copies(d->batch_queue, d->copies, d->ncopy));
    d->ncopy = 0;
    put_signals(comm, 1);
    for (uint32_t i = 0; i < d->nnotification && plait_device_works(comm); i++)
        d->notifications[i].send(d->notifications[i].link, d->notifications[i].number);
    d->nnotification = 0;
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

void plait_device_end_operation(struct plait_comm *comm)
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

struct plait_queue *plait_device_queue(struct plait_comm *comm)
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

void plait_device_notify(struct plait_comm *comm, const struct plait_notification *notification)
{
    struct plait_device_comm *d = comm->device;

    if (d->nnotification == PLAIT_NNOTIFICATION)
        flush(comm);
    d->notifications[d->nnotification++] = *notification;
}

/* A dying process loses its shown memory before it is seen to be dead. */
static bool is_dying(const struct plait_peer *peer)
{
    const double until = plait_clock() + MOST_DYING;

    while (!plait_peer_died(peer) && plait_clock() < until)
        usleep(1000);
    return plait_peer_died(peer);
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
    return plait_comm_fail(comm, d->as, "on GPU %d: %s", d->device, d->why);
}
