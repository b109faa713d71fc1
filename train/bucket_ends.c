/* SPDX-License-Identifier: BSD-3-Clause */
#include "bucket_ends.h"

#include "allocate.h"

bool *bucket_ends(const struct plait_fusion *fusion, const uint32_t *order, uint32_t ntensor)
{
    bool *ends = allocate(ntensor, sizeof *ends);
    struct plait_fusion_bucket b;

    for (uint32_t k = 0; k < plait_fusion_nbucket(fusion); k++)
        if (plait_fusion_bucket(fusion, k, &b) == PLAIT_OK)
            ends[order[b.last]] = true;
    return ends;
}
