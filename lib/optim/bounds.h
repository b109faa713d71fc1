/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What optim.c and the GPU kernels share: the loss scale, and bounds of weights and momenta.
 *
 * Bounds of weights and momenta after a step, from norms: no element is larger than the norm. An optimiser carries the
 * bounds from step to step. It reads all weights and momenta only before the first step, and when the bounds are so
 * large that exact norms could change whether the step is skipped.
 */
#ifndef PLAIT_LIB_OPTIM_BOUNDS_H
#define PLAIT_LIB_OPTIM_BOUNDS_H

#include <plait/optim.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define PLAIT_OPTIM_FN __device__ static inline
#else
#define PLAIT_OPTIM_FN static inline
#endif

#define PLAIT_OPTIM_LARGEST 3.40282346638528859812e38 /* float32 */

struct plait_optim_bounds {
    double weights, momenta;
};

struct plait_optim_rule { /* from options and step */
    double momentum, decay, lr;
    bool nesterov, lr_in_momentum;
};

/* Must the norms be computed, as the bounds are too large to decide? Bounds are infinite before the first step. */
PLAIT_OPTIM_FN bool plait_optim_needs_exact(struct plait_optim_bounds b, struct plait_optim_rule r)
{
    return !((b.weights + b.momenta) * (1 + r.decay) * (r.lr > 1 ? r.lr : 1) <= 0x1p100);
}

/*
 * added  the most that the step adds to a momentum. A step rounds by less than 2^-21 of the sums. With factors below
 *        the least normal number it rounds by less than 2^-20.
 */
PLAIT_OPTIM_FN struct plait_optim_bounds plait_optim_after(struct plait_optim_bounds b, struct plait_optim_rule r,
                                                           double added)
{
    const double slack = 1 + 0x1p-20, more = added + 0x1p-20;
    double v = r.momentum * b.momenta + more;

    if (r.nesterov && r.momentum * v + more > v)
        v = r.momentum * v + more;
    b.momenta = v * slack;
    b.weights = (b.weights + b.momenta * (r.lr_in_momentum ? 1 : r.lr)) * slack;
    return b;
}

PLAIT_OPTIM_FN bool plait_optim_fits(struct plait_optim_bounds b)
{
    return b.weights <= PLAIT_OPTIM_LARGEST && b.momenta <= PLAIT_OPTIM_LARGEST;
}

/* What plait_loss_scale_update() does. */
PLAIT_OPTIM_FN void plait_optim_rescale(struct plait_loss_scale *s, bool finite)
{
    const double less = s->scale * s->backoff, more = s->scale * s->growth;

    if (!finite)
        s->skipped++;
    if (s->interval == 0)
        return;
    if (!finite) {
        s->scale = less > s->least ? less : s->least;
        s->good = 0;
    } else if (++s->good >= s->interval) {
        s->scale = more < s->most ? more : s->most;
        s->good = 0;
    }
}

/* A step's 18-bit number (plait_optim_call()) with the scale mixed in. Scales with one mantissa never collide. */
PLAIT_OPTIM_FN double plait_optim_mix(double call, double scale)
{
    uint64_t h;

    memcpy(&h, &scale, sizeof h);
    h ^= h >> 18 ^ h >> 36 ^ h >> 54;
    return (double)(((uint32_t)call ^ (uint32_t)h) & 0x3ffff);
}

#endif
