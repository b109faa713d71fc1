/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks as graphs: nodes in the order in which they run, values between them, and tensors that are learnt. Shapes only:
 * layers.h computes, model.c has the memory.
 */
#ifndef PLAIT_TRAIN_NETWORK_H
#define PLAIT_TRAIN_NETWORK_H

#include "model.h"

enum node_kind {
    NODE_CONVOLUTION,
    NODE_NORM,    /* batch norm, then where relu is set max(x, 0) */
    NODE_ADD,     /* max(in + in2, 0): the end of a block */
    NODE_LARGEST, /* pooling: the largest of a window */
    NODE_AVERAGE, /* pooling: the mean of all pixels */
    NODE_PRODUCT, /* with a matrix, plus a bias */
    NODE_NKIND
};

struct value { /* what goes from node to node; number 0 are the images */
    uint32_t channels, height, width;
};

struct node {
    enum node_kind kind;
    char name[48];
    uint32_t in, out; /* values */
    uint32_t in2;     /* ADD: the shortcut */
    uint32_t tensor;  /* the first of those that it has */
    uint32_t ntensor;
    uint32_t kernel, stride, pad;
    bool relu;
    bool last; /* the last norm of a block */
};

struct network {
    struct node *nodes;
    struct value *values;
    struct tensor *tensors;
    uint32_t nnode, nvalue, ntensor;
};

const char *const *network_names(void);
/** NULL: no such name, or too few pixels: a message says what is possible. */
struct network *network_create(const char *name, uint32_t nclass, uint32_t pixels);
void network_destroy(struct network *network);

#endif
