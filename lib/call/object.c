/* SPDX-License-Identifier: BSD-3-Clause */
#include "object.h"

#include "call.h"
#include "device/device_comm.h"

#include <plait/coll.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- Checks ------------------------------------------------------------------------------------------------ */

enum plait_status plait_check_struct(const char *call, const char *what, const void *options, size_t size,
                                     const char *from)
{
    const size_t *given = options;

    if (given == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL; start from %s", call, what, from);
    return *given == size
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG, "%s: %s->size is %zu, not %zu; start from %s of this version's headers",
                            call, what, *given, size, from);
}

enum plait_status plait_check_numbers(const char *call, const struct plait_number *numbers, size_t n)
{
    for (const struct plait_number *x = numbers; x < numbers + n; x++)
        if (!x->good)
            return plait_fail(PLAIT_ERR_ARG, "%s: %s is %g; it must be %s", call, x->name, x->value, x->allowed);
    return PLAIT_OK;
}

enum plait_status plait_object_enter(struct plait_comm *comm, const char *call)
{
    return plait_not_in_group(plait_enter(comm, call, PLAIT_SUM, NULL), call);
}

enum plait_status plait_object_ungrouped(const char *call)
{
    return plait_not_in_group(PLAIT_OK, call);
}

enum plait_status plait_object_check(const struct plait_comm *comm, const char *call, const char *name)
{
    if (plait_comm_closed(comm))
        return plait_comm_is_closed(comm, call);
    if (plait_has_failed(comm))
        return plait_fail(PLAIT_ERR_FAILED, "%s: %s failed earlier: %s", call, name, comm->own->failure);
    return PLAIT_OK;
}

bool plait_object_inherited(const struct plait_comm *comm)
{
    return plait_comm_inherited(comm);
}

/* ---- The comm ---------------------------------------------------------------------------------------------- */

const struct plait_kernels *plait_object_kernels(const struct plait_comm *comm)
{
    return comm->kernels;
}

size_t plait_object_cache(const struct plait_comm *comm)
{
    return comm->cache;
}

enum plait_status plait_object_drive(struct plait_comm *comm)
{
    if (comm->progress)
        return PLAIT_OK;
    const enum plait_status status = plait_progress_thread_start();
    comm->progress = status == PLAIT_OK;
    return status;
}

void plait_object_lock(struct plait_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
}

void plait_object_unlock(struct plait_comm *comm)
{
    pthread_mutex_unlock(&comm->lock);
}

void plait_object_expect_death(struct plait_comm *comm)
{
    comm->warn = PLAIT_FOREVER;
    comm->alarm = PLAIT_LOG_WARN;
}

/* ---- Failures ---------------------------------------------------------------------------------------------- */

enum plait_status plait_object_fail(struct plait_comm *comm, enum plait_status status)
{
    if (status == PLAIT_OK)
        return PLAIT_OK;
    plait_object_lock(comm);
    status = plait_comm_fail(comm, status, "%s", plait_last_error());
    plait_object_unlock(comm);
    return status;
}

enum plait_status plait_object_probe(struct plait_comm *comm)
{
    return plait_probe_failures(comm);
}

