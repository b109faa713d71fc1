/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that a launcher has started may have been given other options than rank 0. */
#ifndef PLAIT_TRAIN_ALIKE_H
#define PLAIT_TRAIN_ALIKE_H

#include "options.h"

#include <plait/comm.h>

/**
 * Compare the options of all ranks, as given, before any other collective. If one of options_alike() differs, all ranks
 * end after a message that names it, both values and a rank.
 */
void alike(const struct options *o, struct plait_comm *comm);

#endif
