/* SPDX-License-Identifier: BSD-3-Clause */
/* The cells of a table: sizes, types, operators and roots, or tensors. */
#ifndef PLAIT_BENCH_CELLS_H
#define PLAIT_BENCH_CELLS_H

#include "measure.h"
#include "tensors.h"

/* Fill b->cell for b->coll; t: with --tensors. Returns false after a message: there is none, or there are too many. */
bool cells_plan(struct bench *b, const struct tensors *t);

void cells_forget(struct bench *b);

#endif
