/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic: one pass over memory each. w are weights, c the centre, a the pull. All is float32, rounded after
 * every operation; differences are rounded to the payload's type where they travel.
 */
#ifndef PLAIT_LIB_ELASTIC_PASS_H
#define PLAIT_LIB_ELASTIC_PASS_H

#include "reduce/reduce.h"

/* d = w - c, in the payload's type, and so small that the sum of `summed` is finite. d may begin where w does. */
void plait_elastic_subtract(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                            const float *c, size_t n, uint32_t summed);

/* x = x + a d: the centre's gain; with -a what a worker gives up, which rounds as w - a d does. */
void plait_elastic_add(const struct plait_kernels *k, enum plait_dtype payload, float *x, const void *d, size_t n,
                       float a);

/* w = w - a (w - c) */
void plait_elastic_pull(float *w, const float *c, size_t n, float a);

/* The same, and then c = c + a (s - p c), s being the sum of p weights. */
void plait_elastic_meet(float *w, float *c, const float *s, size_t n, float a, float p);

/*
 * A server's whole work: d = w - c and c = c + a d. The second is for many threads at once, and returns the sum of all
 * a d.
 */
void plait_elastic_serve_one(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w, float *c,
                             size_t n, float a);
double plait_elastic_serve_unlocked(const struct plait_kernels *k, enum plait_dtype payload, void *d, const float *w,
                                    float *c, size_t n, float a);

/* v = m v - r g, w = w + v; without v: w = w - r g. */
void plait_elastic_local(float *w, float *v, const float *g, size_t n, float m, float r);

#endif
