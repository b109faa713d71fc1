/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf fusion: what tensor fusion gains. A cell is a payload type and where gradients lie. Its rows are ways to
 * exchange the gradients of one step (step.h), each of which takes a turn in every round.
 */
#ifndef PLAIT_BENCH_FUSION_H
#define PLAIT_BENCH_FUSION_H

#include "measure.h"

struct fusion_row {
    uint32_t backend;
    enum scheme scheme;
    struct layout layout;
    enum plait_dtype payload;
    bool own;
    char name[LAYOUT_TEXT];
    uint32_t iterations;         /* per round */
    double round[MAX_ROUNDS];    /* seconds: medians of steps, the slowest rank's */
    double step;                 /* median of the rounds */
    double to_flat, to_peer;     /* medians of the rounds' ratios; 0: no such row, or this one */
    double exposed;              /* percent of the step */
    bool counted;                /* the library counted: all figures are known, not only nbucket */
    struct step_figures figures; /* maxima over the ranks */
};

/* The percentage of a step that waits for the exchange. Times in any unit. */
double fusion_exposed(double step, double computing);

/* Bytes of the buffers of all ranks. */
uint64_t fusion_memory(const struct options *o, uint64_t elements);

/* Measure and verify the rows of a cell. false: a rank failed or the run was interrupted. */
bool fusion_measure(struct bench *b, struct cell *c);

void fusion_report_head(const struct bench *b);
void fusion_report_cell(const struct bench *b, const struct cell *c);

#endif
