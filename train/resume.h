/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run needs to go on with the bits of one that never stopped: named once, then saved and put back from the same
 * list.
 *
 *     struct resume *r = resume_create();
 *     resume_setting(r, "network", "--network", "resnet50");       must agree
 *     resume_count(r, "epoch", &epoch); resume_real(r, "best", &best); ...
 *     resume_loss_scale(r, &scale);
 *     resume_model(r, model, masters);                              weights and running statistics
 *     resume_momentum(r, model, momentum);
 *
 *     why = resume_restore(r, comm, path);                          NULL, or a text to print before leaving
 *     resume_save(r, keeper, step, best);                           every so often
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

/** A choice that a checkpoint must agree in: the network, the number of classes, the optimiser, the batch ... An error
 *  names both values and the option with which to change this run's. value is copied. */
void resume_setting(struct resume *resume, const char *name, const char *option, const char *value);

/* A number, which must live as long as the list: positions, the seed, the best accuracy so far. All bits are kept. */
void resume_count(struct resume *resume, const char *name, uint64_t *at);
void resume_count32(struct resume *resume, const char *name, uint32_t *at);
void resume_real(struct resume *resume, const char *name, double *at);

/** A tensor in the caller's memory, which must live as long as the list. */
void resume_tensor(struct resume *resume, const struct entry *entry);

/** Masters and running statistics, by torchvision's names. masters: [ntensor] */
void resume_model(struct resume *resume, struct model *model, float *const *masters);
/** "momentum.NAME" for each tensor. momentum: [ntensor], plait_optim_momentum() of whole tensors */
void resume_momentum(struct resume *resume, const struct model *model, float *const *momentum);
void resume_loss_scale(struct resume *resume, struct plait_loss_scale *scale);

/** keeper_save() of all of it. */
void resume_save(const struct resume *resume, struct keeper *keeper, uint64_t step, bool best);

/**
 * Put it all back. Nothing is changed unless the file holds exactly what the list names and the settings agree.
 *
 * comm    rank 0 reads, the others get it from there; all get the same text. NULL: this process alone
 * path    looked at on rank 0 only
 * NULL, or why not (valid until the next call)
 */
const char *resume_restore(struct resume *resume, struct plait_comm *comm, const char *path);

/**
 * Put weights and running statistics of a file into the model: one of ours, or a state_dict of torchvision's (of any type of
 * float; num_batches_tracked is not needed). Nothing is changed after an error. model_refresh() is the caller's.
 *
 * new_classifier  true: keep this run's fc.weight and fc.bias, whatever the file's are
 * NULL, or why not (valid until the next call)
 */
const char *weights_load(const char *path, struct plait_comm *comm, struct model *model, float *const *masters,
                         bool new_classifier);

#endif
