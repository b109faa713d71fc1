/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's buffers, and the operations that a command makes of them. */
#ifndef PLAIT_BENCH_OPERATIONS_H
#define PLAIT_BENCH_OPERATIONS_H

#include "collectives.h"
#include "training.h"
#include "worker.h"

struct tensor {
    unsigned char *in, *out; /* as allocated; operations start `unalign` elements further on */
};

struct worker {
    int fd;
    uint32_t rank;
    struct stage *stage;
    const struct backend *backend;
    void *self;
    struct tensor *tensor; /* [stage->ntensor] */
    struct computer computer;
    struct training training;
    /* Of the current command: */
    enum plait_dtype type;
    struct plait_geometry geometry;   /* of this rank */
    struct parts in_parts, out_parts; /* of all its operations; [nrank] elements each */
    uint32_t noperation;              /* one for each tensor of the command */
    struct operation *operation;      /* [stage->ntensor] */
};

/* Allocate the buffers of all tensors. Returns false when out of memory; call worker_free_tensors() even then. */
bool worker_alloc_tensors(struct worker *w);
void worker_free_tensors(struct worker *w);

/* Set up the operations of a command. */
void worker_plan(struct worker *w, const struct command *c);

/* Elements of one side (IN or OUT) of an operation. */
size_t worker_elements(const struct worker *w, const struct operation *o, const struct plait_side *side);

#endif
