/* SPDX-License-Identifier: BSD-3-Clause */
/* Where slices of messages are staged: shared memory of a pair, which its first staged message allocates. */
#ifndef PLAIT_LIB_P2P_MESSAGE_STAGE_H
#define PLAIT_LIB_P2P_MESSAGE_STAGE_H

#include "message.h"

/* The place of a small slice: a window behind is received, as there is room for this one. */
char *plait_message_small_stage(const struct plait_pair *pair, uint32_t number);

/*
 * Room for the next slice of a link, or NULL: the receiver still reads what is there, or memory is short (*status).
 * past: it is staged past the caches.
 */
char *plait_message_find_stage(struct plait_comm *comm, struct plait_pair *pair, const struct plait_link *link,
                               size_t bytes, bool past, enum plait_status *status);

#endif
