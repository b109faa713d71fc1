/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and bus bandwidth against size, drawn by gnuplot. */
#ifndef PLAIT_BENCH_SWEEP_PLOT_H
#define PLAIT_BENCH_SWEEP_PLOT_H

#include <stdbool.h>

struct bench;

/* Draw all cells of the first type and operator to `path`, .png or .svg. Returns false after a message. */
bool sweep_plot(const struct bench *b, const char *path);

#endif
