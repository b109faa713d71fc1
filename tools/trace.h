/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate --trace: Chrome's trace events, for ui.perfetto.dev. */
#ifndef PLAIT_TOOLS_TRACE_H
#define PLAIT_TOOLS_TRACE_H

#include "model.h"
#include "scene.h"

/*
 * One operation. Each rank is a process; thread 0 is its processor, the others are the messages that it sends, side by
 * side where they overlap. Returns false after a message.
 */
bool trace_write(const struct scene *scene, const struct plait_shape *shape, const char *spec, size_t count,
                 const char *path);

/*
 * A step of training on the slowest rank, with rows as plait_fusion_trace() has them; --step reads it. buckets:
 * [step->nbucket]
 */
bool trace_write_step(const char *path, const struct model *m, const struct plait_training_bucket *buckets,
                      const struct plait_step_time *step);

#endif
