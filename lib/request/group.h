/* SPDX-License-Identifier: BSD-3-Clause */
/* The open group of this thread, if it has one. */
#ifndef PLAIT_LIB_REQUEST_GROUP_H
#define PLAIT_LIB_REQUEST_GROUP_H

#include <plait/comm.h>
#include <plait/group.h>

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

struct plait_request;
struct plait_creation;

/* Collect errors of several calls: the first status, and a line for each cause. A comm that fails ends many calls. */
void plait_collect_error(struct plait_saved_error *e, enum plait_status status, const char *text);

struct plait_group {
    unsigned depth;
    struct plait_request *first, **end;
    struct plait_creation *creations, **last_creation; /* of comms; run when the group ends */
    struct plait_saved_error refused;                  /* of its calls that were refused */
};

extern _Thread_local struct plait_group plait_group; /* this thread's */
extern atomic_bool plait_grouped; /* some thread has ever opened one; false: no thread looks for its own */

static inline bool plait_in_group(void)
{
    return atomic_load_explicit(&plait_grouped, memory_order_relaxed) && plait_group.depth > 0;
}

/* For calls that a group cannot defer. Returns `status`, or an error while a group is open. */
enum plait_status plait_not_in_group(enum plait_status status, const char *call);

/* Add a request to this thread's open group. */
void plait_group_add(struct plait_request *r);

/* A call ends with this error before it began; an open group will not begin either. Returns `status`. */
enum plait_status plait_refuse(enum plait_status status);

#endif
