/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures drawn by gnuplot, .png or .svg. */
#ifndef PLAIT_COMMON_PLOT_H
#define PLAIT_COMMON_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#define PLOT_NCOLOUR 6
extern const char *const plot_colours[PLOT_NCOLOUR];

/** Before the run: is there a gnuplot, and can the file be written? Returns false after a message. */
bool plot_possible(const char *path);

/** Write gnuplot's terminal and output file. size: "1500,640"; more: further options of the terminal, or "" */
void plot_terminal(FILE *f, const char *path, const char *size, const char *more);

/**
 * Draw a picture by the gnuplot commands that `write` prints. write() returns false after a message of its own. Returns
 * false after a message.
 */
bool plot_script(const char *path, bool (*write)(FILE *f, const void *what, const char *path), const void *what);

#endif
