/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done to gradients on their way into the payload and out of it: one pass over memory each. */
#ifndef PLAIT_LIB_FUSION_PASS_H
#define PLAIT_LIB_FUSION_PASS_H

#include "reduce/reduce.h"

enum { PLAIT_PASS_PIECE = 192 /* elements; whole lines of every type */ };

/* Reading `bytes` of an array from `at` on: fetch what will be read a little later, `ahead` bytes behind. */
static inline void plait_pass_fetch(const void *at, size_t bytes, size_t ahead)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch((const char *)at + ahead + line);
}

struct plait_vector { /* elements of one type */
    void *data;
    enum plait_dtype type;
};

/*
 * to[i] = from[i] * factor, for n elements: types are equal, or float32 and a float of 16 bits; factor is 1 for
 * integers. `to` may equal `from`. past: write past the caches, for what is not read again soon.
 */
void plait_pass_convert(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                        double factor, bool past);

/*
 * The same, and look at what is written: the sum of its squares. False: there is an infinity or a NaN, and the sum is
 * not finite. Integers are not looked at.
 */
bool plait_pass_look(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                     double factor, bool past, double *square);

/*
 * Only the sum of squares, of floats. Not finite exactly when one is not, but of float64, where squares may overflow.
 */
double plait_pass_squares(const struct plait_kernels *k, const void *data, enum plait_dtype type, size_t n);

#endif