bool plait_object_failing(const struct plait_comm *comm)
{
    return plait_has_failed(comm);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* Addresses travel as offsets in each rank's arena. */
enum plait_status plait_object_show(struct plait_comm *comm, const void *own, const void **all)
{
    uint64_t *places = calloc(comm->nrank, sizeof *places), mine = 0;
    const struct plait_arena *arena;
    enum plait_status status = plait_arena_get(&arena);

    if (status == PLAIT_OK && places == NULL)
        status = plait_fail_memory("out of memory for what %u ranks show each other", comm->nrank);
    plait_object_fail(comm, status);
    PLAIT_KNOWN(status != PLAIT_OK || places != NULL);
    if (status == PLAIT_OK) {
        mine = (uint64_t)((const char *)own - arena->base);
        status = plait_allgather(comm, &mine, places, 1, PLAIT_UINT64, NULL);
    }
    for (uint32_t r = 0; r < comm->nrank && status == PLAIT_OK; r++) {
        const struct plait_process *p = comm->peers[r].process;
        const char *base = p == NULL ? NULL : p->base != NULL ? p->base : arena->base;
        all[r] = base != NULL ? base + places[r] : NULL;
    }
    free(places);
    return status;
}

/* ---- Persistent collectives -------------------------------------------------------------------------------- */

void plait_object_overlap(struct plait_request *r, void *object, void (*prologue)(void *, size_t start, size_t n),
                          void (*epilogue)(void *, size_t start, size_t n))
{
    r->job.work = (struct plait_slice_work){ prologue, epilogue, object, epilogue != NULL };
}

size_t plait_object_sums_at(const struct plait_request *r, size_t start)
{
    return plait_slice_place(r->job.o, &r->job.work, start);
}

void plait_object_drop(struct plait_request **r)
{
    if (*r != NULL)
        plait_wait(r);
    plait_request_free(r);
}

/* ---- Work on a GPU ----------------------------------------------------------------------------------------- */

bool plait_work_free_later(struct plait_comm *comm, void *memory)
{
    plait_object_lock(comm);
    const bool used = comm->device != NULL;
    if (used)
        plait_device_free_later(comm, memory);
    plait_object_unlock(comm);
    return used;
}

enum plait_status plait_work_open(struct plait_comm *comm, const char *call, const struct plait_queue *queue)
{
    return plait_device_open(comm, call, plait_device_used()->device_of(queue));
}

struct plait_queue *plait_work_begin(struct plait_comm *comm)
{
    plait_device_use_queue(comm, &(struct plait_target){ .queue = comm->own_queue });
    return plait_device_queue(comm);
}

bool plait_work_note(struct plait_comm *comm, const char *why)
{
    plait_device_note(comm, why);
    return plait_device_works(comm);
}

void plait_work_end(struct plait_comm *comm)
{
    plait_device_end_operation(comm);
}

void plait_work_enqueues(struct plait_request *r)
{
    r->until_executed = false;
}

/* ---- Copies between operations ----------------------------------------------------------------------- */

static enum plait_status check_place(size_t i, const char *which, const void *memory, int device)
{
    struct plait_location at;
    char name[48];

    snprintf(name, sizeof name, ": copies[%zu].%s", i, which);
    const enum plait_status status = plait_device_find("plait_comm_copy", name, memory, &at);
    return status == PLAIT_OK ? plait_device_is_on("plait_comm_copy", name, memory, &at, 1, device) : status;
}

enum plait_status plait_comm_copy(struct plait_comm *comm, const struct plait_copy *copies, size_t n,
                                  struct plait_stream *stream)
{
    struct plait_target target = { 0 };
    enum plait_status status = plait_enter(comm, "plait_comm_copy", PLAIT_SUM, NULL);

    if (status == PLAIT_OK)
        status = plait_stream_queue("plait_comm_copy", stream, &target.queue);
    if (status != PLAIT_OK)
        return status;
    if (target.queue == NULL || (copies == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_copy: %s",
                          target.queue == NULL ? "stream is none of CUDA's" : "copies is NULL, but n is not 0");
    const int device = plait_device_used()->device_of(target.queue);
    status = plait_device_open(comm, "plait_comm_copy", device);
    for (size_t i = 0; i < n && status == PLAIT_OK; i++) {
        if (copies[i].bytes > 0)
            status = check_place(i, "to", copies[i].to, device);
        if (copies[i].bytes > 0 && status == PLAIT_OK)
            status = check_place(i, "from", copies[i].from, device);
    }
    if (status != PLAIT_OK)
        return status;
    pthread_mutex_lock(&comm->lock);
    status = plait_comm_fail_too(comm, plait_device_captures(comm, &target));
    if (status == PLAIT_OK) {
        plait_device_use_queue(comm, &target);
        struct plait_queue *queue = plait_device_queue(comm);
        if (queue != NULL)
            plait_device_note(comm, comm->device->plugin->copies(queue, copies, n));
        plait_device_end_operation(comm);
        status = plait_device_status(comm);
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}
