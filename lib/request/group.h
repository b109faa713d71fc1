/* SPDX-License-Identifier: BSD-3-Clause */
/* The open group of this thread, if it has one. */
#ifndef PLAIT_LIB_REQUEST_GROUP_H
#define PLAIT_LIB_REQUEST_GROUP_H

#include <plait/comm.h>
#include <plait/group.h>

#include <stdatomic.h>
#include <stdbool.h>

struct plait_request;
struct plait_creation;

struct plait_outcome {        /* of several calls */
    enum plait_status status; /* the first that is an error */
    char text[1024];          /* a line for each cause: a comm that fails ends many calls */
};
void plait_outcome_clear(struct plait_outcome *o);
void plait_outcome_note(struct plait_outcome *o, enum plait_status status, const char *text);

struct plait_group {
    unsigned depth;
    enum plait_status refused; /* the first error of a call */
    struct plait_request *first, **end;
    struct plait_creation *creations, **last_creation; /* of comms; run when the group ends */
    struct plait_outcome refusal;                      /* of its calls, once one was refused */
};

extern _Thread_local struct plait_group plait_group; /* this thread's */
extern atomic_bool plait_grouped; /* some thread has ever opened one; false: no thread looks for its own */

static inline bool plait_in_group(void)
{
    return atomic_load_explicit(&plait_grouped, memory_order_relaxed) && plait_group.depth > 0;
}

/* For calls that a group cannot defer: they have several parts, or must come before calls of the group. Returns
 * `status`, or an error while a group is open. */
enum plait_status plait_not_in_group(enum plait_status status, const char *call);

/* Add a request to this thread's open group, which waits for those of taker CALL. */
void plait_group_add(struct plait_request *r);

/* Note that a call of the open group was refused with this error. */
void plait_group_refuse(enum plait_status status, const char *text);

/* A call ends with this error before it began; an open group will not begin either. Returns `status`. */
enum plait_status plait_refuse(enum plait_status status);

#endif
