/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run to a checkpoint, and back. Rank 0 writes and reads; what it reads it gives to all. Tensors have torchvision's
 * names; "momentum.NAME" is the optimiser's; "statistics.all" has batch norm's running statistics of each rank, whose mean
 * is under torchvision's names.
 */
#include "message.h"
#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image { /* of a run, as entries */
    struct entry *entries;
    uint32_t nentry;
    struct note notes[16];
    uint32_t nnote;
    int64_t steps; /* what num_batches_tracked points to */
};

/* Where a run is: what is not a tensor. */
struct position {
    uint64_t epoch, at, step, good, nrank;
    double scale, best;
};

static void note(struct image *i, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(struct image *i, const char *name, const char *format, ...)
{
    struct note *n = &i->notes[i->nnote++];
    va_list arguments;

    snprintf(n->name, sizeof n->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(n->value, sizeof n->value, format, arguments);
    va_end(arguments);
}

static struct entry *add(struct image *i, const char *prefix, const char *name, enum stored type, void *data)
{
    struct entry *e = &i->entries[i->nentry++];

    *e = (struct entry){ .type = type, .data = data };
    snprintf(e->name, sizeof e->name, "%s%s", prefix, name);
    return e;
}

static void add_vector(struct image *i, const char *name, void *data, uint64_t n)
{
    struct entry *e = add(i, "", name, STORED_F32, data);

    e->ndim = 1;
    e->shape[0] = n;
}

static void add_tensor(struct image *i, const char *prefix, const struct tensor *t, float *data)
{
    struct entry *e = add(i, prefix, t->name, STORED_F32, data);

    e->ndim = t->ndim;
    for (uint32_t d = 0; d < t->ndim; d++)
        e->shape[d] = t->shape[d];
}

static void add_weights(struct image *i, const struct run *r, float *weights)
{
    for (uint32_t t = 0; t < r->ntensor; t++)
        add_tensor(i, "", model_tensor(r->model, t), weights + r->start[t]);
    for (uint32_t t = 0; t < r->ntensor; t++)
        add_tensor(i, "momentum.", model_tensor(r->model, t), plait_optim_momentum(r->optim, t));
}

/* values: the mean over the ranks. PyTorch counts the batches, too. */
static void add_statistics(struct image *i, const struct run *r, float *values)
{
    static const char mean[] = "running_mean";

    for (uint32_t k = 0; k < model_nstatistic(r->model); k++) {
        const struct statistic *s = model_statistic(r->model, k);
        const size_t n = strlen(s->name);
        add_vector(i, s->name, values, s->count);
        values += s->count;
        if (n > sizeof mean && strcmp(s->name + n - (sizeof mean - 1), mean) == 0) {
            struct entry *e = add(i, "", "", STORED_I64, &i->steps);
            snprintf(e->name, sizeof e->name, "%.*snum_batches_tracked", (int)(n - (sizeof mean - 1)), s->name);
        }
    }
}

static void add_notes(struct image *i, const struct run *r)
{
    note(i, "format", "pt"); /* what PyTorch's readers look for */
    note(i, "plait.model", "%s", r->o->model);
    note(i, "plait.epoch", "%" PRIu32, r->epoch);
    note(i, "plait.at", "%" PRIu64, r->at);
    note(i, "plait.step", "%" PRIu64, r->step);
    note(i, "plait.scale", "%a", r->scale.scale);
    note(i, "plait.good", "%" PRIu32, r->scale.good);
    note(i, "plait.best", "%a", r->best);
    note(i, "plait.ranks", "%" PRIu32, r->nrank);
    note(i, "plait.batch", "%" PRIu64, r->o->batch);
    note(i, "plait.seed", "%" PRIu64, r->o->seed);
}

/* statistics: [nrank][count]; mean: room for their mean. */
static void describe(struct image *i, const struct run *r, float *weights, float *statistics, uint32_t nrank,
                     float *mean)
{
    const size_t count = statistics_count(r->statistics);

    *i = (struct image){ .steps = (int64_t)r->step };
    i->entries = allocate(2 * r->ntensor + 2 * model_nstatistic(r->model) + 1, sizeof *i->entries);
    for (size_t k = 0; k < count; k++) {
        double sum = 0;
        for (uint32_t rank = 0; rank < nrank; rank++)
            sum += (double)statistics[rank * count + k];
        mean[k] = (float)(sum / nrank);
    }
    add_weights(i, r, weights);
    add_statistics(i, r, mean);
    add_vector(i, "statistics.all", statistics, nrank * count);
    add_notes(i, r);
}

enum plait_status state_save(struct run *r, bool best)
{
    const size_t count = statistics_count(r->statistics);
    float *own = allocate(2 * count, sizeof *own), *all = allocate(r->rank == 0 ? r->nrank * count : 1, sizeof *all);
    struct image i;

    statistics_get(r->statistics, own);
    enum plait_status status = plait_gather(r->comm, own, all, count, PLAIT_FLOAT32, 0, NULL);
    if (status == PLAIT_OK && r->elastic != NULL)
        status = plait_elastic_centre(r->elastic, r->centre);
    if (status == PLAIT_OK && r->rank == 0) {
        describe(&i, r, r->elastic != NULL ? r->centre : r->weights, all, r->nrank, own + count);
        keeper_save(r->keeper, r->step, best, i.entries, i.nentry, i.notes, i.nnote);
        free(i.entries);
    }
    free(all);
    free(own);
    return status;
}

const char *state_save_alone(struct run *r, char *path, size_t room)
{
    const size_t count = statistics_count(r->statistics);
    float *own = allocate(2 * count, sizeof *own);
    struct image i;

    statistics_get(r->statistics, own);
    describe(&i, r, r->weights, own, 1, own + count);
    snprintf(path, room, "%s/step-%08" PRIu64 ".safetensors", r->folder, r->step);
    const char *why = safetensors_write(path, i.entries, i.nentry, i.notes, i.nnote);
    free(i.entries);
    free(own);
    return why;
}

/* ---- back -------------------------------------------------------------------------------------- */

static bool same_shape(const struct entry *e, const struct tensor *t)
{
    bool same = e->type == STORED_F32 && e->ndim == t->ndim;

    for (uint32_t d = 0; same && d < t->ndim; d++)
        same = e->shape[d] == t->shape[d];
    return same;
}

/* A last layer for other classes stays as it is when weights are only a beginning. */
static void read_tensor(const struct safetensors *file, const char *path, const char *prefix, const struct tensor *t,
                        bool beginning, float *out)
{
    char name[80];

    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    const struct entry *e = safetensors_find(file, name);
    if (e != NULL && same_shape(e, t))
        memcpy(out, e->data, t->count * sizeof *out);
    else if (beginning && strncmp(t->name, "fc.", 3) == 0)
        complain("%s: %s is for other classes; it starts anew", path, name);
    else
        give_up(ENDING_ERROR, "%s: %s %s; is it of another --model?", path, name,
                e == NULL ? "is missing" : "has another shape or type");
}

static void read_statistics(const struct safetensors *file, const char *path, const struct run *r, float *values)
{
    for (uint32_t k = 0; k < model_nstatistic(r->model); k++) {
        const struct statistic *s = model_statistic(r->model, k);
        const struct entry *e = safetensors_find(file, s->name);
        if (e == NULL || e->type != STORED_F32 || e->ndim != 1 || e->shape[0] != s->count)
            give_up(ENDING_ERROR, "%s: %s is missing or has another shape; is it of another --model?", path, s->name);
        memcpy(values, e->data, s->count * sizeof *values);
        values += s->count;
    }
}

/* Each rank's own, when there are as many as then; else the mean for all. */
static void read_all_statistics(const struct safetensors *file, const char *path, const struct run *r, float *all)
{
    const size_t count = statistics_count(r->statistics);
    const struct entry *e = safetensors_find(file, "statistics.all");

    if (e != NULL && e->type == STORED_F32 && e->ndim == 1 && e->shape[0] == r->nrank * count)
        memcpy(all, e->data, r->nrank * count * sizeof *all);
    else
        for (uint32_t rank = 0; rank < r->nrank; rank++)
            read_statistics(file, path, r, all + rank * count);
}

static double read_note(const struct safetensors *file, const char *path, const char *name)
{
    const char *text = safetensors_note(file, name);

    if (text == NULL)
        give_up(ENDING_ERROR, "%s: %s is missing: this is no checkpoint of a run; its weights: --init", path, name);
    return strtod(text, NULL);
}

static struct safetensors *open_file(const char *path)
{
    const char *why;
    struct safetensors *file = safetensors_open(path, &why);

    if (file == NULL)
        give_up(ENDING_ERROR, "%s: %s", path, why);
    return file;
}

static void read_weights(struct run *r, const char *path, float *statistics)
{
    struct safetensors *file = open_file(path);

    for (uint32_t t = 0; t < r->ntensor; t++)
        read_tensor(file, path, "", model_tensor(r->model, t), true, r->master[t]);
    for (uint32_t rank = 0; rank < r->nrank; rank++)
        read_statistics(file, path, r, statistics + rank * statistics_count(r->statistics));
    safetensors_close(file);
}

static struct position read_checkpoint(struct run *r, const char *path, float *statistics)
{
    struct safetensors *file = open_file(path);

    for (uint32_t t = 0; t < r->ntensor; t++) {
        read_tensor(file, path, "", model_tensor(r->model, t), false, r->master[t]);
        read_tensor(file, path, "momentum.", model_tensor(r->model, t), false, plait_optim_momentum(r->optim, t));
    }
    read_all_statistics(file, path, r, statistics);
    const struct position p = { .epoch = (uint64_t)read_note(file, path, "plait.epoch"),
                                .at = (uint64_t)read_note(file, path, "plait.at"),
                                .step = (uint64_t)read_note(file, path, "plait.step"),
                                .good = (uint64_t)read_note(file, path, "plait.good"),
                                .nrank = (uint64_t)read_note(file, path, "plait.ranks"),
                                .scale = read_note(file, path, "plait.scale"),
                                .best = read_note(file, path, "plait.best") };
    if ((uint64_t)read_note(file, path, "plait.batch") != r->o->batch)
        give_up(ENDING_USAGE, "--resume %s: its --batch was %.0f, not %" PRIu64, r->o->resume,
                read_note(file, path, "plait.batch"), r->o->batch);
    safetensors_close(file);
    return p;
}

static const char *newest(const struct run *r)
{
    const char *path = keeper_newest(r->keeper);

    if (*path == '\0')
        give_up(ENDING_ERROR, "--resume %s: no checkpoint lies there", r->o->resume);
    return path;
}

static void share(struct run *r, struct position *p, float *statistics)
{
    const size_t count = statistics_count(r->statistics);
    float *own = allocate(count, sizeof *own);

    must(plait_broadcast(r->comm, p, p, sizeof *p, PLAIT_UINT8, 0, NULL), "reading the checkpoint");
    must(plait_broadcast(r->comm, r->weights, r->weights, r->count, PLAIT_FLOAT32, 0, NULL), "reading the checkpoint");
    for (uint32_t t = 0; t < r->ntensor; t++) {
        float *momentum = plait_optim_momentum(r->optim, t);
        must(plait_broadcast(r->comm, momentum, momentum, model_tensor(r->model, t)->count, PLAIT_FLOAT32, 0, NULL),
             "reading the checkpoint");
    }
    must(plait_scatter(r->comm, statistics, own, count, PLAIT_FLOAT32, 0, NULL), "reading the checkpoint");
    statistics_set(r->statistics, own);
    free(own);
}

void state_load(struct run *r)
{
    const struct options *o = r->o;
    const size_t count = statistics_count(r->statistics);
    float *statistics;
    struct position p = { .scale = r->scale.scale, .nrank = r->nrank };

    if (o->resume == NULL && o->init == NULL)
        return;
    statistics = allocate(r->rank == 0 ? r->nrank * count : 1, sizeof *statistics);
    if (r->rank == 0 && o->init != NULL)
        read_weights(r, o->init, statistics);
    if (r->rank == 0 && o->resume != NULL)
        p = read_checkpoint(r, newest(r), statistics);
    share(r, &p, statistics);
    free(statistics);
    r->epoch = (uint32_t)p.epoch;
    r->at = p.at;
    r->step = p.step;
    r->best = p.best;
    r->scale.scale = p.scale;
    r->scale.good = (uint32_t)p.good;
}
