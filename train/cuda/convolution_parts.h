/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside convolutions: their descriptors, and how a plan is chosen. */
#ifndef PLAIT_TRAIN_CUDA_CONVOLUTION_PARTS_H
#define PLAIT_TRAIN_CUDA_CONVOLUTION_PARTS_H

#include "convolution.h"
#include "libraries.h"

enum { MOST_MADE = 16, UID_X = 1, UID_W = 2, UID_Y = 3 };

struct pack {          /* cuDNN's variant pack: where a run finds its tensors. It does not change once it is final. */
    void *pointers[4]; /* x, w, y, workspace */
    cudnn_descriptor descriptor;
    struct pack *next;
};

struct convolution {
    struct libraries *libraries;
    struct convolution *next;
    struct device_convolution shape;
    enum convolution_pass pass;
    struct convolution_wants wants;
    cudnn_descriptor made[MOST_MADE]; /* all that lives as long as this, in the order of their making */
    unsigned nmade;
    cudnn_descriptor graph, plan;
    struct pack *packs; /* of all runs so far: one for each layer with this convolution */
    size_t workspace;
    char engine[96];
    /* Of the latest use: the first error, the call, and what cuDNN adds to it. */
    int status;
    const char *call;
    char more[256];
};

struct choice { /* what became of the engines that the heuristics have */
    unsigned seen, unwanted, too_large, failed;
    size_t least; /* workspace of those that are too large */
    int status;   /* of the latest failure */
    char why[256];
};

/* ---- Descriptors (convolution_graph.c). The first error is kept; after it nothing is done, and results are 0. ---- */

bool convolution_check(struct convolution *c, const char *call, int status);
cudnn_descriptor convolution_make(struct convolution *c, int type);
void convolution_set(struct convolution *c, cudnn_descriptor d, int attribute, int type, int64_t n, const void *values);
void convolution_set_numbers(struct convolution *c, cudnn_descriptor d, int attribute, int64_t n,
                             const int64_t *values);
void convolution_set_descriptor(struct convolution *c, cudnn_descriptor d, int attribute, cudnn_descriptor value);
void convolution_finalize(struct convolution *c, cudnn_descriptor d);
int64_t convolution_get(struct convolution *c, cudnn_descriptor d, int attribute, int type, int64_t room, void *values);

/* ---- Its parts ---- */

/* The graph of one operation. */
void convolution_make_graph(struct convolution *c);
const char *convolution_pass_name(enum convolution_pass pass);
/* The plan by the first engine that does what is wanted; none: c->plan stays NULL, and the choice says why. */
void convolution_choose(struct convolution *c, struct choice *choice);

#endif
