/* SPDX-License-Identifier: BSD-3-Clause */
#include "resume.h"

#include "ending.h"
#include "share.h"
#include "why.h"

#include "base/ascii.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT32, COUNT64, REAL };

struct setting {
    char option[40]; /* "": it need not agree */
    struct note note;
};

struct number {
    char name[sizeof((struct note *)0)->name];
    enum kind kind;
    void *at;
};

struct resume {
    struct setting *settings;
    struct number *numbers;
    struct entry *entries;
    bool **found; /* [nentry] for an optional tensor; else NULL */
    uint32_t nsetting, nnumber, nentry;
};

/* ---- The list ----------------------------------------------------------------------------------------------- */

struct resume *resume_create(void)
{
    return allocate(1, sizeof(struct resume));
}

void resume_destroy(struct resume *r)
{
    if (r == NULL)
        return;
    free(r->settings);
    free(r->numbers);
    free(r->entries);
    free(r->found);
    free(r);
}

void resume_setting(struct resume *r, const char *name, const char *option, const char *value)
{
    r->settings = grow(r->settings, r->nsetting + 1, sizeof *r->settings);
    struct setting *const s = &r->settings[r->nsetting++];

    snprintf(s->option, sizeof s->option, "%s", option);
    snprintf(s->note.name, sizeof s->note.name, "%s", name);
    snprintf(s->note.value, sizeof s->note.value, "%s", value);
}

void resume_note(struct resume *r, const char *name, const char *value)
{
    resume_setting(r, name, "", value);
}

static void add_number(struct resume *r, const char *name, enum kind kind, void *at)
{
    r->numbers = grow(r->numbers, r->nnumber + 1, sizeof *r->numbers);
    struct number *const n = &r->numbers[r->nnumber++];

    *n = (struct number){ .kind = kind, .at = at };
    snprintf(n->name, sizeof n->name, "%s", name);
}

void resume_count(struct resume *r, const char *name, uint64_t *at)
{
    add_number(r, name, COUNT64, at);
}

void resume_count32(struct resume *r, const char *name, uint32_t *at)
{
    add_number(r, name, COUNT32, at);
}

void resume_real(struct resume *r, const char *name, double *at)
{
    add_number(r, name, REAL, at);
}

void resume_loss_scale(struct resume *r, struct plait_loss_scale *scale)
{
    resume_real(r, "loss_scale.scale", &scale->scale);
    resume_count32(r, "loss_scale.good", &scale->good);
}

void resume_optional(struct resume *r, const struct entry *entry, bool *found)
{
    r->entries = grow(r->entries, r->nentry + 1, sizeof *r->entries);
    r->found = grow(r->found, r->nentry + 1, sizeof *r->found);
    r->found[r->nentry] = found;
    r->entries[r->nentry++] = *entry;
}

void resume_tensor(struct resume *r, const struct entry *entry)
{
    resume_optional(r, entry, NULL);
}

static struct entry entry_of(const struct tensor *t, const char *prefix, float *data)
{
    struct entry e = { .type = STORED_F32, .ndim = t->ndim, .data = data };

    snprintf(e.name, sizeof e.name, "%s%s", prefix, t->name);
    for (uint32_t d = 0; d < t->ndim; d++)
        e.shape[d] = t->shape[d];
    return e;
}

static struct entry entry_of_statistic(const struct statistic *s, float *data)
{
    struct entry e = { .type = STORED_F32, .ndim = 1, .shape = { s->count }, .data = data };

    snprintf(e.name, sizeof e.name, "%s", s->name);
    return e;
}

void resume_weights(struct resume *r, const struct model *model, float *const *masters)
{
    for (uint32_t k = 0; k < model_ntensor(model); k++) {
        const struct entry e = entry_of(model_tensor(model, k), "", masters[k]);
        resume_tensor(r, &e);
    }
}

void resume_statistics(struct resume *r, const struct model *model, float *values)
{
    for (uint32_t k = 0; k < model_nstatistic(model); k++) {
        const struct statistic *const s = model_statistic(model, k);
        const struct entry e = entry_of_statistic(s, values + s->start);
        resume_tensor(r, &e);
    }
}

