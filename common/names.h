/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and algorithms as users name them: any spelling that plait_coll_find() knows. */
#ifndef PLAIT_COMMON_NAMES_H
#define PLAIT_COMMON_NAMES_H

#include <stdbool.h>

struct plait_alg;

/** The collective, or -1 without a message; *vform: its form with blocks of different sizes, such as "allgatherv". */
int name_coll(const char *text, bool *vform);

/** The algorithm in "ring" or, as in PLAIT_ALGO, "allgather:ring"; *coll: that collective, or -1. */
const char *name_algorithm(const char *text, int *coll);

/** plait_alg_list(). An error in PLAIT_PLANS ends the program, with exit status 2. */
const struct plait_alg *const *name_algorithms(void);

#endif
