/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic, one pass over memory each. w are weights, c the centre, a the pull. All is float32, rounded after
 * every operation. Differences that are sent are rounded to the payload's type.
 */
#ifndef PLAIT_LIB_ELASTIC_PASS_H
#define PLAIT_LIB_ELASTIC_PASS_H

#include "reduce/reduce.h"

/* d = w - c in the payload's type, clamped so that a sum of `summed` of them is finite. d may begin where w does. */
void plait_elastic_subtract(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                            const float *c, size_t n, uint32_t summed);

/* x = x + a d, for the centre. With -a for a worker's weights: it rounds as w - a d does. */
void plait_elastic_add(const struct plait_kernels *k, enum plait_dtype payload, float *x, const void *d, size_t n,
                       float a);

/* w = w - a (w - c) */
void plait_elastic_pull(float *w, const float *c, size_t n, float a);

/* The same, then c = c + a (s - p c); s is the sum of the weights of p workers. */
void plait_elastic_meet(float *w, float *c, const float *s, size_t n, float a, float p);

/*
 * A server's exchange: d = w - c and c = c + a d. The second function allows many threads at once without locks
 * (Hogwild), and returns the sum of all a d.
 */
void plait_elastic_serve_one(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w, float *c,
                             size_t n, float a);
double plait_elastic_serve_unlocked(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                                    float *c, size_t n, float a);

/* v = m v - r g, w = w + v; without v: w = w - r g. */
void plait_elastic_local(float *w, float *v, const float *g, size_t n, float m, float r);

#endif
