/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate --step: the gradients of a model, and when each is ready in a step of training. */
#ifndef PLAIT_TOOLS_MODEL_H
#define PLAIT_TOOLS_MODEL_H

#include "simulate.h"

#define MODEL_STEP "until the first gradient" /* name of the event of a trace that begins a step */

struct model { /* in the order in which the gradients are registered (plait/fusion.h) */
    uint32_t n;
    struct plait_tensor *tensors; /* [n] */
    uint64_t *ready;              /* [n] picoseconds from the step's start */
    uint64_t elements, compute;   /* of all gradients; of a step, in picoseconds */
    enum plait_dtype payload;     /* type in which float32 gradients travel; PLAIT_NDTYPE: their own */
    char about[96];               /* "for 64 samples" */
};

/* The list of gradients or the trace that --step names. Returns false after a message. */
bool model_load(const struct simulate_options *options, struct model *out);
void model_finish(struct model *m);

/*
 * A trace that plait_fusion_trace() wrote. A gradient is ready when it is on the slowest rank, in the median of the
 * steps. Returns false after a message that names file, line and remedy.
 */
bool model_of_trace(const char *name, const char *text, size_t bytes, struct model *out);

#endif
