/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends a training before its time. */
#ifndef PLAIT_TRAIN_FAILURE_H
#define PLAIT_TRAIN_FAILURE_H

#include "run.h"

/** End this process unless the library's call went well. When another rank is lost: its verdict, and a checkpoint of the
 *  last step that is complete here, or, of elastic averaging, the name of the last one. */
void check(struct run *r, enum plait_status status);

/** On this rank something is not finite ("the loss", and the layer that was first, or NULL): remember it. The others will
 *  hear of it by the step's sums. */
void note_nonfinite(struct run *r, const char *what, const char *layer);

/** On all ranks, when one or more have noted it: say what the first of them has noted, and end. */
_Noreturn void nonfinite(struct run *r);

#endif
