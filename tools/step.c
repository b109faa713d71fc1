/* SPDX-License-Identifier: BSD-3-Clause */
#include "step.h"

#include "allocate.h"
#include "message.h"
#include "option.h"
#include "trace.h"
#include "value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LAYOUTS 16
#define MOST_CHANGES 32
#define USUAL                                                                                                    \
    "per-tensor,threshold:1M,threshold:4M,threshold:16M,threshold:64M,threshold:all,segments,cubic,ddp,horovod," \
    "computed"

/* ---- Points --------------------------------------------------------------------------------------------- */

static void read_layouts(struct task *t, const char *usual)
{
    const char *given = t->options->layouts;
    char *copy = strdup(given != NULL ? given : usual), *rest = NULL;

    for (char *l = copy != NULL ? strtok_r(copy, ",", &rest) : NULL; l != NULL; l = strtok_r(NULL, ",", &rest)) {
        struct point *p = &t->points[t->n++];
        if (t->n > MOST_LAYOUTS)
            option_misuse("--layouts %s: more than %d layouts", given, MOST_LAYOUTS);
        p->layout = (struct layout){ 0 };
        if (strcmp(l, "computed") == 0)
            p->layout.rule = RULE_COMPUTED;
        else if (strcmp(l, "per-tensor") != 0 && !layout_parse(l, &p->layout))
            option_misuse("--layouts %s: '%s' must be per-tensor, computed, " LAYOUT_NAMES, given, l);
        snprintf(p->label, sizeof p->label, "%s", l);
    }
    free(copy);
}

static void set_number(struct task *t, uint32_t i, uint64_t x)
{
    t->points[i].x = x;
    snprintf(t->points[i].label, sizeof t->points[i].label, "%" PRIu64, x);
}

/* "A-B" by powers of `factor`, or numbers with commas between. */
static void read_numbers(struct task *t, const char *flag, const char *text, uint64_t most, uint64_t factor)
{
    char *copy = strdup(text), *rest = NULL, *dash = copy != NULL ? strchr(copy, '-') : NULL;
    const struct layout layout = t->points[0].layout;
    size_t x, to;

    t->n = 0;
    if (dash != NULL) {
        *dash = '\0';
        if (!value_bytes(flag, copy, &x) || !value_bytes(flag, dash + 1, &to))
            exit(2);
        for (; x > 0 && x <= to && t->n < MOST_POINTS; x *= factor)
            set_number(t, t->n++, x);
    } else {
        for (char *c = copy != NULL ? strtok_r(copy, ",", &rest) : NULL; c != NULL; c = strtok_r(NULL, ",", &rest)) {
            if (t->n == MOST_POINTS || !value_bytes(flag, c, &x))
                exit(2);
            set_number(t, t->n++, x);
        }
    }
    free(copy);
    bool ok = t->n > 0;
    for (uint32_t i = 0; i < t->n; i++) {
        struct point *p = &t->points[i];
        ok = ok && p->x > 0 && p->x <= most;
        p->layout = layout;
    }
    if (!ok)
        option_misuse("%s %s: must be numbers from 1 to %" PRIu64 ", such as 8,16 or 8-64", flag, text, most);
}

static void read_sizes(struct task *t, const char *text)
{
    read_numbers(t, "--sweep", text, (uint64_t)1 << 40, 4);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->points[i].x % sizeof(float) != 0)
            option_misuse("--sweep %s: %s is no whole number of float32 elements, of %zu bytes each", text,
                          t->points[i].label, sizeof(float));
}

static void read_points(struct task *t)
{
    const struct simulate_options *o = t->options;

    if (o->step != NULL)
        read_layouts(t, o->scale != NULL ? "threshold:16M" : USUAL);
    if (o->scale != NULL && t->n > 1)
        option_misuse("--layouts %s: with --scale one layout is needed", o->layouts);
    t->what = o->scale != NULL ? "ranks" : o->step != NULL ? "layout" : "bytes";
    if (o->scale != NULL)
        read_numbers(t, "--scale", o->scale, t->shape->nrank, 2);
    else if (o->sweep != NULL)
        read_sizes(t, o->sweep);
    else if (o->step == NULL)
        set_number(t, t->n++, t->count * sizeof(float));
}

