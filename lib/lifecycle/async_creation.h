/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation in the background: a thread of its own goes to the meeting. */
#ifndef PLAIT_LIB_LIFECYCLE_BIRTH_H
#define PLAIT_LIB_LIFECYCLE_BIRTH_H

#include "life.h"

/* A comm whose `birth` is set until it is destroyed. What the options point to is copied. */
enum plait_status plait_async_creation_begin(const struct plait_comm_options *options, struct plait_comm **out);

/* End its creation with an error; if that comes too late, the comm fails. false: it is there already. Any thread. */
bool plait_async_creation_abort(struct plait_comm *comm);

/* End its creation, and wait until its thread has ended: PLAIT_OK when the comm is there. */
enum plait_status plait_async_creation_end(struct plait_comm *comm);

#endif
