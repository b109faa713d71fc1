/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank reads a file, all get what it says. Everywhere comm NULL: this process alone. Texts as in why.h. */
#ifndef PLAIT_TRAIN_SHARE_H
#define PLAIT_TRAIN_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct plait_comm;

/** Is it this rank that reads? */
bool share_reads(const struct plait_comm *comm);

/** The reader's memory to all. Collective. NULL, or why not. */
const char *share_bytes(struct plait_comm *comm, void *data, uint64_t bytes);

/** The reader's verdict, NULL or a text, is everyone's. Collective. */
const char *share_verdict(struct plait_comm *comm, const char *why);

/** Any rank's verdict is everyone's: of the first rank that has one. Collective. */
const char *share_verdicts(struct plait_comm *comm, const char *why);

#endif
