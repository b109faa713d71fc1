/* SPDX-License-Identifier: BSD-3-Clause */
/* The group that this thread has open, if it has one. */
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
    struct plait_creation *creations, **last_creation; /* creation.h */
    struct plait_outcome refusal;                      /* of its calls, once one was refused */
};

extern _Thread_local struct plait_group plait_group; /* this thread's */
extern atomic_bool plait_grouped; /* some thread has opened one, ever: else none need look for its own */

static inline bool plait_in_group(void)
{
    return atomic_load_explicit(&plait_grouped, memory_order_relaxed) && plait_group.depth > 0;
}

/* For what a group cannot put off, as it has several parts, or calls of the group would come after it: `status`, or an
 * error while a group is open. */
enum plait_status plait_not_in_group(enum plait_status status, const char *call);

/* A call of this thread's open group: its request, which the group waits for and takes when `own`. */
void plait_group_add(struct plait_request *r, bool own);

/* A call of the open group was refused, with this error. */
void plait_group_refuse(enum plait_status status, const char *text);

/* A call ends with this error before it began; if a group is open, that will not begin either. Returns the status. */
enum plait_status plait_refuse(enum plait_status status);

#endif
