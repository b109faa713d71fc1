/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run was that goes on: of its checkpoint, before anything is made. */
#ifndef PLAIT_TRAIN_RECALL_H
#define PLAIT_TRAIN_RECALL_H

#include "options.h"

#include <plait/comm.h>

#include <limits.h>

struct recalled {
    char path[PATH_MAX];             /* of the newest checkpoint */
    uint32_t nrank;                  /* that wrote it, servers among them */
    struct note notes[OPTIONS_MOST]; /* by options_kept() */
};

#define RECALL_RANKS "ranks" /* the note */

/**
 * Options as the run in --resume had them, but for those that are given here; nothing without --resume. What cannot be is
 * told, and ends the process, on all ranks.
 *
 * o     points into out afterwards
 * comm  of all ranks; rank 0 reads. Collective
 */
void recall(struct options *o, struct plait_comm *comm, struct recalled *out);

#endif
