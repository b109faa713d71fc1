/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces with any inputs, run by real ranks or by the oracle, and compared bit for bit.
 *
 * The oracle knows what a result is: it follows the plan step by step in the reference arithmetic of
 * reduce_reference.h, rounds where the rounding of the job says so, and divides where the last contribution
 * comes in. It cuts the vector into the same slices, so every algorithm must give its bits.
 */
#ifndef PLAIT_TESTS_JOBS_H
#define PLAIT_TESTS_JOBS_H

#include <plait/plan.h>

struct job {                   /* equal on all ranks */
    char spec[PLAIT_MAX_SPEC]; /* "": chosen by the library, which the oracle takes for two-shot */
    enum plait_dtype type;
    enum plait_op op;
    enum plait_round round;
    size_t count, slice; /* slice in bytes; 0: the whole vector, which must be small */
    bool inplace, library, reproducible;
    char *in, *out, *want; /* [nrank][count] elements, in memory that processes share */
};

struct jobs {
    uint32_t nrank;
    const uint32_t *node;                /* [nrank] or NULL */
    const struct plait_alg *const *algs; /* the test's own, NULL-ended; or NULL */
    struct job *job;
    size_t n, capacity;
    char *memory;
    size_t used;
};

void jobs_init(struct jobs *j, uint32_t nrank, const uint32_t *node, const struct plait_alg *const *algs);
void jobs_finish(struct jobs *j);

/* Add a job like `like`, with memory. Its in is for the caller to fill. */
struct job *jobs_add(struct jobs *j, const struct job *like);

/* Forget what has been computed: the jobs can run again. */
void jobs_clear(const struct jobs *j);

/* Input of one rank. */
static inline char *job_in(const struct job *job, uint32_t rank)
{
    return job->in + rank * job->count * plait_dtype_size(job->type);
}

/* Run all, one after the other, in one comm of nprocess x nthread ranks. Number of ranks that failed. */
unsigned jobs_run(const struct jobs *j, uint32_t nprocess, uint32_t nthread);

/* Fill `want` (or `out`) from the oracle: false when it got stuck. */
bool jobs_expect(const struct jobs *j, uint64_t seed);
bool jobs_run_oracle(const struct jobs *j, uint64_t seed);

/* Number of elements of all ranks' `out` that differ from `want`; the first is printed. */
size_t jobs_wrong(const struct jobs *j, const char *where);

#endif
