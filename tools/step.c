/* SPDX-License-Identifier: BSD-3-Clause */
#include "step.h"

#include "layout.h"
#include "message.h"
#include "option.h"
#include "tensors.h"
#include "value.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LAYOUTS 16
#define MOST_POINTS  64
#define USUAL \
    "per-tensor,threshold:1M,threshold:4M,threshold:16M,threshold:64M,threshold:all,segments,cubic,ddp,horovod"

/* A model in the order in which its gradients become ready. */
struct model {
    uint32_t n;
    uint64_t elements, compute;
    uint64_t *count, *ready;
    struct plait_tensor *tensors;
    uint32_t *cuts;
    enum plait_dtype payload; /* PLAIT_NDTYPE: as the tensors */
};

/* A result in two scenes. */
struct point {
    char label[40], algorithm[2][PLAIT_MAX_SPEC];
    uint64_t x;
    uint32_t nbucket;
    uint64_t time[2]; /* ps */
    double exposed[2], efficiency[2];
};

/* ---- Models --------------------------------------------------------------------------------------------- */

static bool read_list(const char *name, struct tensors *out)
{
    char path[4096], own[1024];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);

    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    if (access(name, R_OK) == 0 || strchr(name, '/') != NULL)
        return tensors_read(name, out);
    snprintf(path, sizeof path, "%s/../bench/data/%s.csv", own, name);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/%s.csv", PLAIT_MODELS, name);
    if (access(path, R_OK) == 0)
        return tensors_read(path, out);
    return complain("--step %s: there is no such model; it must be a CSV file, or alexnet, gpt2, resnet50 or vgg16",
                    name);
}

static uint64_t rate_of(const struct tensors *t, const struct simulate_options *o)
{
    double flops = 0;

    for (uint32_t i = 0; i < t->n; i++)
        flops += (double)(t->forward[i] + t->backward[i]);
    return (uint64_t)(o->samples > 0 ? o->samples * flops : 1e12 * o->teraflops);
}

static void finish(struct model *m)
{
    free(m->count);
    free(m->ready);
    free(m->tensors);
    free(m->cuts);
}

static bool load(const struct simulate_options *o, struct model *m)
{
    struct tensors t;
    bool ok = read_list(o->step, &t);

    *m = (struct model){ 0 };
    if (!ok)
        return false;
    m->n = t.n;
    m->count = calloc(t.n, sizeof *m->count);
    m->ready = calloc(t.n, sizeof *m->ready);
    m->tensors = calloc(t.n, sizeof *m->tensors);
    m->cuts = calloc(t.n, sizeof *m->cuts);
    uint64_t *ready = calloc(t.n, sizeof *ready);
    ok = m->count != NULL && m->ready != NULL && m->tensors != NULL && m->cuts != NULL && ready != NULL;
    if (ok && t.forward == NULL)
        ok = complain("--step %s: its header has no forward,backward, the FLOPs of a sample", o->step);
    /* A sample's time first, since the FLOPs of a batch may be above 2^64. */
    if (ok && plait_training_ready(t.forward, t.backward, t.n, rate_of(&t, o), ready) != PLAIT_OK)
        ok = complain("--step %s: %s", o->step, plait_last_error());
    for (uint32_t i = 0; ok && i < t.n; i++) {
        const uint32_t from = t.n - 1 - i;
        m->count[i] = t.count[from];
        m->elements += t.count[from];
        m->ready[i] = ready[from] * o->batch;
        m->tensors[i] = (struct plait_tensor){ "gradient", t.count[from], PLAIT_FLOAT32, NULL };
    }
    m->compute = ok ? m->ready[t.n - 1] : 0;
    m->payload = PLAIT_NDTYPE;
    if (o->payload != NULL) {
        const int type = plait_dtype_find(o->payload);
        if (type != PLAIT_FLOAT32 && type != PLAIT_FLOAT16 && type != PLAIT_BFLOAT16)
            option_misuse("--payload %s: must be float32, float16 or bfloat16", o->payload);
        m->payload = type == PLAIT_FLOAT32 ? PLAIT_NDTYPE : (enum plait_dtype)type;
    }
    free(ready);
    tensors_finish(&t);
    if (!ok)
        finish(m);
    return ok;
}

