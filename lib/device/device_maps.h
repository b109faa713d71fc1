/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other processes' devices, as it is mapped in this one: each allocation once for each device, whichever
 * comms and ranks of this process use it. A driver maps no allocation into a place where one that was freed meanwhile
 * is still mapped; so what lay where a new one lies is closed first, for all who have it.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_MAPS_H
#define PLAIT_LIB_DEVICE_DEVICE_MAPS_H

#include "device_comm.h"

struct plait_mapped { /* an allocation of another process */
    struct plait_mapped *next;
    const struct plait_device_plugin *plugin;
    struct plait_token process;
    int device;               /* that reaches it */
    uint64_t id, base, bytes; /* the other process's */
    void *at;
    uint32_t users;
    _Atomic bool closed; /* the process has freed it: its address is good for nothing */
};

struct plait_mappable { /* what another process has shown */
    const struct plait_device_plugin *plugin;
    struct plait_token process;
    int device;
    const struct plait_lent *lent; /* which does not change */
};

/* Is something mapped where that lies, which must have been freed? */
bool plait_device_is_taken(const struct plait_mappable *what);

/*
 * Map it, or take a share of what is mapped already, and close what lies there and was freed: nothing on a queue may
 * use that any more. NULL, or why it cannot be mapped.
 */
const char *plait_device_map(const struct plait_mappable *what, struct plait_mapped **out);

/* Give the share back. NULL is allowed. */
const char *plait_device_unmap(struct plait_mapped *mapped);

#endif
