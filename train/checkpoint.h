/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints: safetensors files with torchvision's tensor names, and what a run needs to go on with the same bits. Written in
 * the background to a temporary name, synced, renamed: a file with the name of a checkpoint is whole.
 *
 *     RUN/step-00001200.safetensors    weights and statistics by torchvision's names, "momentum.NAME", ...; scalars in the
 *                                      header's __metadata__
 *     RUN/best.safetensors             the one with the best accuracy
 */
#ifndef PLAIT_TRAIN_CHECKPOINT_H
#define PLAIT_TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stored { STORED_F32, STORED_F64, STORED_I64, STORED_U8, STORED_BF16, STORED_F16 };

struct entry { /* a named tensor */
    char name[80];
    enum stored type;
    uint32_t ndim;
    uint64_t shape[4];
    void *data;
};

struct note { /* a named scalar, as text */
    char name[40];
    char value[80];
};

/** Write a file whole or not at all: what was there before stays until then. NULL, or why not (valid until the next call). */
const char *safetensors_write(const char *path, const struct entry *entries, uint32_t nentry, const struct note *notes,
                              uint32_t nnote);

struct safetensors;
/** Open a file; every number in it is checked against its length. NULL: *why tells. */
struct safetensors *safetensors_open(const char *path, const char **why);
void safetensors_close(struct safetensors *file);
/** The tensor with this name, its data inside the mapped file; NULL: there is none. */
const struct entry *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_note(const struct safetensors *file, const char *name);
uint32_t safetensors_nentry(const struct safetensors *file);
const struct entry *safetensors_entry(const struct safetensors *file, uint32_t k);

struct keeper; /* a thread that writes, and keeps the last few and the best */

struct keeper *keeper_create(const char *folder, uint32_t keep);
/** Waits for what is being written. NULL, or why the last one failed. */
const char *keeper_destroy(struct keeper *keeper);
/** Copy the tensors and write them while the training goes on; waits for the one before. */
void keeper_save(struct keeper *keeper, uint64_t step, bool best, const struct entry *entries, uint32_t nentry,
                 const struct note *notes, uint32_t nnote);
/** The newest whole checkpoint of a folder, or "" when there is none. */
const char *keeper_newest(struct keeper *keeper);

#endif