void resume_momentum(struct resume *r, const struct model *model, float *const *momentum)
{
    for (uint32_t k = 0; k < model_ntensor(model); k++) {
        const struct entry e = entry_of(model_tensor(model, k), RESUME_MOMENTUM, momentum[k]);
        resume_tensor(r, &e);
    }
}

/* ---- Saving ------------------------------------------------------------------------------------------------- */

/* A number with all its bits: reals as hexadecimal digits. */
static void print_number(const struct number *n, struct note *out)
{
    memcpy(out->name, n->name, sizeof out->name);
    if (n->kind == REAL)
        plait_print_real(out->value, sizeof out->value, 0, *(const double *)n->at);
    else if (n->kind == COUNT64)
        snprintf(out->value, sizeof out->value, "%" PRIu64, *(const uint64_t *)n->at);
    else
        snprintf(out->value, sizeof out->value, "%" PRIu32, *(const uint32_t *)n->at);
}

/* Notes of settings and numbers; free them. */
static struct note *make_notes(const struct resume *r, uint32_t *n)
{
    struct note *const notes = grow(NULL, r->nsetting + r->nnumber + 1, sizeof *notes);

    *n = 0;
    for (uint32_t k = 0; k < r->nsetting; k++)
        notes[(*n)++] = r->settings[k].note;
    for (uint32_t k = 0; k < r->nnumber; k++)
        print_number(&r->numbers[k], &notes[(*n)++]);
    return notes;
}

void resume_save(const struct resume *r, struct keeper *keeper, uint64_t step, bool best)
{
    uint32_t n;
    struct note *const notes = make_notes(r, &n);

    keeper_save(keeper, step, best, r->entries, r->nentry, notes, n);
    free(notes);
}

const char *resume_save_alone(const struct resume *r, const char *folder, uint64_t step)
{
    uint32_t n, nentry = 0;
    struct note *const notes = make_notes(r, &n);
    struct entry *const entries = allocate(r->nentry, sizeof *entries);

    for (uint32_t k = 0; k < r->nentry; k++)
        if (r->found[k] == NULL)
            entries[nentry++] = r->entries[k];
    const char *const why = checkpoint_write(folder, step, entries, nentry, notes, n);
    free(entries);
    free(notes);
    return why;
}

/* ---- Is it the same run? ------------------------------------------------------------------------------------ */

static const char *check_settings(const struct resume *r, const char *path, const struct safetensors *file)
{
    if (safetensors_note(file, "plait") == NULL)
        return because("%s: not a checkpoint of plait-train; load a file of weights with --weights", path);
    for (uint32_t k = 0; k < r->nsetting; k++) {
        const struct setting *const s = &r->settings[k];
        const char *const value = safetensors_note(file, s->note.name);
        if (s->option[0] == '\0')
            continue;
        if (value == NULL)
            return because("%s: its %s is not recorded; begin anew in another folder", path, s->note.name);
        if (strcmp(value, s->note.value) != 0)
            return because("%s: its %s is %s, this run's is %s; give %s %s, or begin anew in another folder", path,
                           s->note.name, value, s->note.value, s->option, value);
    }
    return NULL;
}

/* Parse a number of the file to the bits of its place in memory. */
static bool parse_number(const char *text, enum kind kind, uint64_t *bits)
{
    char *end;

    if (text == NULL || text[0] == '\0')
        return false;
    errno = 0;
    if (kind == REAL) {
        const double value = plait_real(text, &end);
        memcpy(bits, &value, sizeof value);
        return *end == '\0'; /* subnormal numbers set errno */
    }
    *bits = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0 && text[0] != '-' && (kind == COUNT64 || *bits <= UINT32_MAX);
}

static const char *check_numbers(const struct resume *r, const char *path, const struct safetensors *file,
                                 uint64_t *bits)
{
    for (uint32_t k = 0; k < r->nnumber; k++) {
        const char *const text = safetensors_note(file, r->numbers[k].name);
        if (!parse_number(text, r->numbers[k].kind, &bits[k]))
            return because("%s: its %s is %.40s, which is not a valid number; use an older checkpoint", path,
                           r->numbers[k].name, text == NULL ? "missing" : text);
    }
    return NULL;
}

