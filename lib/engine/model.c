/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "candidates.h"
#include "model_machine.h"

#include "base/log.h"
#include "base/status.h"
#include "plan/plan_check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST  6 /* logarithms of the first and last class's size: 64 bytes, 64 MiB */
#define LARGEST   26
#define TIMED     22      /* longer vectors are timed as if they had 4 MiB: they have more slices of the same size */
#define MOST_RATE 1000000 /* MB/s */

/* Picks are made as they are needed. */
struct kept {
    struct kept *next;
    enum plait_coll coll;
    uint32_t class, root;
    bool vform, canonical, device;
    struct plait_pick pick;
};

struct plait_model {
    const struct plait_alg *const *algorithms;
    uint32_t nrank;
    struct plait_model_machine machine;
    size_t nrow;
    struct plait_tuned_choice *rows; /* [nrow] measured, by collective and memory, then by size */
    pthread_mutex_t lock;
    struct kept *kept;
};

/* ---- Life ------------------------------------------------------------------------------------------------ */

enum plait_status plait_model_create(const struct plait_model_options *o, struct plait_model **out)
{
    struct plait_model *m = calloc(1, sizeof *m);

    if (m == NULL)
        return plait_fail_memory("out of memory for the model of %u ranks", o->nrank);
    const enum plait_status status = plait_model_machine_make(o, &m->machine);
    if (status != PLAIT_OK) {
        free(m);
        return status;
    }
    m->nrank = o->nrank;
    m->algorithms = o->algorithms;
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return PLAIT_OK;
}

/* A row may come from another rank. */
static void check_row(struct plait_tuned_choice *c)
{
    c->algorithm[sizeof c->algorithm - 1] = '\0';
    c->next[sizeof c->next - 1] = '\0';
}

enum plait_status plait_model_use(struct plait_model *m, const struct plait_copies *speeds,
                                  const struct plait_tuning *tuning)
{
    m->machine.speeds = *speeds;
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++) /* they come from another rank */
        m->machine.speeds.calibrated &= speeds->copy[k] > 0 && speeds->copy[k] <= MOST_RATE;
    if (tuning == NULL)
        return PLAIT_OK;
    m->machine.net = tuning->link[PLAIT_LINK_HOSTS];
    m->machine.uplink = tuning->link[PLAIT_LINK_RACKS];
    if (tuning->nrow > 0 && (m->rows = malloc(tuning->nrow * sizeof *m->rows)) == NULL)
        return plait_fail_memory("out of memory for %zu rows of a tuning file", tuning->nrow);
    for (size_t i = 0; i < tuning->nrow; i++) {
        m->rows[i] = tuning->rows[i];
        check_row(&m->rows[i]);
    }
    m->nrow = tuning->nrow;
    return PLAIT_OK;
}

void plait_model_check(const struct plait_model *m, const struct plait_shape *of, const char *path,
                       struct plait_tuning *t)
{
    for (size_t i = 0; i < t->nrow; i++) {
        struct plait_tuned_choice *row = &t->rows[i];
        struct plait_shape s = { .coll = row->coll,
                                 .nrank = of->nrank,
                                 .root = of->root,
                                 .node = of->node,
                                 .nlevel = of->nlevel,
                                 .level = of->level };
        const struct plait_alg *alg;
        if (plait_candidate_find(m->algorithms, row->next, &s, false, &alg) != PLAIT_OK)
            row->next[0] = '\0';
        if (plait_candidate_find(m->algorithms, row->algorithm, &s, false, &alg) == PLAIT_OK)
            continue;
        plait_log(PLAIT_LOG_WARN, "%s: %s of %" PRIu64 " bytes: %s; the model decides for the sizes of this row", path,
                  plait_coll_name(s.coll), row->from, plait_last_error());
        row->algorithm[0] = '\0';
    }
}

uint32_t plait_model_hosts(const struct plait_model *m, uint32_t *each)
{
    *each = m->machine.nhost * m->machine.each == m->nrank ? m->machine.each : 0;
    return m->machine.nhost;
}