/* ---- Predictions ---------------------------------------------------------------------------------------- */

static enum plait_dtype payload_of(const struct simulate_options *o)
{
    const int type = plait_dtype_find(o->payload);

    if (type != PLAIT_FLOAT32 && type != PLAIT_FLOAT16 && type != PLAIT_BFLOAT16)
        option_misuse("--payload %s: must be float32, float16 or bfloat16", o->payload);
    return type == PLAIT_FLOAT32 ? PLAIT_NDTYPE : (enum plait_dtype)type;
}

/* The layout as the library takes it. cuts: [model.n], to which it then points. */
static bool make_layout(const struct task *t, struct plait_forecast *f, const struct layout *l, uint32_t *cuts,
                        struct plait_training *out)
{
    const struct model *m = &t->model;
    const enum plait_dtype type = out->payload != PLAIT_NDTYPE ? out->payload : m->tensors[0].type;

    if (l->rule == RULE_COMPUTED) {
        out->layout = (struct plait_layout){ .rule = PLAIT_LAYOUT_CUTS, .cuts = cuts };
        return plait_forecast_cuts(f, out, cuts, &out->layout.ncut) == PLAIT_OK || complain("%s", plait_last_error());
    }
    uint64_t *count = allocate(m->n, sizeof *count);
    for (uint32_t i = 0; i < m->n; i++)
        count[i] = m->tensors[i].count;
    layout_make(l, count, m->n, plait_dtype_size(type), cuts, &out->layout);
    free(count);
    return true;
}

/* buckets: [model.n]; cuts: [model.n] of a computed layout, *ncut of them */
static bool predict_step(const struct task *t, struct plait_forecast *f, const struct layout *l, uint32_t *cuts,
                         uint32_t *ncut, struct plait_training_bucket *buckets, struct plait_step_time *out)
{
    const struct model *m = &t->model;
    struct plait_training training = {
        .tensors = m->tensors, .ready = m->ready, .ntensor = m->n, .compute = m->compute, .payload = m->payload
    };

    if (!make_layout(t, f, l, cuts, &training))
        return false;
    *ncut = training.layout.ncut;
    return plait_forecast_step(f, &training, buckets, out) == PLAIT_OK || complain("%s", plait_last_error());
}

static bool predict(const struct task *t, struct plait_forecast *f, const struct point *p, struct result *out)
{
    struct plait_training_bucket *buckets;
    struct plait_prediction prediction;
    struct plait_step_time s;
    const char *algorithm;
    uint32_t largest = 0, ncut;

    if (t->model.n == 0) {
        const size_t count = t->options->sweep != NULL ? p->x / sizeof(float) : t->count;
        if (plait_forecast_fastest(f, PLAIT_FLOAT32, count, &algorithm, &prediction) != PLAIT_OK)
            return complain("%s", plait_last_error());
        out->time = prediction.time;
        snprintf(out->algorithm, sizeof out->algorithm, "%s", algorithm);
        return true;
    }
    buckets = allocate(t->model.n, sizeof *buckets);
    uint32_t *cuts = allocate(t->model.n, sizeof *cuts);
    const bool ok = predict_step(t, f, &p->layout, cuts, &ncut, buckets, &s);
    if (ok) {
        for (uint32_t b = 0; b < s.nbucket; b++)
            largest = buckets[b].bytes > buckets[largest].bytes ? b : largest;
        *out = (struct result){ .time = s.time,
                                .exposed = (double)s.exposed / (double)s.time,
                                .efficiency = (double)t->model.compute / (double)s.time,
                                .nbucket = s.nbucket };
        snprintf(out->algorithm, sizeof out->algorithm, "%s", buckets[largest].algorithm);
    }
    if (ok && p->layout.rule == RULE_COMPUTED) {
        out->cuts = cuts;
        out->ncut = ncut;
        cuts = NULL;
    }
    free(cuts);
    free(buckets);
    return ok;
}