/* F32 [64, 3, 7, 7] */
static const char *print_shape(const struct entry *e, char *out, size_t size)
{
    int n = snprintf(out, size, "%s [", stored_name(e->type));

    for (uint32_t d = 0; d < e->ndim && n < (int)size; d++)
        n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64, d > 0 ? ", " : "", e->shape[d]);
    if (n < (int)size)
        snprintf(out + n, size - (size_t)n, "]");
    return out;
}

static bool same_shape(const struct entry *a, const struct entry *b)
{
    return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0);
}

static const char *differ(const char *path, const struct entry *theirs, const struct entry *ours, const char *remedy)
{
    char a[128], b[128];

    return because("%s: tensor %s is %s, this run's is %s%s", path, ours->name, print_shape(theirs, a, sizeof a),
                   print_shape(ours, b, sizeof b), remedy);
}

static const struct entry *in_list(const struct entry *entries, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (strcmp(entries[k].name, name) == 0)
            return &entries[k];
    return NULL;
}

static bool alike(const struct entry *theirs, const struct entry *ours)
{
    return theirs->type == ours->type && same_shape(theirs, ours);
}

static const char *check_tensors(const struct resume *r, const char *path, const struct safetensors *file)
{
    for (uint32_t k = 0; k < r->nentry; k++) {
        const struct entry *const ours = &r->entries[k], *const theirs = safetensors_find(file, ours->name);
        if (r->found[k] != NULL)
            continue;
        if (theirs == NULL)
            return because("%s: it has no tensor %s, which this run needs", path, ours->name);
        if (!alike(theirs, ours))
            return differ(path, theirs, ours, "");
    }
    for (uint32_t k = 0; k < safetensors_nentry(file); k++)
        if (in_list(r->entries, r->nentry, safetensors_entry(file, k)->name) == NULL)
            return because("%s: it has a tensor %s, which this run does not have", path,
                           safetensors_entry(file, k)->name);
    return NULL;
}

/* ---- Putting it back ---------------------------------------------------------------------------------------- */

static void put_numbers(const struct resume *r, const uint64_t *bits)
{
    for (uint32_t k = 0; k < r->nnumber; k++)
        if (r->numbers[k].kind == COUNT32)
            *(uint32_t *)r->numbers[k].at = (uint32_t)bits[k];
        else
            memcpy(r->numbers[k].at, &bits[k], sizeof bits[k]);
}

/* Restore one tensor from rank 0's file, which is NULL on the other ranks. */
static const char *put_tensor(struct entry *ours, bool *optional, struct plait_comm *comm,
                              const struct safetensors *file)
{
    const struct entry *const theirs = file == NULL ? NULL : safetensors_find(file, ours->name);
    uint64_t bytes = 0;

    if (optional != NULL) {
        *optional = theirs != NULL && alike(theirs, ours);
        const char *const why = share_bytes(comm, optional, sizeof *optional);
        if (why != NULL || !*optional)
            return why;
    }
    entry_bytes(ours, &bytes);
    if (theirs != NULL && bytes > 0)
        memcpy(ours->data, theirs->data, bytes);
    return share_bytes(comm, ours->data, bytes);
}

/* After all checks. */
static const char *put_back(struct resume *r, struct plait_comm *comm, const struct safetensors *file, uint64_t *bits)
{
    const char *why = share_bytes(comm, bits, r->nnumber * sizeof *bits);

    for (uint32_t k = 0; k < r->nentry && why == NULL; k++)
        why = put_tensor(&r->entries[k], r->found[k], comm, file);
    if (why == NULL)
        put_numbers(r, bits);
    return why;
}

const char *resume_restore(struct resume *r, struct plait_comm *comm, const char *path)
{
    uint64_t *const bits = grow(NULL, r->nnumber + 1, sizeof *bits);
    const char *why = NULL;
    struct safetensors *const file = share_reads(comm) ? safetensors_open(path, &why) : NULL;

    if (file != NULL) {
        why = check_settings(r, path, file);
        why = why != NULL ? why : check_numbers(r, path, file, bits);
        why = why != NULL ? why : check_tensors(r, path, file);
    }
    why = share_verdict(comm, why);
    if (why == NULL)
        why = put_back(r, comm, file, bits);
    safetensors_close(file);
    free(bits);
    return why;
}