void plait_model_destroy(struct plait_model *m)
{
    if (m == NULL)
        return;
    while (m->kept != NULL) {
        struct kept *next = m->kept->next;
        free(m->kept);
        m->kept = next;
    }
    pthread_mutex_destroy(&m->lock);
    free(m->rows);
    free(m->machine.place);
    free(m);
}

/* ---- Picks -------------------------------------------------------------------------------------------------- */

/* The measured row for vectors of this size; NULL: none may be used. Errors: PLAIT_ERR_NOMEM. */
static enum plait_status find_row(const struct plait_model *model, const struct plait_shape *shape, size_t bytes,
                                  bool canonical, bool device, const struct plait_tuned_choice **out)
{
    enum plait_status status = PLAIT_OK;
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    *out = NULL;
    for (const struct plait_tuned_choice *c = model->rows; c < model->rows + model->nrow; c++)
        if (c->coll == shape->coll && c->memory == (device ? PLAIT_MEMORY_DEVICE : PLAIT_MEMORY_HOST) &&
            c->from <= bytes)
            *out = c;
    if (*out != NULL && (*out)->algorithm[0] == '\0') /* it does not count */
        *out = NULL;
    if (*out != NULL)
        status = plait_candidate_find(model->algorithms, (*out)->algorithm, &s, canonical, &alg);
    if (status != PLAIT_OK)
        *out = NULL;
    return status == PLAIT_ERR_NOMEM ? status : PLAIT_OK;
}

/* Put this candidate first, and say how long it took. */
static void promote(struct plait_pick *pick, const char *spec, uint64_t ns)
{
    struct plait_candidate c = { .predicted = 0 };
    uint32_t i = 0;

    while (i < pick->n && strcmp(pick->candidates[i].algorithm, spec) != 0)
        i++;
    if (i < pick->n)
        c = pick->candidates[i];
    else if (pick->n < PLAIT_MOST_CANDIDATES)
        pick->n++;
    else
        i--;
    for (; i > 0; i--)
        pick->candidates[i] = pick->candidates[i - 1];
    snprintf(c.algorithm, sizeof c.algorithm, "%s", spec);
    c.measured = (double)ns / 1e9;
    pick->candidates[0] = c;
}

/* Unless it is there. */
static void append(struct plait_pick *pick, const struct plait_candidate *c)
{
    for (uint32_t i = 0; i < pick->n; i++)
        if (strcmp(pick->candidates[i].algorithm, c->algorithm) == 0)
            return;
    if (pick->n < PLAIT_MOST_CANDIDATES)
        pick->candidates[pick->n++] = *c;
}

/* The first candidate in which partial results travel or not, like in `alg`, comes first. */
static void prefer_alike(const struct plait_model *model, const struct plait_shape *shape, const struct plait_alg *alg,
                         struct plait_pick *pick)
{
    for (uint32_t i = 0; i < pick->n; i++) {
        const struct plait_candidate c = pick->candidates[i];
        struct plait_shape s = *shape;
        const struct plait_alg *other;
        if (plait_alg_find(model->algorithms, c.algorithm, &s, &other) != PLAIT_OK ||
            other->no_partials != alg->no_partials)
            continue;
        promote(pick, c.algorithm, 0);
        return;
    }
}

/*
 * Time the candidates. Timed speeds differ from run to run, but the bits of a result must not. So built-in speeds
 * decide between the canonical order and others, and whether partial results travel: those of 16-bit types are rounded.
 * Timed ones decide among canonical algorithms that are alike. The others follow these.
 */
