/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pictures as SVG. Colours are classes, which follow the reader's light or dark theme:
 *
 *     l0 .. l7  lines of this colour        f0 .. f7  areas
 *     ink       text, and areas like text   muted     what matters less
 *     grid      thin lines behind           bold, small, middle, end  of text
 */
#ifndef PLAIT_COMMON_SVG_H
#define PLAIT_COMMON_SVG_H

#include <stdbool.h>
#include <stdio.h>

#define SVG_NCOLOUR 8

/** Text for XML and HTML, also inside quotes. What XML does not allow, or is no UTF-8, becomes '?'. */
void markup_text(FILE *f, const char *text);

/** The same of a format. Longer than 1,000 bytes is cut. */
void markup_print(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The colours, as CSS. For svg_begin() and pages. */
void svg_style(FILE *f);

/** title: for those who cannot see it. alone: a file of its own, not part of a page that has svg_style(). */
void svg_begin(FILE *f, double width, double height, const char *title, bool alone);
void svg_end(FILE *f);

/** Text of these classes; y is its base line. */
void svg_text(FILE *f, double x, double y, const char *classes, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

void svg_line(FILE *f, double x1, double y1, double x2, double y2, const char *classes);
void svg_rect(FILE *f, double x, double y, double width, double height, const char *classes);

/** About the width of a text, in the size of `small` or else the usual one. */
double svg_width(const char *text, bool small);

#endif