/* Of all layouts of a step, at most; 0: few. */
static uint64_t slices_of(const struct task *t)
{
    const size_t cache = t->scenes[0].machine.cache, slice = cache > 0 ? cache / 2 : 1 << 19;
    const uint64_t layouts = t->options->scale != NULL ? 1 : t->n;

    return t->model.n > 0 ? layouts * (t->model.elements * sizeof(float) / (slice > 0 ? slice : 1) + t->model.n) : 0;
}

/* large: [256] or NULL */
static struct plait_forecast *forecast(const struct task *t, const struct scene *scene, const struct point *p,
                                       char *large)
{
    struct plait_shape shape = *t->shape;

    shape.nrank = t->options->scale != NULL ? (uint32_t)p->x : shape.nrank;
    return scene_forecast(scene, &shape, t->spec, slices_of(t), large, sizeof t->points->of->large);
}

/* On a terminal: what is being predicted; done: remove it. */
static void show_progress(const struct task *t, int scene, uint32_t i, bool done)
{
    if (!isatty(STDERR_FILENO) || t->n * (uint32_t)t->nscene == 1)
        return;
    if (done)
        fputs("\r\033[K", stderr);
    else
        fprintf(stderr, "\r\033[K%s %s, %" PRIu32 " of %" PRIu32, t->what, t->points[i].label,
                (uint32_t)scene * t->n + i + 1, (uint32_t)t->nscene * t->n);
}

/* A forecast keeps what it has simulated, so points of as many ranks share one. */
static bool predict_all(struct task *t, int scene)
{
    struct plait_forecast *f = NULL;
    char large[sizeof t->points->of->large] = "";
    bool ok = true;

    for (uint32_t i = 0; ok && i < t->n; i++) {
        struct result *r = &t->points[i].of[scene];
        show_progress(t, scene, i, false);
        if (f == NULL || t->options->scale != NULL) {
            plait_forecast_destroy(f);
            large[0] = '\0';
            f = forecast(t, &t->scenes[scene], &t->points[i], large);
        }
        ok = f != NULL && predict(t, f, &t->points[i], r);
        memcpy(r->large, large, sizeof large);
    }
    show_progress(t, scene, 0, true);
    plait_forecast_destroy(f);
    return ok;
}

/* ---- Which change helps --------------------------------------------------------------------------------- */

/* The point of which that is asked: the best layout, or the largest number of ranks or bytes. */
static const struct point *asked(const struct task *t)
{
    return t->model.n > 0 && t->options->scale == NULL ? &t->points[0] : &t->points[t->n - 1];
}

static bool predict_alone(const struct task *t, struct scene *scene, struct alone *out)
{
    struct plait_forecast *f = forecast(t, scene, asked(t), NULL);
    const bool ok = f != NULL && predict(t, f, asked(t), &out->result);

    plait_forecast_destroy(f);
    return ok;
}

/* Each of several changes alone. changes: a copy of them, with zeros between. */
static bool predict_changes(const struct task *t, char *changes, struct alone *out, uint32_t *n)
{
    char *rest = NULL;
    bool ok = true;

    *n = 0;
    for (char *c = changes; ok && (c = strtok_r(c, ",", &rest)) != NULL && *n < MOST_CHANGES; c = NULL) {
        struct scene scene = { .machine = t->scenes[0].machine };
        c += strspn(c, " ");
        scene_change(&scene, c);
        out[*n].change = c;
        if (plait_machine_check(&scene.machine) == PLAIT_OK && plait_machine_ranks(&scene.machine) >= t->shape->nrank)
            ok = predict_alone(t, &scene, &out[(*n)++]);
    }
    if (ok && *n > 0 && t->options->placement != NULL) {
        struct scene scene = { .machine = t->scenes[0].machine, .place = t->scenes[1].place };
        out[*n].change = "the placement";
        ok = predict_alone(t, &scene, &out[(*n)++]);
    }
    return ok;
}

