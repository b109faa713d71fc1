/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate: a machine with its ranks, and what if it was another one (--what-if, --placement). */
#ifndef PLAIT_TOOLS_SCENE_H
#define PLAIT_TOOLS_SCENE_H

#include "simulate.h"

struct scene {
    struct plait_machine machine;
    uint32_t *place; /* [ranks of the machine] or NULL */
};

/*
 * Apply --what-if's changes, with commas between: "rack.uplink=/4,rank 5=/2,host 3=*0.5". LEVEL.FIELD and copy, reduce
 * and cache of the machine take a number, /FACTOR or *FACTOR; "rank N" and "LEVEL N" (the links of one unit) a factor.
 * Wrong text ends the program.
 */
void scene_change(struct scene *s, const char *changes);

/* --placement: "round-robin" over the units of level 0, or a file with the place of each rank. Wrong text ends the
 * program. */
void scene_place(struct scene *s, const char *placement, uint32_t nrank);

/* Candidates that do not take long to simulate, or `spec` alone; NULL after a message. */
struct plait_forecast *scene_forecast(const struct scene *s, const struct plait_shape *shape, const char *spec);

#endif
