/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate: predicts algorithms on a machine, and prints them in the order of their times. */
#ifndef PLAIT_TOOLS_SIMULATE_H
#define PLAIT_TOOLS_SIMULATE_H

#include <plait/forecast.h>

#include <stdbool.h>

/* Options of plait-plan simulate, as text; NULL: not given. */
struct simulate_options {
    bool json;
    const char *report;              /* write this HTML page, too */
    const char *sweep;               /* sizes: "1K-64M" */
    const char *step;                /* a model's list of gradients, or a trace */
    const char *scale;               /* numbers of ranks: "8-1024" or "8,16,48" */
    const char *what_if, *placement; /* scene.h */
    const char *trace;               /* file */
    const char *layouts;             /* of the step */
    const char *payload;             /* type in which its gradients travel */
    uint32_t batch;                  /* samples of a rank in a step; 0: the usual number */
    double samples;                  /* per second of one rank alone; 0: from teraflops */
    double teraflops;                /* 10^12 FLOPs per second of one rank; 0: the usual rate */
};

/*
 * spec   NULL: all algorithms that apply and are not too large to wait for
 * count  float32 elements
 * Returns the exit status.
 */
int simulate(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *options);

#endif
