/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table with commas: a line for each size, in place and out of place. */
#ifndef PLAIT_BENCH_CSV_H
#define PLAIT_BENCH_CSV_H

#include "measure.h"

/* Returns false after a message. */
bool csv_write(const struct bench *b, const char *path);

#endif
