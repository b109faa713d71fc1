/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room optim: the optimiser's step after an all-reduce.
 *
 * It has LARS and SGD with momentum on float32 master weights, loss scaling, schedules of the learning rate, and
 * sharded steps. optim.c makes the step on the processor, device.c on a GPU. options.c checks and compares options,
 * schedule.c has learning rates and the loss scale.
 *
 * The room promises: all ranks make the same step, bit for bit, or none makes it. A step with an infinity or a NaN
 * changes nothing and says so (`finite` is 0).
 *
 * It uses collectives of the room call and knows nothing of how they run.
 */
#ifndef PLAIT_LIB_OPTIM_OPTIM_H
#define PLAIT_LIB_OPTIM_OPTIM_H

#include <plait/optim.h>

#include "loss_scale.h"
#include "operation/arguments.h"
#include "plugin/device.h"
#include "reduce/reduce.h"

#include <stdio.h>

/*
 * Indices of a step's sums, which are summed over the ranks, too. VERDICT is the sum of squares of all gradients that
 * are checked; it is not finite if one of them is not. CALL and CALL_SQUARE tell whether all ranks make the same step.
 * With LARS the squares of each tensor's weights follow, then those of each tensor's gradients.
 */
enum { VERDICT, CALL, CALL_SQUARE, NORMS };

struct plait_optim {
    struct plait_optim_options options; /* parts: the optimiser's copy */
    struct plait_optim_part *parts;     /* [options.npart] */
    const struct plait_kernels *kernels;
    float *momentum; /* of all parts */
    size_t *at;      /* [options.npart] start of each part's momentum */
    size_t nsum;
    double *sums;   /* [nsum] this rank's, then all ranks' */
    uint64_t nstep; /* with a comm: steps that reached the all-reduce */

    /* On a GPU (device.c) momentum and sums lie in GPU memory. Besides: */
    struct plait_queue *queue; /* of options.stream; NULL: on the host */
    struct plait_stepper *stepper;
    uint32_t ndiffer; /* steps that differed between ranks and were reported */
};

/* Reject impossible options and arguments; the error names one. */
enum plait_status plait_optim_check_options(const struct plait_optim_options *o);
enum plait_status plait_optim_check_step(const struct plait_optim *optim, const struct plait_optim_step *s);

/* `call` begins the text of an error, which names the wrong member. */
enum plait_status plait_optim_check_scale(const char *call, const struct plait_loss_scale *scale);

/* An 18-bit hash of lr, factor, decay and the step's number: sums of hashes and of their squares are exact. */
double plait_optim_call(struct plait_optim *o, const struct plait_optim_step *s);

/* On a GPU: allocate momentum for `weights` weights, and the rest. After an error drop() frees all that was made. */
enum plait_status plait_optim_device_make(struct plait_optim *o, size_t weights);
void plait_optim_device_drop(struct plait_optim *o);
enum plait_status plait_optim_device_step(struct plait_optim *o, const struct plait_optim_step *s,
                                          struct plait_optim_result *result);

/* Write what must be the same on all ranks of a sharded optimiser, of options (struct plait_optim_options). */
void plait_optim_describe(const void *options, FILE *f);

#endif
