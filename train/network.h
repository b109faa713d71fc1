/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks as graphs: nodes in execution order, values between them, and learnt tensors. Only shapes: layers.h
 * computes, model.c owns the memory.
 */
#ifndef PLAIT_TRAIN_NETWORK_H
#define PLAIT_TRAIN_NETWORK_H

#include "model.h"

enum node_kind {
    NODE_CONVOLUTION,
    NODE_NORM,    /* batch norm, + in2, then max(x, 0) if relu is set */
    NODE_LARGEST, /* max pooling */
    NODE_AVERAGE, /* global average pooling */
    NODE_PRODUCT, /* fully connected: a matrix product, plus a bias */
    NODE_NKIND
};

struct value { /* what passes between nodes; number 0 is the images */
    uint32_t channels, height, width;
};

enum { NODE_NAME = 48 };

struct node {
    enum node_kind kind;
    char name[NODE_NAME];
    uint32_t in, out; /* values */
    uint32_t in2;     /* NORM, the last of a block: the shortcut, which is added, with relu; else 0 */
    uint32_t tensor;  /* the first of its tensors */
    uint32_t ntensor;
    uint32_t kernel, stride, pad;
    bool relu;
};

struct network {
    struct node *nodes;
    struct value *values;
    struct tensor *tensors;
    uint32_t nnode, nvalue, ntensor;
};

const char *const *network_names(void);
/** Returns NULL after a message: no such name, or too few pixels. */
struct network *network_create(const char *name, uint32_t nclass, uint32_t pixels);
void network_destroy(struct network *network);

/** Output pixels of a window of a convolution or pooling. */
uint32_t network_pooled(uint32_t size, uint32_t kernel, uint32_t stride, uint32_t pad);

#endif
