/* SPDX-License-Identifier: BSD-3-Clause */
/* The speeds of a new comm's hosts: timed, agreed on, and made into the model that picks algorithms. */
#ifndef PLAIT_LIB_LIFECYCLE_SPEEDS_H
#define PLAIT_LIB_LIFECYCLE_SPEEDS_H

#include "bootstrap/bootstrap.h"
#include "cards.h"

/*
 * If the process of the node's lowest rank has timed no copies yet, it does so now, with the node's next rank of
 * another process. Returns memory that the caller frees after the next agreement, or NULL.
 */
void *plait_speeds_time(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node, uint32_t first);

/*
 * The last agreement of a creation. Each rank shows the speeds that it knows: the lowest rank of each node decides on
 * the node's copy modes, and rank 0 on the algorithms of all.
 *
 * node  [nrank] which ranks share memory
 */
enum plait_status plait_speeds_agree(struct plait_comm *comm, struct plait_bootstrap *boot, const uint32_t *node,
                                     uint32_t first, enum plait_status own);

#endif
