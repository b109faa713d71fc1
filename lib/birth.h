/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation in the background: a thread of its own goes to the meeting. */
#ifndef PLAIT_LIB_BIRTH_H
#define PLAIT_LIB_BIRTH_H

#include "comm.h"

/* A comm whose `birth` is set until it is destroyed. What the options point to is copied. */
enum plait_status plait_birth_begin(const struct plait_comm_options *options, struct plait_comm **out);

/* End its creation with an error; if that comes too late, the comm fails. false: it is there already. Any thread. */
bool plait_birth_abort(struct plait_comm *comm);

/* End its creation, and wait until its thread has ended: PLAIT_OK when the comm is there. */
enum plait_status plait_birth_end(struct plait_comm *comm);

/* What it needs of comm.c: a comm that is nothing yet, NULL when memory is short; make it one (NULL: tell the others
 * why not); drop one that could not be made. */
struct plait_comm *plait_comm_allocate(const struct plait_comm_options *o);
enum plait_status plait_comm_create_as(struct plait_comm *comm, const struct plait_comm_options *options,
                                       const struct plait_watch *watch);
void plait_comm_discard(struct plait_comm *comm);

#endif
