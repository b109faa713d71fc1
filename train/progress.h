/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run says while it goes on: one line on a terminal, of any width, rewritten at most ten times a second; elsewhere
 * a line every ten seconds. Lines that stay: one for each evaluation. And FOLDER/log.jsonl, one JSON object a line:
 *
 *     {"event": "start", options}    {"event": "step", ...}    {"event": "epoch", ...}    {"event": "end", ...}
 */
#ifndef PLAIT_TRAIN_PROGRESS_H
#define PLAIT_TRAIN_PROGRESS_H

#include "run.h"

struct progress;

/** What a test came to. */
void progress_tested(const struct totals *tested, char *out, size_t room);
/** Only rank 0 has one; NULL elsewhere, and nothing is said. */
struct progress *progress_create(const struct run *r);
void progress_destroy(struct progress *p);

/** A step is complete. sum: of all ranks, or, where they do not step together, of this one. */
void progress_step(struct progress *p, const struct run *r, const struct totals *sum);

/** The last step of an epoch is complete; what follows does not count as training. */
void progress_pause(struct progress *p, const struct run *r);

/** An epoch is complete; tested: on the validation images, or NULL. */
void progress_epoch(struct progress *p, const struct run *r, const struct totals *sum, const struct totals *tested);

/** A line that stays, below which the progress line goes on. */
void progress_say(struct progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The run is over; saved: and its last checkpoint on the disk. */
void progress_end(struct progress *p, const struct run *r, bool saved);

#endif
