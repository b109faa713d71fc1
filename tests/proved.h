/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans in tests: are those of all ranks, fused like this, free of deadlock? */
#ifndef PLAIT_TESTS_PROVED_H
#define PLAIT_TESTS_PROVED_H

#include "comm/comm.h"
#include "engine/prog.h"
#include "plans.h"
#include "specs.h"

static inline bool is_proved(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                             enum plait_fusing fusing)
{
    struct plans p = plans_emit(alg, shape);
    uint32_t **nodes = must_have(calloc(p.n, sizeof *nodes));
    bool proved = true;

    for (uint32_t r = 0; r < p.n; r++) {
        nodes[r] = must_have(calloc(p.plan[r]->nstep + 1, sizeof *nodes[r]));
        proved &= plait_fuse(p.plan[r], fusing, nodes[r]) == PLAIT_OK;
    }
    proved &=
        plait_check_deadlock(spec, CONST_PLANS(&p), p.n, (const uint32_t *const *)nodes, PLAIT_WINDOW) == PLAIT_OK;
    for (uint32_t r = 0; r < p.n; r++)
        free(nodes[r]);
    free(nodes);
    plans_free(&p);
    return proved;
}

#endif
