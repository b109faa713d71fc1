/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that a run needs to continue with the bits of one that never stopped. It is listed once, then saved and
 * restored from the same list.
 *
 *     struct resume *r = resume_create();
 *     resume_setting(r, "network", "--network", "resnet50");       must agree
 *     resume_count(r, "epoch", &epoch); resume_real(r, "best", &best); ...
 *     resume_loss_scale(r, &scale);
 *     resume_weights(r, model, masters);
 *     resume_statistics(r, model, statistics);
 *     resume_momentum(r, model, momentum);
 *
 *     why = resume_restore(r, comm, path);                          NULL, or an error to print before leaving
 *     resume_save(r, keeper, step, best);                           every so often
 *     why = resume_save_alone(r, folder, step);                     without a keeper, before leaving
 *
 * Functions that return nothing end the process with a message when memory is short.
 */
#ifndef PLAIT_TRAIN_RESUME_H
#define PLAIT_TRAIN_RESUME_H

#include "checkpoint.h"
#include "model.h"

#include <plait/optim.h>

struct resume;

struct resume *resume_create(void);
void resume_destroy(struct resume *resume);

/**
 * A setting that must equal the checkpoint's: the network, the number of classes, the optimiser, the batch. The error
 * names both values and the option that changes this run's. value is copied.
 */
void resume_setting(struct resume *resume, const char *name, const char *option, const char *value);

/** A note that this list writes but does not read; copied. */
void resume_note(struct resume *resume, const char *name, const char *value);

/* Numbers that must live as long as the list: positions, the seed, the best accuracy so far. All bits are kept. */
void resume_count(struct resume *resume, const char *name, uint64_t *at);
void resume_count32(struct resume *resume, const char *name, uint32_t *at);
void resume_real(struct resume *resume, const char *name, double *at);

/**
 * A tensor in the caller's memory, which must live as long as the list. Its name begins with RESUME_STATE unless it is
 * a weight or statistic of the network.
 */
void resume_tensor(struct resume *resume, const struct entry *entry);
#define RESUME_STATE    "state."
#define RESUME_MOMENTUM "momentum."

/**
 * A tensor that may be missing from a checkpoint, or have another shape, as state of each rank does with another number
 * of ranks. Then it is left unchanged and *found is false. found must live as long as the list.
 */
void resume_optional(struct resume *resume, const struct entry *entry, bool *found);

/* By torchvision's names. masters: [ntensor] */
void resume_weights(struct resume *resume, const struct model *model, float *const *masters);
/** values: all running statistics, where struct statistic says */
void resume_statistics(struct resume *resume, const struct model *model, float *values);
/** "momentum.NAME" for each tensor. momentum: [ntensor], plait_optim_momentum() of whole tensors */
void resume_momentum(struct resume *resume, const struct model *model, float *const *momentum);
void resume_loss_scale(struct resume *resume, struct plait_loss_scale *scale);

/** keeper_save() for the whole list. */
void resume_save(const struct resume *resume, struct keeper *keeper, uint64_t step, bool best);

/**
 * The same at once, by checkpoint_write(), for a run that lost its keeper's rank. Optional tensors are left out, since
 * one rank alone does not know them. Returns NULL, or the error (why.h).
 */
const char *resume_save_alone(const struct resume *resume, const char *folder, uint64_t step);

/**
 * Restore everything. Nothing is changed unless the file holds exactly what the list names and the settings agree.
 *
 * comm    rank 0 reads, the others get it from there; all get the same error. NULL: this process alone
 * path    read on rank 0 only
 * Returns NULL, or the error (why.h).
 */
const char *resume_restore(struct resume *resume, struct plait_comm *comm, const char *path);

#endif
