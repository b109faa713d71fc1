/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batch norm's running statistics, in the device's memory. Each rank updates its own in each of its passes, and
 * evaluation uses the mean over all ranks. With --reproducible all ranks have the same statistics, updated once per
 * step by the mean over all passes.
 */
#ifndef PLAIT_TRAIN_STATISTICS_H
#define PLAIT_TRAIN_STATISTICS_H

#include "model.h"

#include <plait/comm.h>

struct plait_stream;
struct statistics;

/**
 * stream  of the device; NULL: its memory is the host's
 * npass   passes of a rank in a step, whose statistics are summed (--reproducible); 0: they are not
 */
struct statistics *statistics_create(struct model *model, struct plait_comm *comm, struct plait_stream *stream,
                                     uint32_t npass);
void statistics_destroy(struct statistics *s);

/** A step begins; statistics_undo() returns to this state. */
void statistics_begin(struct statistics *s);
void statistics_undo(struct statistics *s);

/** After the k-th training pass of a step. */
void statistics_pass(struct statistics *s, uint32_t k);

/** All passes of a step are done. Collective with --reproducible. */
enum plait_status statistics_step(struct statistics *s);

/** Replace this rank's statistics by the mean over all ranks, until statistics_undo(). Collective. */
enum plait_status statistics_average(struct statistics *s);

/* To and from the host: [model_statistics_count()] */
void statistics_get(const struct statistics *s, float *host);
void statistics_set(struct statistics *s, const float *host);

#endif
