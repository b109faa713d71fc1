/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_stage.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAST ((size_t)4 << 10)
#define WHOLE ((size_t)1 << 20) /* larger sizes are multiples of it, smaller ones powers of two */

static size_t rounded(size_t bytes)
{
    size_t size = LEAST;

    while (size < bytes && size < WHOLE)
        size *= 2;
    return size < bytes ? (bytes + WHOLE - 1) / WHOLE * WHOLE : size;
}

static struct plait_stage *make(struct plait_comm *comm, size_t bytes)
{
    struct plait_device_comm *d = comm->device;
    struct plait_stage *s = calloc(1, sizeof *s);
    char text[sizeof d->why];
    const char *why =
        s == NULL ? "out of memory" : d->plugin->alloc(PLAIT_MEMORY_PINNED, d->device, rounded(bytes), &s->memory);

    comm->stats.allocations++;
    if (why != NULL) {
        snprintf(text, sizeof text, "no %zu bytes of pinned memory for data to or from another host: %s",
                 rounded(bytes), why);
        plait_device_note(comm, text);
        free(s);
        return NULL;
    }
    s->bytes = rounded(bytes);
    s->next = d->stages;
    d->stages = s;
    return s;
}

struct plait_stage *plait_device_stage(struct plait_comm *comm, size_t bytes)
{
    struct plait_stage *least = NULL;

    if (!plait_device_works(comm))
        return NULL;
    for (struct plait_stage *s = comm->device->stages; s != NULL; s = s->next)
        if (!s->used && s->bytes >= bytes && (least == NULL || s->bytes < least->bytes))
            least = s;
    if (least == NULL)
        least = make(comm, bytes);
    if (least != NULL)
        least->used = true;
    return least;
}

void plait_device_unstage(struct plait_stage *stage)
{
    if (stage != NULL)
        stage->used = false;
}

void plait_device_free_stages(struct plait_device_comm *d)
{
    while (d->stages != NULL) {
        struct plait_stage *next = d->stages->next;
        if (!d->lost) /* else a queue may still use the buffer: it leaks until the process ends */
            d->plugin->free(PLAIT_MEMORY_PINNED, d->stages->memory);
        free(d->stages);
        d->stages = next;
    }
}
