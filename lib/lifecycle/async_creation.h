/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous creation: a helper thread runs the rendezvous with the other ranks. */
#ifndef PLAIT_LIB_LIFECYCLE_ASYNC_CREATION_H
#define PLAIT_LIB_LIFECYCLE_ASYNC_CREATION_H

#include "life.h"

/* *out has `async_creation` set until plait_async_creation_end(). The options are copied deeply. */
enum plait_status plait_async_creation_begin(const struct plait_comm_options *options, struct plait_comm **out);

/* End the creation with an error, or, if it has just succeeded, make the comm fail. False: the comm was complete before
 * the call. Any thread. */
bool plait_async_creation_abort(struct plait_comm *comm);

/* Cancel the creation if it still runs, and join its thread. PLAIT_OK: the comm is complete. */
enum plait_status plait_async_creation_end(struct plait_comm *comm);

#endif
