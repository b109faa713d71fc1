/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank reads a file, and all get its contents. With comm NULL: this process alone. Errors are texts as in why.h. */
#ifndef PLAIT_TRAIN_SHARE_H
#define PLAIT_TRAIN_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct plait_comm;

/** Does this rank read? */
bool share_reads(const struct plait_comm *comm);

/** Broadcast the reader's memory. Collective. Returns NULL, or the error. */
const char *share_bytes(struct plait_comm *comm, void *data, uint64_t bytes);

/** The reader's error, or NULL, on all ranks. Collective. */
const char *share_verdict(struct plait_comm *comm, const char *why);

/** The error of the first rank that has one, or NULL, on all ranks. Collective. */
const char *share_verdicts(struct plait_comm *comm, const char *why);

#endif
