/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate --step, --scale and --sweep: tables of one scene, or of two beside each other. */
#ifndef PLAIT_TOOLS_STEP_H
#define PLAIT_TOOLS_STEP_H

#include "scene.h"

/* n scenes: the machine, and what if. Each returns the exit status. */
int step_layouts(const struct scene *scenes, int n, const struct plait_shape *shape, const char *spec,
                 const struct simulate_options *o);
int step_scale(const struct scene *scenes, int n, const struct plait_shape *shape, const char *spec, size_t count,
               const struct simulate_options *o);
int step_sweep(const struct scene *scenes, int n, const struct plait_shape *shape, const char *spec,
               const struct simulate_options *o);

#endif
