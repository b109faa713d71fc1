/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of a run: safetensors files with torchvision's tensor names and the further state that a run needs to
 * continue with the same bits (resume.h). They are written in the background under a temporary name, synced and
 * renamed, so a file with a checkpoint's name is complete.
 *
 *     RUN/step-00001200.safetensors    weights and statistics by torchvision's names, "momentum.NAME", ...; scalars in
 *                                      the header's __metadata__
 *     RUN/best.safetensors             the one with the best accuracy (another name of the same file)
 */
#ifndef PLAIT_TRAIN_CHECKPOINT_H
#define PLAIT_TRAIN_CHECKPOINT_H

#include "safetensors.h"

struct keeper; /* writes checkpoints on a thread of its own, and keeps the last few and the best */

/**
 * folder  created if missing; one process at a time writes checkpoints there
 * keep    how many of the last are kept; 0: all
 * why     gets the error when NULL is returned (why.h)
 *
 * A child of fork() does not have the thread: create the keeper in the process that trains.
 */
struct keeper *keeper_create(const char *folder, uint32_t keep, const char **why);

/**
 * Wait for the checkpoint that is being written. Returns NULL, or the last error that keeper_trouble() has not
 * returned.
 */
const char *keeper_destroy(struct keeper *keeper);

/**
 * Copy the tensors and write them in the background; waits for the previous checkpoint. Once the new one is on the
 * disk, checkpoints older than the last `keep` are removed; those of later steps stay. After an error nothing is
 * removed, and the next save tries again.
 *
 * best   also make it best.safetensors
 * notes  names other than "format", "plait" and "step", which are added
 */
void keeper_save(struct keeper *keeper, uint64_t step, bool best, const struct entry *entries, uint32_t nentry,
                 const struct note *notes, uint32_t nnote);

/** Wait until the last checkpoint is on the disk. */
void keeper_wait(struct keeper *keeper);

/**
 * The error since the last call (a full disk, ...), for a warning while training goes on; NULL: none. Valid until the
 * next call.
 */
const char *keeper_trouble(struct keeper *keeper);

/** The newest complete checkpoint of the folder, or "" for none; valid until the next call. */
const char *keeper_newest(struct keeper *keeper);

/**
 * Write a checkpoint to a folder at once, without a keeper. Like keeper_save(), but nothing is removed.
 *
 * Returns NULL, or the error (why.h).
 */
const char *checkpoint_write(const char *folder, uint64_t step, const struct entry *entries, uint32_t nentry,
                             const struct note *notes, uint32_t nnote);

/** Does a folder hold checkpoints, complete or not? */
bool checkpoint_any(const char *folder);

/**
 * keeper_newest() for any folder. Incomplete files with a checkpoint's name are reported on standard error and skipped;
 * best.safetensors is taken when nothing else is complete.
 *
 * out     [size] gets the path; PATH_MAX bytes are enough
 * Returns false when there is none.
 */
bool checkpoint_newest(const char *folder, char *out, size_t size);

#endif
