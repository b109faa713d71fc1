/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts of one plan that binding needs: its places in memory, and the bytes that its steps move. */
#include "prog.h"

uint32_t plait_nplace(const struct plait_plan *plan)
{
    const struct plait_geometry g =
        plait_geometry_of((enum plait_coll)plan->coll, plan->nrank, plan->root, plan->rank, plan->nblk);
    return g.out.nslot + g.in.nslot + plan->ntmp;
}

bool plait_overlaps_shifted(const struct plait_plan *plan, const struct plait_geometry *g, struct plait_span x,
                            struct plait_span y, uint32_t n)
{
    const uint32_t first = plait_place(plan, g, x, 0); /* a REDUCE writes OUT or TMP, whose places are consecutive */

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t at = plait_place(plan, g, y, k) - first;
        if (at < n && at != k)
            return true;
    }
    return false;
}

bool plait_moves_single_blocks(const struct plait_plan *plan)
{
    const struct plait_geometry g =
        plait_geometry_of((enum plait_coll)plan->coll, plan->nrank, plan->root, plan->rank, plan->nblk);

    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        if (s->nblk > 1 || s->blk == PLAIT_AS_LIES ||
            (plait_side_slot(&g.in, s->blk) == UINT32_MAX && plait_side_slot(&g.out, s->blk) == UINT32_MAX))
            return false;
    }
    return true;
}
