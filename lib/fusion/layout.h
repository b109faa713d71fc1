/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensor lies where: a pure function of tensors and rule, so the same on all ranks. */
#ifndef PLAIT_LIB_FUSION_LAYOUT_H
#define PLAIT_LIB_FUSION_LAYOUT_H

#include <plait/fusion.h>

#include <stdbool.h>

#define PLAIT_FUSION_ALIGN 64 /* bytes of payload between starts of tensors */

struct plait_place { /* of a tensor */
    uint32_t bucket;
    size_t start; /* elements from the start of the bucket */
};

struct plait_slab { /* of memory that travels as one */
    enum plait_dtype type;
    uint32_t first, last, ntensor; /* tensors; not all between are here */
    size_t count; /* elements; with padding, but for one tensor alone without shards. Shards have the same number */
};

struct plait_flat {
    uint32_t nbucket;
    struct plait_slab *buckets; /* in the order of their last tensors, in which they are complete */
    struct plait_place *places; /* [ntensor] */
    size_t bytes;               /* of payload */
};

/* What of a tensor travels. */
enum plait_dtype plait_payload_of(const struct plait_tensor *tensor, enum plait_dtype payload);

/* nshard: ranks among which each bucket is cut, or 1. `out` is freed with plait_flat_free(), also after an error. */
enum plait_status plait_flat_make(const struct plait_tensor *tensors, uint32_t ntensor,
                                  const struct plait_layout *layout, enum plait_dtype payload, uint32_t nshard,
                                  struct plait_flat *out);
void plait_flat_free(struct plait_flat *flat);

#endif
