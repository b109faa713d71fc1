/* SPDX-License-Identifier: BSD-3-Clause */
/* Training steps of a worker (step.h): where gradients lie, when they appear, and how they are exchanged. */
#ifndef PLAIT_BENCH_TRAINING_H
#define PLAIT_BENCH_TRAINING_H

#include "worker.h"

struct training {
    const struct backend *backend;
    void *self;
    struct step step;      /* the arranged step */
    uint64_t total;        /* elements */
    void *flat, *flat_own; /* [flat_bytes] SCHEME_FLAT: from the library, and in the gradients' own memory */
    size_t flat_bytes;
};

/*
 * Prepare for steps on these tensors. The list becomes that of backward order, with the place of each tensor in such
 * steps; with SCHEME_FLAT, one vector of all tensors.
 *
 * o   [*n] in place, each in its own memory
 * Returns false when the backend failed or memory is short.
 */
bool training_arrange(struct training *t, const struct step *s, struct operation *o, uint32_t *n);
void training_finish(struct training *t);

/* Ranks call it before the barrier of a step. Returns false on failure, see backend->error(). */
bool training_before(const struct training *t);

/* Run one step. Returns false on failure, see backend->error(). */
bool training_step(struct training *t, const struct operation *o, uint32_t n);

/* Are the results averages? */
bool training_averages(const struct training *t);

/* The type in which inputs must be exact. */
static inline enum plait_dtype training_exact(const struct step *s, enum plait_dtype type)
{
    return s->scheme == SCHEME_FUSED ? (enum plait_dtype)s->payload : type;
}

#endif
