/* SPDX-License-Identifier: BSD-3-Clause */
/* The training program's kernels on the host: a launcher, and arrays whose surroundings must not change. */
#ifndef PLAIT_TESTS_TRAIN_KERNELS_H
#define PLAIT_TESTS_TRAIN_KERNELS_H

#include "../train/cuda/kernels/launch.h"
#include "random.h"
#include "unit.h"

/* Runs at most `most` blocks, which do all the work. */
struct train_launcher on_host(uint32_t most);

/* Numbers of blocks to try: results are the same bits. */
enum { NGRID = 3 };
extern const uint32_t grids[NGRID];

/* ---- Arrays, of n elements; beside them are NaNs ---- */

struct array {
    char *memory; /* with what is beside the elements */
    void *at;
    uint64_t n;
    uint32_t size; /* of an element */
    enum plait_dtype type;
};

/* Beside 16-byte boundaries if aligned is false. Zeros. */
struct array array_make(enum plait_dtype type, uint64_t n, bool aligned);
struct array array_copy(const struct array *a);
/* Fails if anything beside the elements has changed. */
void array_free(struct array *a);

double array_get(const struct array *a, uint64_t k);
void array_set(struct array *a, uint64_t k, double value); /* rounded to nearest even */
void array_set_bits(struct array *a, uint64_t k, uint32_t bits);
/* Normal numbers. */
void array_draw(struct array *a, uint64_t *state, double mean, double deviation);
double draw_normal(uint64_t *state);

void assert_equal_bits(const struct array *a, const struct array *b);
/* Each differs by at most `most` x (1 + |value|), besides one rounding to the type. NaNs are equal. */
void assert_near(const struct array *a, const double *values, double most);

extern const enum plait_dtype types[3];
double rounding(enum plait_dtype type); /* half a unit in the last place of 1 */
double rounded(enum plait_dtype type, double value);

#endif