/* ---- The command ---------------------------------------------------------------------------------------- */

/* The size up to which the algorithm of a point is the fastest, before the next point: by bisection to 3 %. */
static bool print_crossing(const struct task *t, struct plait_forecast *f, const struct point *a, const struct point *b)
{
    struct point p = { .x = b->x };
    struct result r = { 0 };
    uint64_t from = a->x;

    if (strcmp(a->of[0].algorithm, b->of[0].algorithm) == 0)
        return true;
    for (uint64_t to = b->x; to - from > sizeof(float) + from / 32;) {
        p.x = from + (to - from) / 2;
        if (!predict(t, f, &p, &r))
            return false;
        if (strcmp(r.algorithm, a->of[0].algorithm) == 0)
            from = p.x;
        else
            to = p.x;
        p.x = to;
    }
    if (!predict(t, f, &p, &r))
        return false;
    printf("from about %" PRIu64 " bytes on: %s instead of %s\n", p.x / sizeof(float) * sizeof(float), r.algorithm,
           a->of[0].algorithm);
    return true;
}

static bool print_crossings(const struct task *t)
{
    struct plait_forecast *f = forecast(t, &t->scenes[0], &t->points[0], NULL);
    bool ok = f != NULL;

    putchar('\n');
    for (uint32_t i = 0; ok && i + 1 < t->n; i++)
        ok = print_crossing(t, f, &t->points[i], &t->points[i + 1]);
    plait_forecast_destroy(f);
    return ok;
}

/* The best layout's step, on the changed machine if there is one. */
static bool trace_step(const struct task *t)
{
    struct plait_forecast *f = forecast(t, &t->scenes[t->nscene - 1], &t->points[0], NULL);
    struct plait_training_bucket *buckets = allocate(t->model.n, sizeof *buckets);
    uint32_t *cuts = allocate(t->model.n, sizeof *cuts), ncut;
    struct plait_step_time s;
    const bool ok = f != NULL && predict_step(t, f, &t->points[0].layout, cuts, &ncut, buckets, &s) &&
                    trace_write_step(t->options->trace, &t->model, buckets, &s);

    plait_forecast_destroy(f);
    free(buckets);
    free(cuts);
    return ok;
}

static int by_time(const void *a, const void *b)
{
    const struct point *x = a, *y = b;

    return (x->of[0].time > y->of[0].time) - (x->of[0].time < y->of[0].time);
}

int step_run(const struct scene *scenes, int nscene, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *o)
{
    struct task t = { .scenes = scenes, .nscene = nscene, .shape = shape, .spec = spec, .count = count, .options = o };
    const bool several = o->what_if != NULL && (strchr(o->what_if, ',') != NULL || o->placement != NULL);
    struct alone alone[MOST_CHANGES + 1];
    uint32_t nalone = 0;

    read_points(&t);
    if (o->step != NULL && !model_load(o, &t.model))
        return 2;
    if (o->payload != NULL)
        t.model.payload = payload_of(o);
    bool ok = true;
    for (int k = 0; ok && k < nscene; k++)
        ok = predict_all(&t, k);
    if (o->step != NULL && o->scale == NULL)
        qsort(t.points, t.n, sizeof *t.points, by_time);
    char *changes = several ? strdup(o->what_if) : NULL;
    if (ok && changes != NULL)
        ok = predict_changes(&t, changes, alone, &nalone);
    if (ok)
        points_print(&t, alone, nalone, &asked(&t)->of[0]);
    if (ok && o->sweep != NULL && !o->json)
        ok = print_crossings(&t);
    if (ok && o->step != NULL && o->trace != NULL)
        ok = trace_step(&t);
    free(changes);
    for (uint32_t i = 0; i < nalone; i++)
        free(alone[i].result.cuts);
    for (uint32_t i = 0; i < 2 * t.n; i++)
        free(t.points[i / 2].of[i % 2].cuts);
    model_finish(&t.model);
    return !ok;
}
