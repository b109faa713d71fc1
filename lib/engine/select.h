/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm, path, slice and rounding an operation gets: a pure function, equal on all ranks. */
#ifndef PLAIT_LIB_ENGINE_SELECT_H
#define PLAIT_LIB_ENGINE_SELECT_H

#include "operation/operation.h"

/*
 * A message from memory that is not shared can be read through the kernel, once, instead of being staged and read; one
 * that a root combines as well, into its result or memory of its own. Below PLAIT_LEAST_ONCE the call costs more.
 * Above, lend.h measures which takes less time for the two ends of a message. Where one rank takes more than MOST in
 * all, of a reduce from each, that is not all: in a gather staging gives others a part of what the root would do alone,
 * in an all-gather several find in a cache what was staged once, and of a long reduce slices are staged while others
 * are combined. Measured with 2 and 4 ranks on 2 cores (Sapphire and Emerald Rapids).
 */
#define PLAIT_MOST_ONCE_GATHER    ((size_t)1 << 20)
#define PLAIT_MOST_ONCE_ALLGATHER ((size_t)8 << 20)
#define PLAIT_MOST_ONCE_REDUCE    ((size_t)512 << 10)

/*
 * taken: bytes that one rank takes in all. oversubscribed: others' processors have a rank to run already, so none is
 * free to stage.
 */
static inline bool plait_copies_once(enum plait_coll coll, size_t message, size_t taken, bool oversubscribed)
{
    return message >= PLAIT_LEAST_ONCE && taken <= (coll == PLAIT_GATHER && !oversubscribed ? PLAIT_MOST_ONCE_GATHER
                                                    : coll == PLAIT_REDUCE                  ? PLAIT_MOST_ONCE_REDUCE
                                                    : coll == PLAIT_ALLGATHER               ? PLAIT_MOST_ONCE_ALLGATHER
                                                                                            : SIZE_MAX);
}

struct plait_wish { /* what the caller, the comm and the configuration ask for */
    const struct plait_alg *const *algorithms;
    const char *spec; /* "" when the size decides */
    const char *spec_origin;
    size_t slice; /* bytes; 0: `cache` decides */
    size_t cache; /* bytes of the cache a slice should stay in */
    enum plait_round round;
    bool reproducible;
    bool average;
    bool user;           /* a user function, which rounds as it does */
    bool ordered;        /* one that is not commutative */
    bool oversubscribed; /* more ranks than processors */
    bool sized;          /* blocks differ in size */
    bool cma;            /* all ranks read each other's memory through the kernel */
    bool far;            /* ranks are on several hosts */
    bool device;         /* the buffers are in a device's memory */
    bool paced;          /* links are slowed down, so everything goes over them; */
    double latency;      /* seconds of theirs, or 0 */
};

/*
 * Is this small enough for eager.c? bytes: of the vector, or of a block; of blocks that differ in size of the largest,
 * if all ranks know it, else 0. wish: sized, oversubscribed, far and paced are read.
 */
bool plait_fits_eager(enum plait_coll coll, uint32_t nrank, size_t bytes, const struct plait_wish *wish);

/* The largest power of two of bytes that is; 0: none. */
size_t plait_most_eager(enum plait_coll coll, uint32_t nrank, const struct plait_wish *wish);

/* Several, as the ranks' nodes say? NULL: one. */
bool plait_has_nodes(const uint32_t *node, uint32_t nrank);

/* In the library's table, or the caller's own? */
bool plait_is_of_library(const struct plait_alg *alg);

/*
 * shape: coll, nrank, node and inplace are read; param is written, and inplace where inputs are divided first, as they
 * then lie elsewhere. Errors: PLAIT_ERR_CONFIG, PLAIT_ERR_UNSUPPORTED.
 */
enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *wish, struct plait_selection *out);

/* The error of blocks that differ in size and such an algorithm. */
enum plait_status plait_cannot_differ(const char *spec);

/* The spec in "allreduce:SPEC[,...]" (PLAIT_ALGO) for this collective, or "". */
void plait_spec_for(const char *setting, enum plait_coll coll, char spec[PLAIT_MAX_SPEC]);

void plait_explain(const struct plait_selection *s, size_t size, struct plait_choice *out);

#endif
