/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run's checkpoints: safetensors files with torchvision's tensor names, and what the run needs to go on with the same
 * bits (resume.h). Written in the background to a temporary name, synced, renamed: a file with the name of a checkpoint
 * is whole.
 *
 *     RUN/step-00001200.safetensors    weights and statistics by torchvision's names, "momentum.NAME", ...; scalars in the
 *                                      header's __metadata__
 *     RUN/best.safetensors             the one with the best accuracy (another name of the same file)
 */
#ifndef PLAIT_TRAIN_CHECKPOINT_H
#define PLAIT_TRAIN_CHECKPOINT_H

#include "safetensors.h"

struct keeper; /* a thread that writes, and keeps the last few and the best */

/**
 * folder  made when it is missing; one process at a time keeps checkpoints in it
 * keep    how many of the last are kept; 0: all
 * why     when NULL is returned: the folder cannot be written, ... (why.h)
 *
 * A process that forks afterwards has no thread in the child: create it in the process that trains.
 */
struct keeper *keeper_create(const char *folder, uint32_t keep, const char **why);

/** Waits for what is being written. NULL, or why the last one failed, where keeper_trouble() has not told it. */
const char *keeper_destroy(struct keeper *keeper);

/**
 * Copy the tensors and write them while the training goes on; waits for the one before. Once it is on the disk, older ones
 * than the last `keep` are removed; those of later steps are left alone. After an error nothing is removed and the next
 * save tries again.
 *
 * best   it becomes best.safetensors too
 * notes  names other than "format", "plait" and "step", which are added
 */
void keeper_save(struct keeper *keeper, uint64_t step, bool best, const struct entry *entries, uint32_t nentry,
                 const struct note *notes, uint32_t nnote);

/** Wait until what was saved is on the disk. */
void keeper_wait(struct keeper *keeper);

/** What failed since the last call (a full disk, ...), for a warning while the training goes on; NULL: nothing. Valid until
 *  the next call. */
const char *keeper_trouble(struct keeper *keeper);

/** The newest whole checkpoint of the folder, or "" when there is none; valid until the next call. */
const char *keeper_newest(struct keeper *keeper);

/**
 * Write a checkpoint of a folder here and now, without a keeper: as keeper_save() does, but nothing is removed.
 *
 * NULL, or why not (why.h)
 */
const char *checkpoint_write(const char *folder, uint64_t step, const struct entry *entries, uint32_t nentry,
                             const struct note *notes, uint32_t nnote);

/** Has a folder checkpoints, whole or not? */
bool checkpoint_any(const char *folder);

/**
 * keeper_newest() of any folder, without keeping it. Files that look like checkpoints and are not whole are named on standard
 * error and passed over; best.safetensors is taken when nothing else is whole.
 *
 * out     [size] its path; PATH_MAX bytes are enough
 * false:  there is none
 */
bool checkpoint_newest(const char *folder, char *out, size_t size);

#endif
