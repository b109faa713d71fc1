/* SPDX-License-Identifier: BSD-3-Clause */
#include "tree.h"

/* The level at which the k-th vector waits, with the subtrees added to it. */
static uint32_t level_of(uint32_t k)
{
    uint32_t level = 0;

    while (k >> level & 1)
        level++;
    return level;
}

void tree_init(struct tree *tree, struct device *device, uint32_t n, size_t count)
{
    *tree = (struct tree){ .device = device, .n = n };
    for (uint32_t level = 0; 1u << level < n; level++)
        tree->level[level] = device->kind->alloc(device, count * sizeof(float));
}

float *tree_place(const struct tree *tree, uint32_t k)
{
    return k + 1 < tree->n ? tree->level[level_of(k)] : NULL;
}

void tree_add(const struct tree *tree, uint32_t k, size_t start, size_t count, float *into)
{
    const uint32_t above = k + 1 < tree->n ? level_of(k) : 32;

    for (uint32_t level = 0; level < above && k >> level > 0; level++)
        if (k >> level & 1)
            tree->device->kind->add(tree->device, (struct elements){ PRECISION_FP32, count }, into,
                                    tree->level[level] + start);
}