static enum plait_status predict(const struct plait_model *model, const struct plait_shape *shape, bool canonical,
                                 bool device, struct plait_pick *pick)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    const struct plait_sim_options options = { .place = model->machine.place, .algorithms = model->algorithms };
    struct plait_machine m;
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    plait_model_machine_describe(&model->machine, device, &m);
    enum plait_status status = plait_candidates_time(&m, &options, shape, canonical, pick);

    pick->why = "the fastest by the model of the machine, with built-in speeds";
    if (status == PLAIT_OK)
        status = plait_alg_find(model->algorithms, pick->candidates[0].algorithm, &s, &alg);
    if (status != PLAIT_OK || device || !model->machine.speeds.calibrated || (combines && !alg->canonical))
        return status;
    plait_model_machine_use_timed(&model->machine, pick->bytes, &m);
    const struct plait_pick first = *pick;
    *pick = (struct plait_pick){ .bytes = first.bytes,
                                 .why = "the fastest by the model of the machine, with the speeds of rank 0's host" };
    status = plait_candidates_time(&m, &options, shape, combines, pick);
    for (uint32_t i = 0; status == PLAIT_OK && i < first.n; i++)
        append(pick, &first.candidates[i]);
    if (status == PLAIT_OK && combines)
        prefer_alike(model, shape, alg, pick);
    return status;
}

/* Make the pick of a class. */
static enum plait_status make_pick(const struct plait_model *model, const struct plait_shape *shape, uint32_t class,
                                   bool canonical, bool device, struct plait_pick *pick)
{
    const struct plait_tuned_choice *row;
    enum plait_status status = find_row(model, shape, (size_t)1 << (class + SMALLEST), canonical, device, &row);

    if (status == PLAIT_OK)
        status = predict(model, shape, canonical, device, pick);
    if (status != PLAIT_OK || row == NULL)
        return status;
    if (row->next[0] != '\0')
        promote(pick, row->next, row->next_ns);
    promote(pick, row->algorithm, row->ns);
    pick->why = "the fastest when plait-tune measured it";
    return PLAIT_OK;
}

/* The nearest class. */
static uint32_t class_of(size_t bytes)
{
    uint32_t log = 0;

    while (log < LARGEST && (size_t)1 << log < bytes - bytes / 4)
        log++;
    return log > SMALLEST ? log - SMALLEST : 0;
}

static enum plait_status keep(struct plait_model *model, const struct plait_shape *shape, uint32_t class,
                              bool canonical, bool device, struct kept **out)
{
    struct kept *k = malloc(sizeof *k);

    if (k == NULL)
        return plait_fail_memory("out of memory to choose an algorithm");
    *k = (struct kept){ .next = model->kept,
                        .coll = shape->coll,
                        .class = class,
                        .root = shape->root,
                        .vform = shape->vform,
                        .canonical = canonical,
                        .device = device,
                        .pick.bytes = (size_t)1 << (class + SMALLEST < TIMED ? class + SMALLEST : TIMED) };
    const enum plait_status status = make_pick(model, shape, class, canonical, device, &k->pick);
    if (status != PLAIT_OK) {
        free(k);
        return status;
    }
    *out = model->kept = k;
    return PLAIT_OK;
}

enum plait_status plait_model_pick(struct plait_model *model, const struct plait_shape *shape, size_t bytes,
                                   bool canonical, bool device, const struct plait_pick **out)
{
    const bool alike = model->machine.nhost == 1 && plait_is_of_library(model->algorithms[0]); /* all roots are */
    struct plait_shape s = { .coll = shape->coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : shape->coll,
                             .nrank = shape->nrank,
                             .root = alike ? 0 : shape->root,
                             .vform = shape->vform,
                             .node = shape->node,
                             .nlevel = shape->nlevel,
                             .level = shape->level };
    const uint32_t k = class_of(bytes);
    enum plait_status status = PLAIT_OK;

    pthread_mutex_lock(&model->lock);
    struct kept *at = model->kept;
    while (at != NULL && (at->coll != s.coll || at->class != k || at->root != s.root || at->vform != s.vform ||
                          at->canonical != canonical || at->device != device))
        at = at->next;
    if (at == NULL)
        status = keep(model, &s, k, canonical, device, &at);
    if (status == PLAIT_OK)
        *out = &at->pick;
    pthread_mutex_unlock(&model->lock);
    return status;
}
