/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and contents by which checkpoints are recognised. */
#ifndef PLAIT_TRAIN_CHECKPOINT_NAMES_H
#define PLAIT_TRAIN_CHECKPOINT_NAMES_H

#include <inttypes.h>
#include <stdint.h>

#include <sys/types.h>

#define VERSION   "2" /* of our files' contents: the note "plait" */
#define UNHASHED  "1" /* the same without a hash; still readable */
#define BEST      "best.safetensors"
#define STEP_NAME "step-%08" PRIu64 ".safetensors"

enum { NAME = 64 }; /* bytes of a checkpoint's file name */

/* Steps of a folder's checkpoints, the newest first; -1 with errno. Free *out. */
ssize_t checkpoint_steps(const char *folder, uint64_t **out);

#endif
