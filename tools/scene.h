/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate: a machine with its ranks, and what if it was another one (--what-if, --placement). */
#ifndef PLAIT_TOOLS_SCENE_H
#define PLAIT_TOOLS_SCENE_H

#include "simulate.h"

struct scene {
    struct plait_machine machine;
    uint32_t *place; /* [ranks of the machine] or NULL */
};

/* --what-if: plait_machine_change(). Wrong text ends the program. */
void scene_change(struct scene *s, const char *changes);

/* --placement: "round-robin" over the units of level 0, or a file with the place of each rank. Wrong text ends the
 * program. */
void scene_place(struct scene *s, const char *placement, uint32_t nrank);

/*
 * Candidates: `spec` alone, which must fit; NULL: all that fit and do not take long to simulate. NULL after a message.
 *
 * slices  of all operations that will be simulated, if they are many; else 0
 * large   [room] gets the names of those that take long; may be NULL
 */
struct plait_forecast *scene_forecast(const struct scene *s, const struct plait_shape *shape, const char *spec,
                                      uint64_t slices, char *large, size_t room);

#endif
