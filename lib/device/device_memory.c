/* SPDX-License-Identifier: BSD-3-Clause */
/* A comm's memory on its GPU. */
#include "device_comm.h"

#include "base/status.h"

#include <stdlib.h>

#define UNIT ((size_t)64 << 10) /* sizes of staging buffers are multiples of it, so that they fit other messages too */

/* Enter memory in the comm's list; NULL: allocate some. Returns NULL with *why when there is none. */
static struct plait_device_memory *add(struct plait_comm *comm, enum plait_memory kind, void *memory, size_t bytes,
                                       const char **why)
{
    struct plait_device_comm *d = comm->device;
    struct plait_device_memory *m = malloc(sizeof *m);

    *why = m == NULL ? "out of memory for a list of what a comm has on a GPU" : NULL;
    if (m != NULL)
        *m = (struct plait_device_memory){ .next = d->memory, .kind = kind, .memory = memory, .bytes = bytes };
    if (m != NULL && memory == NULL) {
        comm->stats.allocations++;
        *why = d->plugin->alloc(kind, d->device, bytes, &m->memory);
    }
    if (*why != NULL) {
        free(m);
        return NULL;
    }
    return d->memory = m;
}

enum plait_status plait_device_alloc(struct plait_comm *comm, size_t bytes, void **out)
{
    const char *why;
    const struct plait_device_memory *m = add(comm, PLAIT_MEMORY_DEVICE, NULL, bytes, &why);

    if (m == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes on GPU %d for a comm: %s", bytes, comm->device->device, why);
    *out = m->memory;
    return PLAIT_OK;
}

enum plait_status plait_device_grow(struct plait_comm *comm, struct plait_room *room, size_t bytes)
{
    size_t more = bytes < 2 * room->bytes ? 2 * room->bytes : bytes;
    void *memory = NULL;

    if (bytes <= room->bytes)
        return PLAIT_OK;
    enum plait_status status = plait_device_alloc(comm, more, &memory);
    if (status != PLAIT_OK && more > bytes)
        status = plait_device_alloc(comm, more = bytes, &memory);
    if (status == PLAIT_OK)
        *room = (struct plait_room){ memory, more };
    return status;
}

void plait_device_free_later(struct plait_comm *comm, void *memory)
{
    const struct plait_device_memory *m = comm->device->memory;
    const char *why;

    while (m != NULL && m->memory != memory)
        m = m->next;
    if (m == NULL && memory != NULL)
        add(comm, PLAIT_MEMORY_DEVICE, memory, 0, &why); /* without a list it leaks until the process ends */
}

struct plait_device_memory *plait_device_stage(struct plait_comm *comm, size_t bytes)
{
    struct plait_device_memory *least = NULL;
    const char *why = NULL;

    if (!plait_device_works(comm))
        return NULL;
    for (struct plait_device_memory *m = comm->device->memory; m != NULL; m = m->next)
        if (m->kind == PLAIT_MEMORY_PINNED && !m->used && m->bytes >= bytes &&
            (least == NULL || m->bytes < least->bytes))
            least = m;
    if (least == NULL)
        least = add(comm, PLAIT_MEMORY_PINNED, NULL, (bytes + UNIT - 1) / UNIT * UNIT, &why);
    plait_device_note(comm, why);
    if (least != NULL)
        least->used = true;
    return least;
}

void plait_device_unstage(struct plait_device_memory *stage)
{
    if (stage != NULL)
        stage->used = false;
}

size_t plait_device_bytes(const struct plait_comm *comm)
{
    size_t bytes = 0;

    for (const struct plait_device_memory *m = comm->device != NULL ? comm->device->memory : NULL; m != NULL;
         m = m->next)
        bytes += m->bytes;
    return bytes;
}

void plait_device_free_all(struct plait_device_comm *d)
{
    while (d->memory != NULL) {
        struct plait_device_memory *next = d->memory->next;
        if (!d->lost) /* else somebody may still use it: it leaks until the process ends */
            d->plugin->free(d->memory->kind, d->memory->memory);
        free(d->memory);
        d->memory = next;
    }
}
