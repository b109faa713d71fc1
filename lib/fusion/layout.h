/* SPDX-License-Identifier: BSD-3-Clause */
/* The place of each tensor: a pure function of tensors and rule, so equal on all ranks. */
#ifndef PLAIT_LIB_FUSION_LAYOUT_H
#define PLAIT_LIB_FUSION_LAYOUT_H

#include <plait/fusion.h>

#define PLAIT_FUSION_ALIGN 64 /* bytes; tensors in a payload start at multiples of it */

struct plait_place { /* of a tensor */
    uint32_t bucket;
    size_t start; /* elements from the start of the bucket */
};

struct plait_slab { /* the contents of a bucket */
    enum plait_dtype type;
    uint32_t first, last, ntensor; /* tensors; some between may be elsewhere */
    size_t count;                  /* elements, padded unless it is one tensor without shards; shards are equal */
};

struct plait_flat {
    uint32_t nbucket;
    struct plait_slab *buckets; /* ordered by last tensor: in this order they become complete */
    struct plait_place *places; /* [ntensor] */
    size_t bytes;               /* of payload */
};

/* nshard: ranks that share each bucket, or 1. The caller frees `out` with plait_flat_free(), also after an error. */
enum plait_status plait_flat_make(const struct plait_tensor *tensors, uint32_t ntensor,
                                  const struct plait_layout *layout, enum plait_dtype payload, uint32_t nshard,
                                  struct plait_flat *out);
void plait_flat_free(struct plait_flat *flat);

#endif
