/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large weights and momenta may be after a step, by norms: no element is larger than a norm. An optimiser carries
 * bounds of its own weights and momenta from step to step and reads memory for them only where bounds do not do: before
 * the first step, and where they are so large that what was read would make a difference. For optim.c and for kernels.
 */
#ifndef PLAIT_LIB_OPTIM_BOUNDS_H
#define PLAIT_LIB_OPTIM_BOUNDS_H

#include <stdbool.h>

#ifdef __CUDACC__
#define PLAIT_OPTIM_FN __device__ static inline
#else
#define PLAIT_OPTIM_FN static inline
#endif

#define PLAIT_OPTIM_LARGEST 3.40282346638528859812e38 /* float32 */

struct plait_optim_bounds {
    double weights, momenta;
};

struct plait_optim_rule { /* of options and step */
    double momentum, decay, lr;
    bool nesterov, lr_in_momentum;
};

/* Must norms be read, as the bounds could decide? They are infinite before the first step. */
PLAIT_OPTIM_FN bool plait_optim_must_look(struct plait_optim_bounds b, struct plait_optim_rule r)
{
    return !((b.weights + b.momenta) * (1 + r.decay) * (r.lr > 1 ? r.lr : 1) <= 0x1p100);
}

/*
 * added  to the momentum by the step, at most. Each step's roundings are below 2^-21 of the sums, or, of factors below
 *        the least normal number, below 2^-20
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

#endif