/* ---- Output --------------------------------------------------------------------------------------------- */

static void print_json(const char *what, const struct scene *scenes, const struct plait_shape *shape,
                       const struct point *p, uint32_t n, int nscene, bool step)
{
    json_t *root = json_object(), *list = json_array();

    json_object_set_new(root, "machine", json_string(scenes[0].machine.name));
    json_object_set_new(root, "collective", json_string(plait_coll_name(shape->coll)));
    json_object_set_new(root, "ranks", json_integer(shape->nrank));
    for (uint32_t i = 0; i < n; i++) {
        json_t *o = json_object();
        json_object_set_new(o, what, json_string(p[i].label));
        if (step)
            json_object_set_new(o, "buckets", json_integer(p[i].nbucket));
        for (int k = 0; k < nscene; k++) {
            json_t *to = k == 0 ? o : json_object();
            json_object_set_new(to, "time_us", json_real(1e-6 * (double)p[i].time[k]));
            json_object_set_new(to, "algorithm", json_string(p[i].algorithm[k]));
            if (step) {
                json_object_set_new(to, "exposed", json_real(p[i].exposed[k]));
                json_object_set_new(to, "efficiency", json_real(p[i].efficiency[k]));
            }
            if (k == 1) {
                json_object_set_new(to, "ratio", json_real((double)p[i].time[1] / (double)p[i].time[0]));
                json_object_set_new(o, "what_if", to);
            }
        }
        json_array_append_new(list, o);
    }
    json_object_set_new(root, "results", list);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

static void print_points(const char *what, const struct point *p, uint32_t n, int nscene, bool step)
{
    printf("%-16s", what);
    for (int k = 0; k < nscene; k++)
        printf("  %14s%s  %-20s", k == 0 ? "time (us)" : "what if (us)", step ? "  exposed  efficiency" : "",
               "algorithm");
    printf("%s\n", nscene > 1 ? "   ratio" : "");
    for (uint32_t i = 0; i < n; i++) {
        printf("%-16s", p[i].label);
        for (int k = 0; k < nscene; k++) {
            printf("  %14.1f", 1e-6 * (double)p[i].time[k]);
            if (step)
                printf("  %5.1f %%  %8.1f %%", 100 * p[i].exposed[k], 100 * p[i].efficiency[k]);
            printf("  %-20s", p[i].algorithm[k]);
        }
        if (nscene > 1)
            printf("  %6.3f", (double)p[i].time[1] / (double)p[i].time[0]);
        putchar('\n');
    }
}

static void report(const char *what, const struct scene *scenes, const struct plait_shape *shape, const struct point *p,
                   uint32_t n, int nscene, bool step, bool json)
{
    if (json) {
        print_json(what, scenes, shape, p, n, nscene, step);
        return;
    }
    printf("%s\n%s, %" PRIu32 " ranks\n\n", scenes[0].machine.name, plait_coll_name(shape->coll), shape->nrank);
    print_points(what, p, n, nscene, step);
    if (step)
        printf("\nexposed: the share of the step in which communication is not hidden by the computation.\n"
               "efficiency: the computation's time by the step's.\n");
}

/* ---- Steps ---------------------------------------------------------------------------------------------- */

static bool predict_step(struct plait_forecast *f, const struct model *m, const struct layout *l, int k,
                         struct point *p)
{
    struct plait_training t = {
        .tensors = m->tensors, .ready = m->ready, .ntensor = m->n, .compute = m->compute, .payload = m->payload
    };
    struct plait_training_bucket *buckets = calloc(m->n, sizeof *buckets);
    struct plait_step_time s;

    layout_make(l, m->count, m->n, sizeof(float), m->cuts, &t.layout);
    const bool ok = buckets != NULL && plait_forecast_step(f, &t, buckets, &s) == PLAIT_OK;
    if (ok) {
        p->time[k] = s.time;
        p->exposed[k] = (double)s.exposed / (double)s.time;
        p->efficiency[k] = (double)m->compute / (double)s.time;
        p->nbucket = s.nbucket;
        uint32_t largest = 0;
        for (uint32_t b = 0; b < s.nbucket; b++)
            largest = buckets[b].bytes > buckets[largest].bytes ? b : largest;
        snprintf(p->algorithm[k], sizeof p->algorithm[k], "%s", buckets[largest].algorithm);
    } else {
        complain("%s", plait_last_error());
    }
    free(buckets);
    return ok;
}

static uint32_t read_layouts(const char *text, struct layout *out, struct point *points)
{
    char *copy = strdup(text != NULL ? text : USUAL), *rest = NULL;
    uint32_t n = 0;

    for (char *l = copy != NULL ? strtok_r(copy, ",", &rest) : NULL; l != NULL; l = strtok_r(NULL, ",", &rest), n++) {
        if (n == MOST_LAYOUTS)
            option_misuse("--layouts %s: more than %d layouts", text, MOST_LAYOUTS);
        out[n] = (struct layout){ RULE_THRESHOLD, 0 };
        if (strcmp(l, "per-tensor") != 0 && !layout_parse(l, &out[n]))
            option_misuse("--layouts %s: '%s' must be per-tensor, threshold:SIZE, threshold:all, segments, cubic, ddp "
                          "or horovod",
                          text, l);
        snprintf(points[n].label, sizeof points[n].label, "%s", l);
    }
    free(copy);
    return n;
}

static int by_time(const void *a, const void *b)
{
    const struct point *x = a, *y = b;

    return (x->time[0] > y->time[0]) - (x->time[0] < y->time[0]);
}

int step_layouts(const struct scene *scenes, int nscene, const struct plait_shape *shape, const char *spec,
                 const struct simulate_options *o)
{
    struct point points[MOST_LAYOUTS] = { 0 };
    struct layout layouts[MOST_LAYOUTS];
    const uint32_t n = read_layouts(o->layouts, layouts, points);
    struct model m;
    bool ok = load(o, &m);

    if (!ok)
        return 2;
    for (int k = 0; ok && k < nscene; k++) {
        struct plait_forecast *f = scene_forecast(&scenes[k], shape, spec);
        ok = f != NULL;
        for (uint32_t i = 0; ok && i < n; i++)
            ok = predict_step(f, &m, &layouts[i], k, &points[i]);
        plait_forecast_destroy(f);
    }
    qsort(points, n, sizeof *points, by_time);
    if (ok && !o->json)
        printf("%s: %" PRIu64 " elements in %" PRIu32 " tensors; a rank computes %.3f ms for %" PRIu32 " samples\n",
               o->step, m.elements, m.n, 1e-9 * (double)m.compute, o->batch);
    if (ok)
        report("layout", scenes, shape, points, n, nscene, true, o->json);
    finish(&m);
    return !ok;
}

/* ---- Ranks and sizes ------------------------------------------------------------------------------------ */

/* "A-B" by powers of `factor`, or numbers with commas between. */
static uint32_t read_numbers(const char *flag, const char *text, uint64_t most, uint64_t factor, struct point *points)
{
    char *copy = strdup(text), *rest = NULL, *dash = copy != NULL ? strchr(copy, '-') : NULL;
    size_t from, to;
    uint32_t n = 0;

    if (dash != NULL) {
        *dash = '\0';
        if (!value_bytes(flag, copy, &from) || !value_bytes(flag, dash + 1, &to))
            exit(2);
        for (; from > 0 && from <= to && n < MOST_POINTS; from *= factor)
            points[n++].x = from;
    } else {
        for (char *c = copy != NULL ? strtok_r(copy, ",", &rest) : NULL; c != NULL; c = strtok_r(NULL, ",", &rest)) {
            if (n == MOST_POINTS || !value_bytes(flag, c, &from))
                exit(2);
            points[n++].x = from;
        }
    }
    free(copy);
    for (uint32_t i = 0; i < n; i++) {
        if (points[i].x == 0 || points[i].x > most)
            n = 0;
        snprintf(points[i].label, sizeof points[i].label, "%" PRIu64, points[i].x);
    }
    if (n == 0)
        option_misuse("%s %s: must be numbers from 1 to %" PRIu64 ", such as 8,16 or 8-64", flag, text, most);
    return n;
}

static bool predict_operation(struct plait_forecast *f, size_t count, int k, struct point *p)
{
    struct plait_prediction prediction;
    const char *algorithm;

    if (plait_forecast_fastest(f, PLAIT_FLOAT32, count, &algorithm, &prediction) != PLAIT_OK)
        return complain("%s", plait_last_error());
    p->time[k] = prediction.time;
    snprintf(p->algorithm[k], sizeof p->algorithm[k], "%s", algorithm);
    return true;
}

int step_scale(const struct scene *scenes, int nscene, const struct plait_shape *shape, const char *spec, size_t count,
               const struct simulate_options *o)
{
    struct point points[MOST_POINTS] = { 0 }, layout_name_of[MOST_LAYOUTS];
    struct layout layouts[MOST_LAYOUTS];
    const uint32_t n = read_numbers("--scale", o->scale, shape->nrank, 2, points);
    const uint32_t nlayout =
        o->step != NULL ? read_layouts(o->layouts != NULL ? o->layouts : "threshold:16M", layouts, layout_name_of) : 1;
    struct model m = { 0 };

    if (nlayout != 1)
        option_misuse("--layouts %s: with --scale one layout is needed", o->layouts);
    if (o->step != NULL && !load(o, &m))
        return 2;
    bool ok = true;
    for (int k = 0; k < nscene; k++)
        for (uint32_t i = 0; ok && i < n; i++) {
            struct plait_shape s = *shape;
            s.nrank = (uint32_t)points[i].x;
            struct plait_forecast *f = scene_forecast(&scenes[k], &s, spec);
            ok = f != NULL && (o->step != NULL ? predict_step(f, &m, &layouts[0], k, &points[i])
                                               : predict_operation(f, count, k, &points[i]));
            plait_forecast_destroy(f);
        }
    if (ok)
        report("ranks", scenes, shape, points, n, nscene, o->step != NULL, o->json);
    finish(&m);
    return !ok;
}

/* Where the winner at `from` stops being the fastest: elements, by bisection to 3 %. */
static bool crossings(struct plait_forecast *f, const struct point *a, const struct point *b)
{
    size_t from = a->x / sizeof(float), to = b->x / sizeof(float);
    struct point p = *a;

    if (strcmp(a->algorithm[0], b->algorithm[0]) == 0)
        return true;
    while (to - from > 1 + from / 32) {
        const size_t middle = from + (to - from) / 2;
        if (!predict_operation(f, middle, 0, &p))
            return false;
        if (strcmp(p.algorithm[0], a->algorithm[0]) == 0)
            from = middle;
        else
            to = middle;
    }
    if (!predict_operation(f, to, 0, &p))
        return false;
    printf("from about %zu bytes on: %s instead of %s\n", to * sizeof(float), p.algorithm[0], a->algorithm[0]);
    return true;
}

int step_sweep(const struct scene *scenes, int nscene, const struct plait_shape *shape, const char *spec,
               const struct simulate_options *o)
{
    struct point points[MOST_POINTS] = { 0 };
    const uint32_t n = read_numbers("--sweep", o->sweep, (uint64_t)1 << 40, 4, points);
    struct plait_forecast *f[2] = { NULL, NULL };
    bool ok = true;

    for (int k = 0; ok && k < nscene; k++) {
        ok = (f[k] = scene_forecast(&scenes[k], shape, spec)) != NULL;
        for (uint32_t i = 0; ok && i < n; i++)
            ok = predict_operation(f[k], points[i].x / sizeof(float), k, &points[i]);
    }
    if (ok)
        report("bytes", scenes, shape, points, n, nscene, false, o->json);
    if (ok && !o->json)
        putchar('\n');
    for (uint32_t i = 0; ok && !o->json && i + 1 < n; i++)
        ok = crossings(f[0], &points[i], &points[i + 1]);
    plait_forecast_destroy(f[0]);
    plait_forecast_destroy(f[1]);
    return !ok;
}
