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

/* One that was refused: the group will not begin. Returns the status. */
enum plait_status plait_group_refuse(enum plait_status status);

#endif
