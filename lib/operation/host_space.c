/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory space of the host: all work is done when its function returns. And the slices that lie in it. */
#include "memory/arena.h"
#include "operation.h"

#include "base/status.h"

#include <stdlib.h>
#include <sys/mman.h>

static enum plait_status grow(struct plait_comm *comm, struct plait_room *room, size_t bytes)
{
    void *memory;

    if (bytes <= room->bytes)
        return PLAIT_OK;
    comm->stats.allocations++;
    const enum plait_status status = plait_arena_alloc(bytes, &memory);
    if (status != PLAIT_OK)
        return status;
#ifdef MADV_POPULATE_WRITE
    madvise(memory, bytes, MADV_POPULATE_WRITE); /* with older kernels the first operations fault page by page */
#endif
    plait_arena_free(room->memory);
    *room = (struct plait_room){ memory, bytes };
    return PLAIT_OK;
}

static enum plait_status begin(struct plait_run *run)
{
    run->slices = run->comm->slices;
    run->scaled = &run->comm->scaled;
    return PLAIT_OK;
}

static void order(const struct plait_comm *comm, const struct plait_target *target)
{
    (void)comm, (void)target;
}

static void end(struct plait_comm *comm)
{
    (void)comm;
}

static enum plait_status poll_work(struct plait_comm *comm)
{
    (void)comm;
    return PLAIT_OK;
}

static void copy(struct plait_comm *comm, void *to, const void *from, size_t bytes, bool streams)
{
    if (streams) {
        comm->kernels->stream(to, from, bytes);
        comm->kernels->stream_end();
    } else {
        plait_copy(comm->kernels, to, from, bytes);
    }
}

static void combine(const struct plait_run *run, const struct plait_combine *c, const struct plait_how *how)
{
    if (c->wide != 0 || c->wide_dst)
        plait_reduce_mixed(run->comm->kernels, c->type, c->op, c->dst, c->wide_dst, c->src, c->wide, c->nsrc, c->count,
                           how);
    else
        run->o->reduce(c->dst, c->src, c->nsrc, c->count, how);
}

static void scale(const struct plait_run *run, void *to, const void *from, size_t count, const void *scalar, bool late)
{
    (void)late;
    run->comm->kernels->scale[run->o->type](to, from, count, scalar);
}

const struct plait_space plait_host_space = {
    .host = true,
    .mailbox = PLAIT_MAILBOX_DATA,
    .channel = PLAIT_CHANNEL_COLLECTIVES,
    .messages = PLAIT_CHANNEL_MESSAGES,
    .grow = grow,
    .begin = begin,
    .order = order,
    .end = end,
    .poll = poll_work,
    .copy = copy,
    .combine = combine,
    .scale = scale,
};

/* ---- Slices -------------------------------------------------------------------------------------- */

enum plait_status plait_slices_create(uint32_t nrank, struct plait_slice **out)
{
    struct plait_slice *slices = calloc(PLAIT_NSLICE, sizeof *slices + nrank * sizeof *slices->unread);

    if (slices == NULL)
        return plait_fail_memory("out of memory for the comm's slices");
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        slices[d].unread = (struct plait_unread_range *)&slices[PLAIT_NSLICE] + d * nrank;
    *out = slices;
    return PLAIT_OK;
}

void plait_slices_destroy(struct plait_slice *slices)
{
    for (uint32_t d = 0; slices != NULL && d < PLAIT_NSLICE; d++) {
        plait_arena_free(slices[d].memory);
        free(slices[d].message);
    }
    free(slices);
}

size_t plait_slices_bytes(const struct plait_slice *slices)
{
    size_t bytes = 0;

    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        bytes += slices[d].bytes;
    return bytes;
}

void plait_slices_empty(struct plait_comm *comm)
{
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++) {
        struct plait_slice *f = &comm->slices[d];
        plait_arena_free(f->memory);
        f->memory = NULL;
        f->bytes = f->used = 0;
    }
}
