/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other processes' devices, mapped into this process. A driver counts how often one allocation is mapped. It
 * refuses to map an allocation over the stale mapping of a freed one, so the stale mappings at that address are closed
 * first, whatever comm of this process they are of.
 */
#ifndef PLAIT_TRANSPORTS_MAPPED_H
#define PLAIT_TRANSPORTS_MAPPED_H

#include "../lib/memory/arena.h"
#include "../lib/plugin/device.h"

#include <stdatomic.h>
#include <stdbool.h>

struct plait_mapped { /* an allocation of another process */
    const struct plait_device_plugin *plugin;
    struct plait_token process;
    int device; /* that accesses the memory */
    struct plait_exported memory;
    void *at;
    _Atomic bool closed; /* the process has freed the allocation: `at` is invalid */
    bool captured;       /* for the owner: a graph uses the address */
    struct plait_mapped *next;
};

/* Is a stale mapping (its allocation must have been freed) in the way of this allocation? */
bool plait_device_is_taken(const struct plait_mapped *wanted);

/*
 * Map an allocation, of which plugin, process, device and memory are set, and close stale mappings in its place. No
 * operation on a queue may use those any more. Returns NULL, or why the allocation cannot be mapped.
 */
const char *plait_device_map(const struct plait_mapped *wanted, struct plait_mapped **out);

/* NULL is allowed. */
const char *plait_device_unmap(struct plait_mapped *mapped);

#endif
