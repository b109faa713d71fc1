/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "base/log.h"
#include "base/status.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST 6 /* logarithms of the first and last class's size: 64 bytes, 64 MiB */
#define LARGEST  26
#define TIMED    22 /* longer vectors are timed as if they had 4 MiB: they have more slices of the same size */

/*
 * Built-in speeds. Between ranks that share memory: an operation of the engine on a processor of 2023. Between hosts:
 * TCP on a network of 10 Gbit/s. If ranks share processors, the receiver's turn comes after those of others.
 */
#define HOST_LATENCY  400
#define HOST_OVERHEAD 250
#define HOST_TURN     2500
#define HOST_COPY     UINT64_C(20000000000)
#define HOST_REDUCE   (HOST_COPY / 10 * 7) /* a copy touches two vectors, a sum three */
#define NET_LATENCY   20000
#define NET_OVERHEAD  5000
#define NET_RATE      UINT64_C(1200000000)
#define GPU_LATENCY   3000
#define GPU_OVERHEAD  4000
#define GPU_RATE      UINT64_C(200000000000)
#define GPU_MEMORY    UINT64_C(1000000000000)

struct plait_model {
    struct plait_model_options of;       /* its maps are read at creation only */
    uint32_t *place;                     /* [nrank] of the rank in the machine, rack by rack and host by host */
    uint32_t nhost, each;                /* each: the most ranks of a host */
    uint32_t nrack, beside;              /* beside: the most hosts of a rack */
    struct plait_tuned_link net, uplink; /* measured between hosts, and between racks; bandwidth 0: not */
    size_t nrow;
    struct plait_tuned_choice *rows; /* [nrow] measured, by collective and memory, then by size */
    pthread_mutex_t lock;
    struct plait_pick *picks; /* made as they are needed */
};

/* ---- The machine ------------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The outermost level of the comm, if its units have several hosts each; NULL: there are no racks. */
static const uint32_t *find_racks(const struct plait_model_options *o)
{
    const uint32_t *rack = o->nlevel > 0 ? o->level + (size_t)(o->nlevel - 1) * o->nrank : NULL;

    for (uint32_t r = 1; rack != NULL && o->node != NULL && r < o->nrank; r++)
        for (uint32_t k = 0; k < r; k++)
            if (rack[k] == rack[r] && o->node[k] != o->node[r])
                return rack;
    return NULL;
}

/*
 * The ranks' places in the machine, rack by rack and host by host. Hosts are in the order of their lowest ranks.
 *
 * host, hosts  [nrank] scratch, zeroed: the rank's host in its rack; of each rack, its hosts so far
 */
static void place_ranks(const struct plait_model_options *o, struct plait_model *m, uint32_t *host, uint32_t *hosts)
{
    const uint32_t *rack = find_racks(o);

    for (uint32_t r = 0; r < o->nrank; r++) {
        const uint32_t of = rack != NULL ? rack[r] : 0;
        uint32_t before = r; /* 1 + the rank before this one on the same host */
        while (o->node != NULL && before > 0 && o->node[before - 1] != o->node[r])
            before--;
        m->nhost += before == 0;
        host[r] = before == 0 ? hosts[of]++ : host[before - 1];
        m->place[r] = before == 0 ? 0 : m->place[before - 1] + 1;
        m->each = larger(m->each, m->place[r] + 1);
        m->nrack = larger(m->nrack, of + 1);
        m->beside = larger(m->beside, hosts[of]);
    }
    for (uint32_t r = 0; r < o->nrank; r++)
        m->place[r] += ((rack != NULL ? rack[r] : 0) * m->beside + host[r]) * m->each;
}

/* A network with built-in speeds, or those that were measured. faster: so many times the built-in bandwidth */
static struct plait_level network(const char *name, uint32_t children, const struct plait_tuned_link *measured,
                                  uint32_t faster)
{
    const bool known = measured->bandwidth > 0;
    struct plait_level l = { .children = children,
                             .links = 1,
                             .bandwidth = known ? measured->bandwidth : NET_RATE * faster,
                             .latency = known ? measured->latency : NET_LATENCY,
                             .overhead = known ? measured->overhead : NET_OVERHEAD };

    snprintf(l.name, sizeof l.name, "%s", name);
    return l;
}

