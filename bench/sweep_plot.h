/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and bus bandwidth against size. */
#ifndef PLAIT_BENCH_SWEEP_PLOT_H
#define PLAIT_BENCH_SWEEP_PLOT_H

#include <stdbool.h>
#include <stdio.h>

struct bench;

/* "All-reduce of float (sum), 2 ranks (processes), out of place" */
void sweep_title(const struct bench *b, char *out, size_t room);

/* Draw all cells of the first type and operator. alone: a file of its own, not part of a page. */
void sweep_draw(FILE *f, const struct bench *b, bool alone);

/* The same to the file `path`. Returns false after a message. */
bool sweep_plot(const struct bench *b, const char *path);

#endif
