/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned host memory: staging buffers for a device's data to and from other hosts (transports/staged.c). A comm keeps
 * its buffers until it is left.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_STAGE_H
#define PLAIT_LIB_DEVICE_DEVICE_STAGE_H

#include "device_comm.h"

struct plait_stage {
    struct plait_stage *next;
    void *memory;
    size_t bytes;
    bool used;
};

/* An unused buffer of at least `bytes` bytes. NULL: no memory, which is noted (plait_device_note()). */
struct plait_stage *plait_device_stage(struct plait_comm *comm, size_t bytes);

/* No queue and no network uses the buffer any more. NULL is allowed. */
void plait_device_unstage(struct plait_stage *stage);

/* Free all buffers when the comm is left. */
void plait_device_free_stages(struct plait_device_comm *d);

#endif
