/* SPDX-License-Identifier: BSD-3-Clause */
/* --report: one HTML page with the table, its picture, and what to try. */
#ifndef PLAIT_BENCH_HTML_H
#define PLAIT_BENCH_HTML_H

#include <stdbool.h>

struct bench;

/* Returns false after a message. */
bool html_write(const struct bench *b, const char *path);

#endif