bool plait_model_is_crowded(const struct plait_model *m)
{
    return m->of.processors > 0 && m->of.processors < m->each;
}

/* Data in host memory. */
static void describe(const struct plait_model *o, struct plait_machine *m)
{
    const bool crowded = plait_model_is_crowded(o);

    *m = (struct plait_machine){
        .name = "model", .nlevel = 1, .copy = HOST_COPY, .reduce = HOST_REDUCE, .cache = o->of.cache
    };
    m->level[0] = (struct plait_level){ .name = "host",
                                        .children = o->each,
                                        .bandwidth = HOST_COPY,
                                        .latency = crowded ? HOST_TURN * (o->each / o->of.processors) : HOST_LATENCY,
                                        .overhead = HOST_OVERHEAD,
                                        .processors = crowded ? o->of.processors : 0 };
    if (plait_is_paced(&o->of.pace)) {
        m->level[0].links = 1;
        m->level[0].latency = o->of.pace.latency;
        m->level[0].bandwidth = o->of.pace.bandwidth > 0 ? o->of.pace.bandwidth : HOST_COPY;
    }
    if (o->nhost > 1)
        m->level[m->nlevel++] = network("network", o->beside, &o->net, 1);
    if (o->nrack > 1)
        m->level[m->nlevel++] = network("racks", o->nrack, &o->uplink, o->beside);
}

/* For data in GPUs' memory: processors only put the work on queues. */
static void use_gpus(struct plait_machine *m)
{
    m->level[0].latency = GPU_LATENCY;
    m->level[0].overhead = GPU_OVERHEAD;
    m->level[0].bandwidth = GPU_RATE;
    m->level[0].processors = 0;
    m->copy = m->reduce = GPU_MEMORY;
}

/* ---- Life ------------------------------------------------------------------------------------------------ */

enum plait_status plait_model_create(const struct plait_model_options *o, struct plait_model **out)
{
    struct plait_scratch arrays = { 0 };
    uint32_t *host = plait_scratch(&arrays, o->nrank, sizeof *host);
    uint32_t *hosts = plait_scratch(&arrays, o->nrank, sizeof *hosts);
    struct plait_model *m = calloc(1, sizeof *m);
    uint32_t *place = malloc(o->nrank * sizeof *place);

    if (m == NULL || place == NULL || arrays.failed) {
        free(m);
        free(place);
        plait_scratch_free(&arrays);
        return plait_fail_memory("out of memory for the model of %u ranks", o->nrank);
    }
    m->of = *o;
    m->place = place;
    place_ranks(o, m, host, hosts);
    plait_scratch_free(&arrays);
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return PLAIT_OK;
}

void plait_model_use(struct plait_model *m, struct plait_tuning *tuning)
{
    m->net = tuning->link[PLAIT_LINK_HOSTS];
    m->uplink = tuning->link[PLAIT_LINK_RACKS];
    m->nrow = tuning->nrow;
    m->rows = tuning->rows;
    tuning->nrow = 0;
    tuning->rows = NULL;
    for (size_t i = 0; i < m->nrow; i++) /* they may come from another rank */
        m->rows[i].algorithm[PLAIT_MAX_SPEC - 1] = m->rows[i].next[PLAIT_MAX_SPEC - 1] = '\0';
}

/*
 * Rows whose algorithms do not fit a comm of this shape get the algorithm "", with a warning: for their sizes the model
 * decides. A second algorithm that does not fit is left out.
 */
