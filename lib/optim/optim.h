/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_OPTIM_OPTIM_H
#define PLAIT_LIB_OPTIM_OPTIM_H

#include <plait/optim.h>

#include "../reduce.h"

/*
 * The sums of a step, over the ranks too. In the place of VERDICT the squares of all gradients that are looked at, not
 * finite when one is not; CALL and CALL_SQUARE tell whether all ranks make the same step; then, for LARS, of each tensor
 * the squares of weights, and of each the squares of gradients.
 */
enum { VERDICT, CALL, CALL_SQUARE, NORMS };

struct plait_optim {
    struct plait_optim_options options; /* parts: its own */
    struct plait_optim_part *parts;     /* [options.npart] */
    const struct plait_kernels *kernels;
    float *momentum; /* of all parts */
    size_t *at;      /* [options.npart] where a part's begins */
    size_t nsum;
    double *own, *sums; /* [nsum] this rank's; all ranks' */
    uint64_t nstep;     /* with a comm: steps in which the ranks met */
};

/* What is wrong with the options. */
enum plait_status plait_optim_check_options(const struct plait_optim_options *o);
enum plait_status plait_optim_check_step(const struct plait_optim *optim, const struct plait_optim_step *s);

/*
 * Do all ranks have the same options? status is this rank's own so far; every rank is told of one that failed, and
 * returns an error.
 */
enum plait_status plait_optim_agree(const struct plait_optim_options *o, enum plait_status status);

#endif
