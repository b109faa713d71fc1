/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a comm on its GPU, and the pinned staging buffers for a device's data to and from other hosts
 * (transports/staged.c): one list, which is freed when the comm is left.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_MEMORY_H
#define PLAIT_LIB_DEVICE_DEVICE_MEMORY_H

#include "device_comm.h"

struct plait_device_memory {
    struct plait_device_memory *next;
    enum plait_memory kind;
    void *memory;
    size_t bytes;
    bool used; /* a staging buffer of a message */
};

/* An unused staging buffer of at least `bytes` bytes. NULL: no memory, which is noted (plait_device_note()). */
struct plait_device_memory *plait_device_stage(struct plait_comm *comm, size_t bytes);

/* No queue and no network uses the buffer any more. NULL is allowed. */
void plait_device_unstage(struct plait_device_memory *stage);

/* The comm is left. */
void plait_device_free_all(struct plait_device_comm *d);

#endif