static void check_rows(const struct plait_model *m, const struct plait_shape *of, const char *path,
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
        if (plait_candidate_find(m->of.algorithms, row->next, &s, false, &alg) != PLAIT_OK)
            row->next[0] = '\0';
        if (plait_candidate_find(m->of.algorithms, row->algorithm, &s, false, &alg) == PLAIT_OK)
            continue;
        plait_log(PLAIT_LOG_WARN, "%s: %s of %" PRIu64 " bytes: %s; the model decides for the sizes of this row", path,
                  plait_coll_name(s.coll), row->from, plait_last_error());
        row->algorithm[0] = '\0';
    }
}

void plait_model_tune(const struct plait_model *m, const char *setting, const struct plait_shape *shape,
                      char path[PLAIT_TUNING_PATH], struct plait_tuning *out)
{
    plait_tuning_take(setting, path, out);
    plait_tuning_keep(out, m->nhost, m->nhost * m->each == m->of.nrank ? m->each : 0, plait_model_is_crowded(m));
    check_rows(m, shape, path, out);
}

void plait_model_destroy(struct plait_model *m)
{
    if (m == NULL)
        return;
    while (m->picks != NULL) {
        struct plait_pick *next = m->picks->next;
        free(m->picks);
        m->picks = next;
    }
    pthread_mutex_destroy(&m->lock);
    free(m->rows);
    free(m->place);
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
        status = plait_candidate_find(model->of.algorithms, (*out)->algorithm, &s, canonical, &alg);
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

/* Time the candidates of a pick, for this shape. */
static enum plait_status fill(const struct plait_model *model, const struct plait_shape *shape, struct plait_pick *pick)
{
    const struct plait_sim_options options = { .place = model->place, .algorithms = model->of.algorithms };
    const struct plait_tuned_choice *row;
    struct plait_machine m;
    enum plait_status status =
        find_row(model, shape, (size_t)1 << (pick->class + SMALLEST), pick->canonical, pick->device, &row);

    if (status != PLAIT_OK)
        return status;
    describe(model, &m);
    if (pick->device)
        use_gpus(&m);
    pick->why = "the fastest by the model of the machine";
    status = plait_candidates_time(&m, &options, shape, pick->canonical, pick);
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

static enum plait_status make_pick(struct plait_model *model, const struct plait_shape *shape,
                                   const struct plait_pick *wanted, struct plait_pick **out)
{
    struct plait_pick *made = malloc(sizeof *made);

    if (made == NULL)
        return plait_fail_memory("out of memory to choose an algorithm");
    *made = *wanted;
    const enum plait_status status = fill(model, shape, made);
    if (status != PLAIT_OK) {
        free(made);
        return status;
    }
    made->next = model->picks;
    *out = model->picks = made;
    return PLAIT_OK;
}

enum plait_status plait_model_pick(struct plait_model *model, const struct plait_shape *shape, size_t bytes,
                                   bool canonical, bool device, const struct plait_pick **out)
{
    const bool alike = model->nhost == 1 && plait_is_of_library(model->of.algorithms[0]); /* all roots are */
    struct plait_shape s = { .coll = shape->coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : shape->coll,
                             .nrank = shape->nrank,
                             .root = alike ? 0 : shape->root,
                             .vform = shape->vform,
                             .node = shape->node,
                             .nlevel = shape->nlevel,
                             .level = shape->level };
    const uint32_t class = class_of(bytes), log = class + SMALLEST < TIMED ? class + SMALLEST : TIMED;
    const struct plait_pick wanted = { .coll = s.coll,
                                       .class = class,
                                       .root = s.root,
                                       .vform = s.vform,
                                       .canonical = canonical,
                                       .device = device,
                                       .bytes = (size_t)1 << log };
    enum plait_status status = PLAIT_OK;

    pthread_mutex_lock(&model->lock);
    struct plait_pick *at = model->picks;
    while (at != NULL && (at->coll != s.coll || at->class != class || at->root != s.root || at->vform != s.vform ||
                          at->canonical != canonical || at->device != device))
        at = at->next;
    if (at == NULL)
        status = make_pick(model, &s, &wanted, &at);
    if (status == PLAIT_OK)
        *out = at;
    pthread_mutex_unlock(&model->lock);
    return status;
}
