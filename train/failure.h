/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends a training early. */
#ifndef PLAIT_TRAIN_FAILURE_H
#define PLAIT_TRAIN_FAILURE_H

#include "run.h"

/**
 * End this process unless the library's call succeeded. When another rank is lost: save the last step that is complete
 * here; with elastic averaging, name the last checkpoint.
 */
void check(struct run *r, enum plait_status status);

/**
 * Note that something is not finite on this rank. The other ranks learn it from the step's sums.
 *
 * what   such as "the loss"
 * last   the step in which it was seen, from 1; it happened since the step that reported before
 * layer  the first such layer, or NULL
 */
void note_nonfinite(struct run *r, const char *what, uint64_t last, const char *layer);

/** On all ranks, when at least one has noted something: print the note of the first such rank, and end. */
_Noreturn void nonfinite(struct run *r);

#endif
