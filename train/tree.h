/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of vectors that arrive one after the other, in the canonical order (plait/plan.h): E(n) = E(m) + E(n - m), m the
 * largest power of two below n. Complete subtrees wait at their level until their neighbour is complete, like the
 * digits of a binary counter. Over ranks with a power of two of vectors each, the library continues the same tree. So
 * the sum has the same bits for any number of ranks. All vectors are in a device's memory.
 */
#ifndef PLAIT_TRAIN_TREE_H
#define PLAIT_TRAIN_TREE_H

#include "device.h"

struct tree {
    struct device *device;
    uint32_t n;       /* number of vectors */
    float *level[32]; /* [count] each; NULL: this level is not reached */
};

/** The device frees the tree's memory when it is destroyed. */
void tree_init(struct tree *tree, struct device *device, uint32_t n, size_t count);

/** Where to write the k-th vector; NULL: it is the last one, and is written where the sum will be. */
float *tree_place(const struct tree *tree, uint32_t k);

/** `count` elements of the k-th vector, from `start` on, are written at `into`: add the subtrees that wait for them. */
void tree_add(const struct tree *tree, uint32_t k, size_t start, size_t count, float *into);

#endif
