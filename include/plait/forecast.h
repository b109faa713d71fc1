/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forecasts: which algorithm is the fastest at a size, and how long a step of data-parallel training takes.
 *
 * A forecast is about one collective of so many ranks on one machine. It asks the simulator (simulate.h) and keeps the
 * answers, so each algorithm is simulated once at each size.
 *
 *     struct plait_forecast_options o = { .machine = &machine,
 *                                         .shape = { .coll = PLAIT_ALLREDUCE, .nrank = 256, .inplace = true } };
 *     plait_forecast_create(&o, &forecast);
 *     plait_forecast_fastest(forecast, PLAIT_FLOAT32, count, &algorithm, &prediction);
 *
 *     struct plait_training t = { tensors, ready, 161, compute, { PLAIT_LAYOUT_THRESHOLD, 4 << 20 }, PLAIT_NDTYPE };
 *     plait_forecast_step(forecast, &t, NULL, &step);
 *
 *     plait_forecast_cuts(forecast, &t, cuts, &ncut);       better buckets: fusion.h, PLAIT_LAYOUT_CUTS
 *
 *     plait_forecast_destroy(forecast);
 *
 * Times are in picoseconds.
 * Thread: one at a time for each forecast.
 */
#ifndef PLAIT_FORECAST_H
#define PLAIT_FORECAST_H

#include <plait/fusion.h>
#include <plait/simulate.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_forecast;

struct plait_forecast_options {
    const struct plait_machine *machine;
    struct plait_shape shape;      /* as for plait_simulate(), also its node and level */
    const uint32_t *place;         /* [shape.nrank] each rank's place in the machine; NULL: rank r has place r */
    const char *const *algorithms; /* candidates; NULL ends the list. NULL: all that fit the shape */
};

/**
 * options  copied, with everything that it points to
 * out      written only on success; free it with plait_forecast_destroy()
 * Errors:  PLAIT_ERR_ARG, PLAIT_ERR_CONFIG (no such algorithm, or not for this shape; none at all fits),
 *          PLAIT_ERR_NOMEM
 */
PLAIT_API enum plait_status plait_forecast_create(const struct plait_forecast_options *options,
                                                  struct plait_forecast **out);

/** NULL is allowed. */
PLAIT_API void plait_forecast_destroy(struct plait_forecast *forecast);

/** The k-th candidate, from 0; NULL: there are no more. It lives as long as the forecast. */
PLAIT_API const char *plait_forecast_algorithm(const struct plait_forecast *forecast, uint32_t k);

/** The k-th candidate's time for `count` elements. Errors: PLAIT_ERR_ARG (no such candidate), plait_simulate()'s. */
PLAIT_API enum plait_status plait_forecast_time(struct plait_forecast *forecast, uint32_t k, enum plait_dtype type,
                                                size_t count, struct plait_prediction *out);

/**
 * The fastest candidate, without those that are too large for plait_simulate(); of equally fast ones the first.
 *
 * algorithm  gets its name, which lives as long as the forecast; NULL is allowed
 * Errors:    plait_simulate()'s
 * Cost:      simulates every candidate that was not simulated at this size before
 */
PLAIT_API enum plait_status plait_forecast_fastest(struct plait_forecast *forecast, enum plait_dtype type, size_t count,
                                                   const char **algorithm, struct plait_prediction *out);

/* ---- Steps of training ---------------------------------------------------------------------------------- */

/* A rank's computation in a step, and the exchange of its gradients. */
struct plait_training {
    const struct plait_tensor *tensors; /* [ntensor] gradients in the order of their registration (fusion.h); no data */
    const uint64_t *ready;              /* [ntensor] time from the step's start until each gradient is ready */
    uint32_t ntensor;
    uint64_t compute;           /* forward and backward pass; at least the latest ready time */
    struct plait_layout layout; /* as in plait_fusion_options */
    enum plait_dtype payload;   /* likewise */
};

/* A bucket's collective begins when the bucket's last gradient is ready and the collective before it has ended. */
struct plait_training_bucket {
    enum plait_dtype type; /* of the payload */
    uint32_t first;        /* its first tensor */
    uint32_t ntensor;
    size_t bytes; /* with padding */
    uint64_t ready, begin, end;
    char algorithm[PLAIT_MAX_SPEC]; /* the fastest candidate at this size */
};

struct plait_step_time {
    uint64_t time;          /* of the step: until all gradients are summed. Efficiency is training.compute / time */
    uint64_t compute;       /* of the slowest rank: slow ranks (plait_machine.slow) compute more slowly, too */
    uint64_t communication; /* of all collectives */
    uint64_t exposed;       /* time - compute */
    uint32_t nbucket;
    size_t bytes; /* of all buckets */
};

/**
 * The step's time. Its collectives run one after the other, in the order in which buckets become complete. Packing and
 * the optimiser take no time. All ranks compute alike, but for slow ones.
 *
 * buckets  [training.ntensor] gets step.nbucket buckets in the order of their collectives; NULL is allowed
 * Errors:  PLAIT_ERR_ARG (no tensors, a ready time after `compute`), PLAIT_ERR_NOMEM, plait_simulate()'s
 */
PLAIT_API enum plait_status plait_forecast_step(struct plait_forecast *forecast, const struct plait_training *training,
                                                struct plait_training_bucket *buckets, struct plait_step_time *out);

/**
 * The cuts with which the last collective ends as early as possible, and of those the fewest. With ready times that
 * were measured, such as those of a plait_fusion_trace(), this tunes a fusion: give it the cuts as PLAIT_LAYOUT_CUTS.
 *
 * training  its layout is ignored. `compute` need only be as late as the last ready time. Tensors are in the order in
 *           which they become ready, as in a fusion; in forward order all of them wait for the first
 * cuts      [training.ntensor] gets the first tensors of all buckets but the first
 * ncut      their number
 * Times between those of simulated sizes are interpolated. If types differ, a bucket's time is that of its bytes in the
 * first tensor's payload type.
 * Errors: as plait_forecast_step(); PLAIT_ERR_ARG: more than 4096 tensors
 * Cost:   O(n^2) for each bucket
 */
PLAIT_API enum plait_status plait_forecast_cuts(struct plait_forecast *forecast, const struct plait_training *training,
                                                uint32_t *cuts, uint32_t *ncut);

/**
 * When gradients are ready, from FLOPs.
 *
 * forward   [n] FLOPs of the forward pass in each tensor's layer; backward likewise
 * n         tensors, in forward order: their gradients become ready from the last to the first
 * rate      FLOPs per second
 * ready     [n] gets the time of each gradient, in the same order: ready[0], the largest, is that of both passes. In
 *           plait_training the order is that of the fusion, in which the last comes first
 * Errors: PLAIT_ERR_ARG (rate 0, a time of 2^63 ps or more)
 * Thread: any.
 */
PLAIT_API enum plait_status plait_training_ready(const uint64_t *forward, const uint64_t *backward, uint32_t n,
                                                 uint64_t rate, uint64_t *ready);

#ifdef __cplusplus
}
#endif
#endif
