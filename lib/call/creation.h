/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms that are created in threads of their own, while their callers drive what is pending. */
#ifndef PLAIT_LIB_CALL_CREATION_H
#define PLAIT_LIB_CALL_CREATION_H

#include "request/group.h"

/* What makes a comm. `own`: an error that keeps this rank from it, of which the others are told; it is returned. */
typedef enum plait_status plait_make_comm(const void *args, enum plait_status own, struct plait_comm **out);

/*
 * At the end, together with the others of the group: make(args, PLAIT_OK, out) in a thread of its own. The
 * `bytes` of args are copied, but not what they point to. What is made of one comm (`of`, or
 * NULL) is made in the order of the calls.
 */
enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out);

/*
 * Create it now, in a thread of its own, while this one drives the pending operations, for which the other ranks may
 * wait before they come. Needed: there are some, and this is no such thread.
 */
bool plait_creation_needs_thread(void);
enum plait_status plait_make_in_thread(plait_make_comm *make, const void *args, struct plait_comm **out);

/* Those of a group that ends: their outcome. Then they are freed. */
void plait_creations_make(struct plait_creation *first, struct plait_outcome *o);

#endif
