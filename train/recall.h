/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a run that is resumed, from its checkpoint, before anything is created. */
#ifndef PLAIT_TRAIN_RECALL_H
#define PLAIT_TRAIN_RECALL_H

#include "options.h"

#include <plait/comm.h>

#include <limits.h>

struct recalled {
    char path[PATH_MAX];             /* of the newest checkpoint */
    uint32_t nrank;                  /* ranks that wrote it, including servers */
    struct note notes[OPTIONS_MOST]; /* by options_kept() */
};

#define RECALL_RANKS "ranks" /* name of the note */

/**
 * Ranks to start if neither the user nor a launcher says: those that the run of --resume
 * had, if training goes on; else 1.
 */
uint32_t recall_ranks(const struct options *o);

/**
 * Set the options that the run of --resume had, except those given on this command line; without --resume do nothing.
 * Impossible combinations end the process on all ranks, after a message.
 *
 * o     points into out afterwards
 * comm  all ranks; rank 0 reads. Collective
 */
void recall(struct options *o, struct plait_comm *comm, struct recalled *out);

#endif
