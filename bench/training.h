/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's steps (step.h): where gradients lie, when they appear, and what then happens to them. */
#ifndef PLAIT_BENCH_TRAINING_H
#define PLAIT_BENCH_TRAINING_H

#include "worker.h"

struct training {
    const struct backend *backend;
    void *self;
    struct step step;      /* that it is ready for */
    uint64_t total;        /* elements */
    void *flat, *flat_own; /* [flat_bytes] of SCHEME_FLAT: from the library, and where gradients of their own lie */
    size_t flat_bytes;
};

/*
 * Be ready for steps on these tensors: the list becomes that of backward order, with each one where it lies in such
 * steps; of SCHEME_FLAT, that of one vector with all of them.
 *
 * o   [*n] in place, in memory of their own
 * Returns false when the backend has failed or memory is short.
 */
bool training_arrange(struct training *t, const struct step *s, struct operation *o, uint32_t *n);
void training_finish(struct training *t);

/* Ranks call it before they meet for a step. false: see backend->error(). */
bool training_before(const struct training *t);

/* One step. false: see backend->error(). */
bool training_step(struct training *t, const struct operation *o, uint32_t n);

/* Are the results averages? */
bool training_averages(const struct training *t);

/* What the inputs must be exact in. */
static inline enum plait_dtype training_exact(const struct step *s, enum plait_dtype type)
{
    return s->scheme == SCHEME_FUSED ? (enum plait_dtype)s->payload : type;
}

#endif
