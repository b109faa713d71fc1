/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run prints. On a terminal: one line, fitted to the width, rewritten at most ten times a second; elsewhere a
 * line every ten seconds. A permanent line for each evaluation. And FOLDER/log.jsonl, one JSON object per line:
 *
 *     {"event": "start", options}    {"event": "step", ...}    {"event": "epoch", ...}    {"event": "end", ...}
 */
#ifndef PLAIT_TRAIN_PROGRESS_H
#define PLAIT_TRAIN_PROGRESS_H

#include "run.h"

struct progress;

/** Format the result of a test. */
void progress_tested(const struct totals *tested, char *out, size_t room);
/** Only rank 0 has one. Elsewhere it is NULL, and nothing is printed. */
struct progress *progress_create(const struct run *r);
void progress_destroy(struct progress *p);

/** A step is complete. sum: totals of all ranks or, where they do not step together, of this one */
void progress_step(struct progress *p, const struct run *r, const struct totals *sum);

/** The last step of an epoch is complete; the time until progress_epoch() does not count as training. */
void progress_pause(struct progress *p, const struct run *r);

/** An epoch is complete. tested: totals on the validation images, or NULL */
void progress_epoch(struct progress *p, const struct run *r, const struct totals *sum, const struct totals *tested);

/** Print a permanent line above the progress line. */
void progress_say(struct progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The run is over. saved: its last checkpoint is on the disk */
void progress_end(struct progress *p, const struct run *r, bool saved);

#endif
