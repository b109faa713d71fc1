/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging buffers for messages: shared memory of a pair, allocated by its first staged message. */
#ifndef PLAIT_LIB_P2P_MESSAGE_STAGE_H
#define PLAIT_LIB_P2P_MESSAGE_STAGE_H

#include "message.h"

/* The slot of a small slice. It is free: the link accepts this number only when the one a window behind is received. */
char *plait_message_small_stage(const struct plait_pair *pair, uint32_t number);

/* The slot for the next slice of a link. NULL: the receiver still reads it, or memory is short (*status). */
char *plait_message_find_stage(struct plait_comm *comm, struct plait_pair *pair, const struct plait_link *link,
                               size_t bytes, enum plait_status *status);

#endif
