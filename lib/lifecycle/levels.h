/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels: which ranks of a comm are near each other, from the places that they exchanged. */
#ifndef PLAIT_LIB_LIFECYCLE_LEVELS_H
#define PLAIT_LIB_LIFECYCLE_LEVELS_H

#include "cards.h"

/*
 * Set the comm's levels, equal on all ranks. None if they would say no more than its nodes.
 *
 * node  [nrank] ranks of a node share memory; the comm's own map of nodes goes before it
 */
enum plait_status plait_levels_find(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node);

#endif
