/* SPDX-License-Identifier: BSD-3-Clause */
/* Select algorithm, path, slice and rounding of an operation: a pure function, equal on all ranks. */
#ifndef PLAIT_LIB_ENGINE_SELECT_H
#define PLAIT_LIB_ENGINE_SELECT_H

#include "operation/operation.h"

#define PLAIT_WHY_EAGER "eager: everyone reads what it needs from where its owner put it, one step"

/*
 * Single copy: the receiver reads a message in unshared memory through the kernel, instead of copy-in and copy-out. A
 * root that reduces reads it into its result or a landing. Below PLAIT_LEAST_ONCE the system call costs more. Above,
 * copy_mode.h measures which copy mode costs sender and receiver less.
 *
 * The limits are bytes that one rank receives in all, in a reduce from each rank. Above them staging wins. In a
 * gather the senders do part of the root's copying. In an all-gather several ranks read one staged copy from a cache.
 * In a long reduce ranks stage slices while the root reduces others. Measured with 2 and 4 ranks on 2 cores (Sapphire
 * and Emerald Rapids).
 */
#define PLAIT_MOST_ONCE_GATHER    ((size_t)1 << 20)
#define PLAIT_MOST_ONCE_ALLGATHER ((size_t)8 << 20)
#define PLAIT_MOST_ONCE_REDUCE    ((size_t)512 << 10)

/*
 * May a message be a single copy? taken: bytes that one rank receives in all. oversubscribed: more ranks than
 * processors, so no processor is free to stage.
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
    bool user;           /* a user function, which does its own rounding */
    bool ordered;        /* a user function that is not commutative */
    bool oversubscribed; /* more ranks than processors */
    bool sized;          /* blocks differ in size */
    bool cma;            /* all ranks can read each other's memory through the kernel */
    bool far;            /* ranks are on several hosts */
    bool device;         /* the buffers are in a device's memory */
    bool paced;          /* links are slowed down, so all data goes over them */
    double latency;      /* seconds, of the paced links; or 0 */
};

/*
 * Is this small enough for the eager path? bytes: of the vector or of a block; in v-forms of the largest block if all
 * ranks know it, else 0. Reads sized, oversubscribed, far, device and paced of `wish`.
 */
bool plait_fits_eager(enum plait_coll coll, uint32_t nrank, size_t bytes, const struct plait_wish *wish);

/* The largest power of two of bytes that fits the eager path; 0: none. */
size_t plait_most_eager(enum plait_coll coll, uint32_t nrank, const struct plait_wish *wish);

/* Are the ranks on several nodes? node NULL: on one. */
bool plait_has_nodes(const uint32_t *node, uint32_t nrank);

/* Is it in the library's table? Else it is the caller's own. */
bool plait_is_of_library(const struct plait_alg *alg);

/*
 * Reads coll, nrank, node and inplace of `shape`. Writes param, and inplace if the inputs are divided first, which may
 * move them. Errors: PLAIT_ERR_CONFIG, PLAIT_ERR_UNSUPPORTED.
 */
enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *wish, struct plait_selection *out);

/* Fail: this algorithm cannot run a v-form. */
enum plait_status plait_cannot_differ(const char *spec);

/* The spec in "allreduce:SPEC[,...]" (PLAIT_ALGO) for this collective, or "". */
void plait_spec_for(const char *setting, enum plait_coll coll, char spec[PLAIT_MAX_SPEC]);

void plait_explain(const struct plait_selection *s, size_t size, struct plait_choice *out);

#endif
