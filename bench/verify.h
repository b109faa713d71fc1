/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs whose exact result is known, for every type and operator.
 *
 * Sums and averages: small integers, so small that every partial sum over any set of ranks, in any
 * order, is exact in the type (8 significant bits for bfloat16, 11 for float16, 24 for float32). With
 * more ranks than the type can count, most ranks hold 0. Averages are whole numbers.
 * Products: powers of two and signs, so few that no partial product leaves the type's range.
 * Minimum and maximum: integers.
 *
 * Element i of every rank depends on i modulo a prime period, so that a shifted or exchanged block
 * shows, and filling and comparing run at memory speed. Every element is compared, bit for bit.
 */
#ifndef PLAIT_BENCH_VERIFY_H
#define PLAIT_BENCH_VERIFY_H

#include <plait/coll.h>

#include <stdbool.h>

#define VERIFY_PERIOD 16381 /* elements; a prime, so no power-of-two block begins at the same phase */

struct pattern {
    size_t width;                    /* bytes of an element */
    size_t period;                   /* elements that were worked out */
    unsigned char *input, *expected; /* [period] elements of this rank's input, of everyone's result */
};

/*
 * The pattern of one rank.
 *
 * count  elements of the largest buffer that it will be used for
 * seed   makes another one of the same kind
 * Returns false when out of memory.
 */
bool pattern_init(struct pattern *out, enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank,
                  size_t count, uint32_t seed);
void pattern_finish(struct pattern *p);

/* Write `count` elements of the input to `buffer`. */
void pattern_fill(const struct pattern *p, void *buffer, size_t count);

/* The scalar of a rank's pre-multiplied sum: one element. */
void pattern_scale(enum plait_dtype type, uint32_t rank, void *out);

/* Elements of `buffer` that differ from the expected result, or from the input. */
size_t pattern_wrong(const struct pattern *p, const void *buffer, size_t count);
size_t pattern_changed(const struct pattern *p, const void *buffer, size_t count);

/* Fill with a value that the operator keeps, so that repeated operations in place never overflow. */
void steady_fill(void *buffer, size_t count, enum plait_dtype type, enum plait_op op);

#endif
