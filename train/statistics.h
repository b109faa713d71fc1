/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batch norm's running statistics. Each rank moves its own by each of its passes, and evaluation takes the mean of all
 * ranks'. With --reproducible all ranks have the same ones, moved once in a step by the mean over all passes.
 */
#ifndef PLAIT_TRAIN_STATISTICS_H
#define PLAIT_TRAIN_STATISTICS_H

#include "model.h"

#include <plait/comm.h>

struct statistics;

/** npass: of a rank in a step, which are added up (--reproducible); 0: they are not. */
struct statistics *statistics_create(struct model *model, struct plait_comm *comm, uint32_t npass);
void statistics_destroy(struct statistics *s);

/** A step begins: undo() goes back to here when it does not end. */
void statistics_begin(struct statistics *s);
void statistics_undo(struct statistics *s);

/** After the k-th forward pass of a step in training. */
void statistics_pass(struct statistics *s, uint32_t k);

/** The passes of a step are over. Collective with --reproducible. */
enum plait_status statistics_step(struct statistics *s);

/** Put the mean of all ranks' in the place of this rank's, until undo(). Collective. */
enum plait_status statistics_average(struct statistics *s);

/** Floats of all. */
size_t statistics_count(const struct statistics *s);
void statistics_get(const struct statistics *s, float *out);
void statistics_set(struct statistics *s, const float *values);

#endif
