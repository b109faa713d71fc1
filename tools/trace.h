/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-plan simulate --trace: one operation as Chrome's trace events, for ui.perfetto.dev. Each rank is a process;
 * thread 0 is its processor, the others are the messages that it sends, side by side where they overlap.
 */
#ifndef PLAIT_TOOLS_TRACE_H
#define PLAIT_TOOLS_TRACE_H

#include "scene.h"

/* Returns the exit status. */
int trace_write(const struct scene *scene, const struct plait_shape *shape, const char *spec, size_t count,
                const char *path);

#endif
