/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion, scaling and checks of gradients on the way into the payload and out of it: one pass over memory each. */
#ifndef PLAIT_LIB_FUSION_PASS_H
#define PLAIT_LIB_FUSION_PASS_H

#include "reduce/reduce.h"

enum { PLAIT_PASS_PIECE = 192 /* elements; whole cache lines of every type */, PLAIT_PASS_AHEAD = 1536 /* bytes */ };

/* While `bytes` at `at` are read: prefetch as many bytes, PLAIT_PASS_AHEAD further on. */
static inline void plait_pass_fetch(const void *at, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch((const char *)at + PLAIT_PASS_AHEAD + line);
}

struct plait_vector { /* elements of one type */
    void *data;
    enum plait_dtype type;
};

/*
 * to[i] = from[i] * factor, for n elements. Types are equal, or float32 and a float of 16 bits; factor is 1 for
 * integers. `to` may equal `from`. streaming: use streaming stores, as the result is not read again soon. Where `to`
 * does not begin at a cache line there are none.
 *
 * square  NULL, or gets the sum of the squares of the written elements. False: one is an infinity or a NaN, and the sum
 *         is not finite. Integers are not checked.
 */
bool plait_pass(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                double factor, bool streaming, double *square);

/*
 * Only the sum of squares of floats. It is finite exactly if all elements are; with float64 the squares may overflow.
 */
double plait_pass_squares(const struct plait_kernels *k, const void *data, enum plait_dtype type, size_t n);

#endif
