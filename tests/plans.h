/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans in tests: emit all ranks', read them from text, run them in the oracle. */
#ifndef PLAIT_TESTS_PLANS_H
#define PLAIT_TESTS_PLANS_H

#include "random.h"

#include <plait/plan.h>

struct plans {
    struct plait_plan **plan; /* [n] */
    uint32_t n;
};

/* As `const struct plait_plan *const *`, which C does not convert to by itself. */
#define CONST_PLANS(p) ((const struct plait_plan *const *)(p)->plan)

struct plans plans_emit(const struct plait_alg *alg, const struct plait_shape *shape);

/*
 * One plan per text, of an all-reduce out of place: "nblk ntmp nlane\n" and the steps, without "rN #i ".
 * E.g. { "1 1 1\nsend in[0] to r1\n", ... }. Aborts on a mistake.
 */
struct plans plans_read(const char *const *texts, uint32_t n, bool inplace);
struct plans plans_read_coll(enum plait_coll coll, uint32_t root, const char *const *texts, uint32_t n, bool inplace);
void plans_free(struct plans *p);

/* Write a plan file, with a first line or "". Aborts if it cannot. */
void plans_write(const struct plans *p, const char *path, const char *first);

/* Write an all-gather around a ring that goes through the ranks in this order, [n], as a plan file. */
void plans_write_ring(const char *path, const uint32_t *order, uint32_t n);

/*
 * Run with `count` elements of 64-bit integers (per block, where blocks have one size), ready steps in the order of
 * `seed`: did the run end and does every rank have what the collective promises, with sums where it combines? The
 * inputs depend on the seed too.
 */
bool plans_right(const struct plans *p, size_t count, uint64_t seed);

/*
 * The same with an operator that is neither commutative nor associative: do all ranks of an
 * all-reduce have the same? Collectives that do not combine must not care.
 */
bool plans_same_bits(const struct plans *p, size_t count, uint64_t seed);

#endif
