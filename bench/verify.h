/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs whose exact result is known, for every collective, type and operator.
 *
 * Without an operator: any bits.
 * Sums and averages: integers so small that every partial sum over any ranks in any order is exact in the type (8
 * significant bits for bfloat16, 11 for float16, 24 for float32). With more ranks than the type can count, most ranks
 * hold 0. Averages are whole numbers.
 * Products: powers of two and signs, so few that no partial product leaves the type's range.
 * Minimum and maximum: integers.
 *
 * Element i of every rank depends on i modulo a prime period. So a shifted or exchanged block shows, and filling and
 * comparing run at memory speed. Every element is compared bit for bit.
 */
#ifndef PLAIT_BENCH_VERIFY_H
#define PLAIT_BENCH_VERIFY_H

#include <plait/plan.h>

#define VERIFY_PERIOD 16381 /* elements; a prime, so no power-of-two block begins at the same phase */

struct inputs { /* of all ranks */
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* PLAIT_NOP where nothing is combined */
    uint32_t nrank, root;
    uint32_t seed; /* selects other inputs of the same kind */
};

struct pattern {
    size_t width;           /* bytes of an element */
    size_t period;          /* elements that were computed */
    size_t lead;            /* elements before the part that it is compared with */
    unsigned char *element; /* [period] */
};

/*
 * The input of one rank, and the block that belongs into a slot of its output (collective_geometry()).
 *
 * most  elements of the largest vector, over all its blocks; for an output with blocks, of every vector
 * Returns false when out of memory.
 */
bool pattern_input(struct pattern *out, const struct inputs *in, uint32_t rank, size_t most);
bool pattern_output(struct pattern *out, const struct inputs *in, uint32_t rank, uint32_t slot, size_t most);
void pattern_finish(struct pattern *p);

/* Convert the pattern to another type: a 16-bit float to float32. Returns false when out of memory. */
bool pattern_as(struct pattern *p, enum plait_dtype from, enum plait_dtype to);

/* Write the first `count` elements to `buffer`. */
void pattern_fill(const struct pattern *p, void *buffer, size_t count);

/* How many of the `count` elements of a block, or of a whole input, differ. */
size_t pattern_differing(const struct pattern *p, const void *buffer, size_t count);

/* The scalar of a rank's pre-multiplied sum: one element. */
void pattern_scale(enum plait_dtype type, uint32_t rank, void *out);

/* Fill with a value that repeated operations in place do not change, so that they never overflow. */
void steady_fill(void *buffer, size_t count, enum plait_dtype type, enum plait_op op);

#endif
