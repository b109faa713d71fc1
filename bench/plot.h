/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and bus bandwidth against size, drawn by gnuplot. */
#ifndef PLAIT_BENCH_PLOT_H
#define PLAIT_BENCH_PLOT_H

#include <stdbool.h>
#include <stdio.h>

struct bench;

/* Before the run: is there a gnuplot, and can the file be written? Says what is missing. */
bool plot_possible(const char *path);

/* Draw all cells of the first type and operator to `path`, .png or .svg. */
bool plot_draw(const struct bench *b, const char *path);

/* Any other picture: `write` gives gnuplot's commands. */
bool plot_script(const char *path, void (*write)(FILE *f, const void *what, const char *path), const void *what);

#endif
