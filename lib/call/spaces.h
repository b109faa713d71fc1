/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory spaces beside the host's, and which of them holds a call's buffers (operation/space.h). */
#ifndef PLAIT_LIB_CALL_SPACES_H
#define PLAIT_LIB_CALL_SPACES_H

#include "memory/devices.h"
#include "operation/operation.h"

/* The spaces beside the host's, NULL-ended. */
extern const struct plait_space *plait_spaces[];

/* Add a space. Its find() is called for each later call, after those added before. Not thread-safe; tests only. */
void plait_space_add(const struct plait_space *space);

/* May the buffers of a call lie elsewhere than in the host's memory? */
static inline bool plait_has_spaces(void)
{
    return __builtin_expect(atomic_load_explicit(&plait_other_spaces, memory_order_acquire), 0);
}

/* Set a->space and a->queue, and check that the buffers fit the call. The arguments are those of find() in space.h. */
enum plait_status plait_space_find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes,
                                   size_t size, const struct plait_call *call, struct plait_args *a);

/* The call failed. If the driver is at fault, fail the comm, so that no rank waits. Returns the call's status. */
enum plait_status plait_space_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

/* Must the call become a request? Those of a queued space do, unless the caller gives a stream and no request. */
bool plait_space_must_queue(const struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call);

#endif
