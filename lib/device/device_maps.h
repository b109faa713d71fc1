/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other processes' devices, mapped into this process: each allocation once per device, for all comms and
 * ranks of this process. A driver refuses to map an allocation over the stale mapping of a freed one. So the stale
 * mapping at that address is closed first, for all its users.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_MAPS_H
#define PLAIT_LIB_DEVICE_DEVICE_MAPS_H

#include "device_comm.h"

struct plait_mapped { /* an allocation of another process */
    struct plait_mapped *next;
    const struct plait_device_plugin *plugin;
    struct plait_token process;
    int device;                   /* that accesses the memory */
    struct plait_exported memory; /* in the other process */
    void *at;
    uint32_t users;
    _Atomic bool closed; /* the process has freed the allocation: `at` is invalid */
};

struct plait_mappable { /* an allocation that another process has shown */
    const struct plait_device_plugin *plugin;
    struct plait_token process;
    int device;
    const struct plait_exported *memory;
};

/* Is a stale mapping (its allocation must have been freed) in the way? */
bool plait_device_is_taken(const struct plait_mappable *what);

/*
 * Map the allocation, or take a share of an existing mapping, and close stale mappings in its place. No operation on a
 * queue may use those any more. Returns NULL, or why the allocation cannot be mapped.
 */
const char *plait_device_map(const struct plait_mappable *what, struct plait_mapped **out);

/* Give the share back. NULL is allowed. */
const char *plait_device_unmap(struct plait_mapped *mapped);

#endif
