/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is planned once: buffers that are never alive at the same time share it. */
#ifndef PLAIT_TRAIN_ARENA_H
#define PLAIT_TRAIN_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { ARENA_NONE = UINT32_MAX }; /* no buffer */

struct arena {
    struct arena_buffer *buffers;
    uint32_t n;
    size_t bytes; /* of all together, after arena_place() */
    char *memory;
};

/** A new buffer, alive nowhere yet. */
uint32_t arena_add(struct arena *arena, size_t bytes);
/** It is alive in this step, and in all between this one and others in which it is. ARENA_NONE: nothing. */
void arena_use(struct arena *arena, uint32_t buffer, uint32_t step);
/** Place all, and allocate the memory. */
void arena_place(struct arena *arena);
/** Where a buffer lies; ARENA_NONE: NULL. */
void *arena_at(const struct arena *arena, uint32_t buffer);
void arena_finish(struct arena *arena);

#endif
