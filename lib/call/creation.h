/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation in groups: threads create comms while the caller drives pending operations. */
#ifndef PLAIT_LIB_CALL_CREATION_H
#define PLAIT_LIB_CALL_CREATION_H

#include "request/group.h"

/* Makes a comm. own: an error of this rank, of which the other ranks are told, and which is returned; or PLAIT_OK. */
typedef enum plait_status plait_make_comm(const void *args, enum plait_status own, struct plait_comm **out);

/*
 * At the end of the group, concurrently with its other creations: make(args, PLAIT_OK, out) in another thread. The
 * `bytes` of args are copied, but not the memory that they point to. Comms made from one comm (`of`, or NULL) are made
 * in one thread, in the order of the calls.
 */
enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out);

/* Run the creations of a group that ends, unless `o` has an error; note their outcome there; free them. */
void plait_creations_make(struct plait_creation *first, struct plait_outcome *o);

#endif
