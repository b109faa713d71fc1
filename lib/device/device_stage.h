/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned memory of the host's, through which a device's data goes to other hosts and comes from there
 * (transports/staged.c). A comm keeps what it has once needed until it is left.
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

/* One of at least so many bytes that nobody uses. NULL, and a note: there is none, and no memory for another. */
struct plait_stage *plait_device_stage(struct plait_comm *comm, size_t bytes);

/* No queue and no network uses it any more. NULL is allowed. */
void plait_device_unstage(struct plait_stage *stage);

/* All of them: the comm is left. */
void plait_device_free_stages(struct plait_device_comm *d);

#endif
