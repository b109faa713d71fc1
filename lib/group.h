/* SPDX-License-Identifier: BSD-3-Clause */
/* The group that this thread has open, if it has one. */
#ifndef PLAIT_LIB_GROUP_H
#define PLAIT_LIB_GROUP_H

#include <plait/comm.h>
#include <plait/group.h>

#include <stdatomic.h>
#include <stdbool.h>

struct plait_request;

extern _Atomic unsigned plait_ngroup; /* open groups of all threads */

bool plait_in_group(void);

/* A call of this thread's open group: its request, which the group waits for and takes when `own`. */
void plait_group_add(struct plait_request *r, bool own);

/* A comm to be created at the end. What the options point to is not copied. */
enum plait_status plait_group_create(const struct plait_comm_options *options, struct plait_comm **out);

/* A call ends with this error before it began; if a group is open, that will not begin either. Returns the status. */
enum plait_status plait_refuse(enum plait_status status);

/*
 * Create it now, in a thread of its own, while this one drives the pending operations, for which the other ranks may
 * wait before they come. Needed: there are some, and this is no such thread.
 */
bool plait_creation_needs_thread(void);
enum plait_status plait_create_in_thread(const struct plait_comm_options *options, struct plait_comm **out);

#endif
