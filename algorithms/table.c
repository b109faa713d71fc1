/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm of the library. Tests, selection, tools and docs loop over this array. */
#include "algorithms.h"

#include <stddef.h>

const struct plait_alg *const plait_algs[] = {
    &plait_alg_ring,
    NULL,
};
