/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory planned once: buffers that are never alive at the same time share it. */
#ifndef PLAIT_TRAIN_ARENA_H
#define PLAIT_TRAIN_ARENA_H

#include "device.h"

#include <stddef.h>
#include <stdint.h>

enum { ARENA_NONE = UINT32_MAX }; /* no buffer */

struct arena {
    struct device *device;
    struct arena_buffer *buffers;
    uint32_t n;
    size_t bytes; /* total, after arena_place() */
    char *memory;
};

/** Add a buffer, alive in no step yet. */
uint32_t arena_add(struct arena *arena, size_t bytes);
/** The buffer is alive in this step, and in all steps between it and others in which it is. ARENA_NONE: nothing. */
void arena_use(struct arena *arena, uint32_t buffer, uint32_t step);
/** Place all buffers, and allocate the memory. */
void arena_place(struct arena *arena);
/** Address of a buffer; ARENA_NONE: NULL. */
void *arena_at(const struct arena *arena, uint32_t buffer);
/** Forget the buffers; the memory is the device's. */
void arena_finish(struct arena *arena);

#endif
