/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room optim: the optimiser's step after an all-reduce.
 *
 * It has LARS and SGD with momentum on float32 master weights, loss scaling, schedules of the learning rate, and
 * sharded steps. optim.c is the step on the processor, device.c the same on a GPU, agree.c what ranks compare first,
 * options.c and schedule.c what is asked for.
 *
 * The room promises: all ranks make the same step, bit for bit, or none makes it. A step with an infinity or a NaN
 * changes nothing and says so (`finite` is 0).
 *
 * It uses collectives of the room call and knows nothing of how they run.
 */
#ifndef PLAIT_LIB_OPTIM_OPTIM_H
#define PLAIT_LIB_OPTIM_OPTIM_H

#include <plait/optim.h>

#include "bounds.h"
#include "plugin/device.h"
#include "reduce/reduce.h"

#include <stdatomic.h>

/*
 * The sums of a step, over the ranks too. In the place of VERDICT the squares of all gradients that are looked at, not
 * finite when one is not; CALL and CALL_SQUARE tell whether all ranks make the same step; WEIGHTS and MOMENTA are the
 * squares of all weights and momenta, or of bounds of them; then, for LARS, of each tensor the squares of weights,
 * negative where it has no decay, so that all ranks know that, and of each the squares of gradients.
 */
enum { VERDICT, CALL, CALL_SQUARE, WEIGHTS, MOMENTA, NORMS };

struct plait_optim {
    struct plait_optim_options options; /* parts: its own */
    struct plait_optim_part *parts;     /* [options.npart] */
    const struct plait_kernels *kernels;
    float *momentum; /* of all parts */
    size_t *at;      /* [options.npart] where a part's begins */
    size_t nsum;
    double *own, *sums;               /* [nsum] this rank's; all ranks' */
    uint64_t nstep;                   /* with a comm: steps in which the ranks met */
    struct plait_optim_bounds bounds; /* of this rank's weights and momenta */
    atomic_bool look;                 /* the caller may have written them: the next step looks */

    /* On a GPU (device.c) momentum, sums and bounds are in its memory, `own` is in the place of `sums`, and: */
    struct plait_queue *queue; /* of options.stream; NULL: on the host */
    struct plait_stepper *stepper;
    uint32_t ndiffer; /* steps that differed between ranks, of which the caller was told */
};

/* What is wrong with the options. */
enum plait_status plait_optim_check_options(const struct plait_optim_options *o);
enum plait_status plait_optim_check_step(const struct plait_optim *optim, const struct plait_optim_step *s);

/* Are calls of the comm, if there is one, possible here and now? */
enum plait_status plait_optim_may_meet(struct plait_comm *comm, const char *call);

/* lr, factor and decay of the next step, and its number, in 18 bits: sums of them and of their squares are exact. */
double plait_optim_call(struct plait_optim *o, const struct plait_optim_step *s);

/* On a GPU: momentum of so many weights, and the rest. What is there of it is freed by drop(). */
enum plait_status plait_optim_device_make(struct plait_optim *o, size_t weights);
void plait_optim_device_drop(struct plait_optim *o);
enum plait_status plait_optim_device_step(struct plait_optim *o, const struct plait_optim_step *s,
                                          struct plait_optim_result *result);

/*
 * Do all ranks have the same options? status is this rank's own so far; every rank is told of one that failed, and
 * returns an error.
 */
enum plait_status plait_optim_agree(const struct plait_optim_options *o, enum plait_status status);

#endif
