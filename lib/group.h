/* SPDX-License-Identifier: BSD-3-Clause */
/* The group that this thread has open, if it has one. */
#ifndef PLAIT_LIB_GROUP_H
#define PLAIT_LIB_GROUP_H

#include <plait/comm.h>
#include <plait/group.h>

#include <stdatomic.h>
#include <stdbool.h>

struct plait_request;
struct plait_creation;

struct plait_group {
    unsigned depth;
    enum plait_status refused; /* the first error of a call */
    struct plait_request *first, **end;
    struct plait_creation *creations, **last_creation;
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

/* What makes a comm. `own`: an error that keeps this rank from it, of which the others are told; it is returned. */
typedef enum plait_status plait_make_comm(const void *args, enum plait_status own, struct plait_comm **out);

/*
 * At the end, together with the others of the group: make(args, PLAIT_OK, out) in a thread of its own. The
 * `bytes` of args are copied, but not what they point to. What is made of one comm (`of`, or
 * NULL) is made in the order of the calls.
 */
enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out);

/* A call ends with this error before it began; if a group is open, that will not begin either. Returns the status. */
enum plait_status plait_refuse(enum plait_status status);

/*
 * Create it now, in a thread of its own, while this one drives the pending operations, for which the other ranks may
 * wait before they come. Needed: there are some, and this is no such thread.
 */
bool plait_creation_needs_thread(void);
enum plait_status plait_make_in_thread(plait_make_comm *make, const void *args, struct plait_comm **out);

#endif
