/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run to a checkpoint, and back: the list of its state (resume.h). Batch norm's running statistics differ between
 * ranks. Their mean is what others read; "state.statistics" has those of each rank, which a resumed run with the same
 * number of ranks gets back. With elastic averaging the centre is saved, and a resumed run starts there on every rank.
 */
#include "ending.h"
#include "resume.h"
#include "run.h"
#include "share.h"
#include "weights.h"
#include "why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state {
    struct resume *list;
    float *momentum; /* [r->count] a copy on the host; NULL: the optimiser's is there */
    size_t count;    /* number of statistics of a rank */
    float *mean;     /* [count] */
    float *all;      /* [nrank][count] */
    bool each;       /* the checkpoint has the statistics of each of these ranks */
};

/* recall.c has reported or refused options that differ. A position is valid for these images only. */
static void list_settings(struct state *s, const struct run *r)
{
    char text[80];
    struct note note;

    snprintf(text, sizeof text, "%llu files (%016llx)", (unsigned long long)dataset_count(r->train),
             (unsigned long long)dataset_hash(r->train));
    resume_setting(s->list, "training set", "the folder with", text);
    for (uint32_t k = 0; options_kept(r->o, k, &note); k++)
        if (note.value[0] != '\0')
            resume_note(s->list, note.name, note.value);
    snprintf(text, sizeof text, "%u", r->all);
    resume_note(s->list, RECALL_RANKS, text);
}

static void list_position(struct state *s, struct run *r)
{
    resume_count32(s->list, "epoch", &r->epoch);
    resume_count(s->list, "step_of_epoch", &r->at);
    resume_count(s->list, "steps", &r->step);
    resume_real(s->list, "best_top1", &r->best);
    resume_loss_scale(s->list, r->scale.host);
}

static void list_tensors(struct state *s, const struct run *r)
{
    float **weights = allocate(r->ntensor, sizeof *weights), **momentum = allocate(r->ntensor, sizeof *momentum);
    struct entry each = { .name = RESUME_STATE "statistics", .type = STORED_F32, .ndim = 2, .data = s->all };

    for (uint32_t t = 0; t < r->ntensor; t++) {
        weights[t] = (float *)(r->centre.host != NULL ? r->centre.host : r->weights.host) + r->start[t];
        momentum[t] = s->momentum != NULL ? s->momentum + r->start[t] : plait_optim_momentum(r->optim, t);
    }
    each.shape[0] = r->nrank;
    each.shape[1] = s->count;
    resume_weights(s->list, r->model, weights);
    resume_momentum(s->list, r->model, momentum);
    resume_statistics(s->list, r->model, s->mean);
    resume_optional(s->list, &each, &s->each);
    free(momentum);
    free(weights);
}

struct state *state_create(struct run *r)
{
    struct state *s = allocate(1, sizeof *s);

    s->list = resume_create();
    s->momentum = r->device->kind->host ? NULL : allocate(r->count, sizeof *s->momentum);
    s->count = model_statistics_count(r->model);
    s->mean = allocate(s->count, sizeof *s->mean);
    s->all = allocate(r->nrank * s->count, sizeof *s->all);
    list_settings(s, r);
    list_position(s, r);
    list_tensors(s, r);
    return s;
}

void state_destroy(struct state *s)
{
    if (s == NULL)
        return;
    resume_destroy(s->list);
    free(s->momentum);
    free(s->mean);
    free(s->all);
    free(s);
}

static void take_mean(struct state *s, uint32_t nrank)
{
    for (size_t k = 0; k < s->count; k++) {
        double sum = 0;
        for (uint32_t rank = 0; rank < nrank; rank++)
            sum += (double)s->all[rank * s->count + k];
        s->mean[k] = (float)(sum / nrank);
    }
}

/* The device's part of the state to the host, and back. */
static void read_device(const struct state *s, const struct run *r)
{
    const struct device_kind *kind = r->device->kind;

    mirror_read(&r->weights);
    mirror_read(&r->scale);
    for (uint32_t t = 0; s->momentum != NULL && t < r->ntensor; t++)
        kind->copy_out(r->device, s->momentum + r->start[t], plait_optim_momentum(r->optim, t),
                       model_tensor(r->model, t)->count * sizeof(float));
}

static void write_device(const struct state *s, const struct run *r)
{
    const struct device_kind *kind = r->device->kind;

    mirror_write(&r->weights);
    mirror_write(&r->scale);
    for (uint32_t t = 0; s->momentum != NULL && t < r->ntensor; t++)
        kind->copy_in(r->device, plait_optim_momentum(r->optim, t), s->momentum + r->start[t],
                      model_tensor(r->model, t)->count * sizeof(float));
}

enum plait_status state_save(struct run *r, bool best)
{
    struct state *s = r->state;

    statistics_get(r->statistics, s->mean);
    enum plait_status status = plait_gather(r->comm, s->mean, s->all, s->count, PLAIT_FLOAT32, 0, NULL);
    if (status == PLAIT_OK && r->elastic != NULL)
        status = plait_elastic_centre(r->elastic, r->centre.host);
    if (status != PLAIT_OK || r->rank > 0)
        return status;
    take_mean(s, r->nrank);
    keeper_wait(r->keeper);
    read_device(s, r);
    status = run_sums(r); /* else the weights are those of wrong sums */
    if (status != PLAIT_OK)
        return status;
    const char *trouble = keeper_trouble(r->keeper); /* of the previous checkpoint; state_saved() reports the last */
    if (trouble != NULL)
        complain("%s; the training goes on, and the next checkpoint will be tried", trouble);
    resume_save(s->list, r->keeper, r->step, best);
    return PLAIT_OK;
}

bool state_saved(struct run *r)
{
    const char *why = NULL, *newest;

    if (r->keeper != NULL) {
        newest = keeper_newest(r->keeper);
        why = keeper_trouble(r->keeper);
    }
    if (why != NULL)
        why = because("%s. %s%s", why, newest, *newest != '\0' ? " is kept" : "There is no older one");
    why = share_verdict(r->comm, why);
    return why == NULL || complain("%s", why);
}

const char *state_save_alone(struct run *r)
{
    struct state *s = r->state;

    statistics_get(r->statistics, s->mean);
    return resume_save_alone(s->list, r->folder, r->step);
}

static const char *load_weights(struct run *r)
{
    struct state *s = r->state;
    float **host = allocate(r->ntensor, sizeof *host);

    for (uint32_t t = 0; t < r->ntensor; t++)
        host[t] = (float *)r->weights.host + r->start[t];
    statistics_get(r->statistics, s->mean);
    const char *why = weights_load(r->o->weights, r->comm, r->model, host, s->mean, r->o->new_classifier);
    statistics_set(r->statistics, s->mean);
    free(host);
    return why;
}

void state_load(struct run *r)
{
    struct state *s = r->state;
    const char *why = NULL;

    if (r->o->weights != NULL)
        why = load_weights(r);
    if (r->o->resume != NULL) {
        why = resume_restore(s->list, r->comm, r->recalled.path);
        statistics_set(r->statistics, s->each ? s->all + r->rank * s->count : s->mean);
        if (r->centre.host != NULL)
            memcpy(r->weights.host, r->centre.host, r->weights.bytes);
    }
    if (r->o->loss_scale > 0) /* a given value wins over the checkpoint's */
        ((struct plait_loss_scale *)r->scale.host)->scale = r->o->loss_scale;
    write_device(s, r);
    if (why != NULL) {
        if (r->rank == 0)
            rmdir(r->folder); /* fails unless it is empty */
        complain("%s", why);
        leave(ENDING_ERROR);
    }
}
