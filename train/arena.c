/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include "allocate.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ALIGNMENT = 4096 };

struct arena_buffer {
    size_t bytes, offset;
    uint32_t first, last;
};

uint32_t arena_add(struct arena *arena, size_t bytes)
{
    arena->buffers = grow(arena->buffers, arena->n + 1, sizeof *arena->buffers);
    arena->buffers[arena->n] =
        (struct arena_buffer){ .bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, .first = UINT32_MAX };
    return arena->n++;
}

void arena_use(struct arena *arena, uint32_t buffer, uint32_t step)
{
    struct arena_buffer *b;

    if (buffer == ARENA_NONE)
        return;
    b = &arena->buffers[buffer];
    if (b->first > step)
        b->first = step;
    if (b->last < step)
        b->last = step;
}

static int larger_first(const void *a, const void *b)
{
    const struct arena_buffer *const x = *(const struct arena_buffer *const *)a;
    const struct arena_buffer *const y = *(const struct arena_buffer *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool in_the_way(const struct arena_buffer *a, const struct arena_buffer *b)
{
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* At the lowest offset that is free while the buffer is alive. */
static void place(struct arena_buffer *buffer, struct arena_buffer *const *placed, uint32_t nplaced)
{
    bool moved;

    buffer->offset = 0;
    do {
        moved = false;
        for (uint32_t k = 0; k < nplaced; k++)
            if (in_the_way(buffer, placed[k])) {
                buffer->offset = placed[k]->offset + placed[k]->bytes;
                moved = true;
            }
    } while (moved);
}

void arena_place(struct arena *arena)
{
    struct arena_buffer **order = allocate(arena->n, sizeof *order);

    for (uint32_t k = 0; k < arena->n; k++)
        order[k] = &arena->buffers[k];
    qsort(order, arena->n, sizeof *order, larger_first);
    for (uint32_t k = 0; k < arena->n; k++) {
        place(order[k], order, k);
        if (arena->bytes < order[k]->offset + order[k]->bytes)
            arena->bytes = order[k]->offset + order[k]->bytes;
    }
    free(order);
    arena->memory = arena->device->kind->alloc(arena->device, arena->bytes);
}

void *arena_at(const struct arena *arena, uint32_t buffer)
{
    return buffer == ARENA_NONE ? NULL : arena->memory + arena->buffers[buffer].offset;
}

void arena_finish(struct arena *arena)
{
    free(arena->buffers);
}
