/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One step of data-parallel training as a benchmark: gradients appear one after the other in backward order during a
 * computation (a sleep here), and are exchanged in one of several ways. The step ends when all sums are there.
 */
#ifndef PLAIT_BENCH_STEP_H
#define PLAIT_BENCH_STEP_H

#include "layout.h"

#include <stdbool.h>
#include <stdint.h>

enum scheme {
    SCHEME_OFF,     /* no steps: operations */
    SCHEME_COMPUTE, /* nothing is exchanged */
    SCHEME_UNFUSED, /* each tensor as it appears, blocking */
    SCHEME_FLAT,    /* all at the end, as one operation */
    SCHEME_FUSED,
};

struct step {        /* what one iteration is */
    uint32_t scheme; /* enum scheme */
    struct layout layout;
    uint32_t payload; /* enum plait_dtype of what travels; gradients are float32 */
    uint32_t own;     /* gradients have their own memory: they are packed and unpacked */
    uint32_t traced;
    uint32_t cell;  /* number of the cell: what was made for another cell's steps is freed */
    double seconds; /* of computation, spread over tensors by their elements */
};

struct step_figures { /* of this rank, since the step was made */
    uint64_t bytes, messages;
    uint32_t nbucket;
    double communicating, hidden; /* seconds; traced steps */
};

#endif
