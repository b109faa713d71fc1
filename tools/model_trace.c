/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of a trace count two kinds of events: a rank's computation until its first gradient, which begins with the step, and
 * an instant for each gradient that is ready. Buckets say in which type gradients travel.
 */
#include "model.h"

#include "../files/json_line.h"
#include "allocate.h"
#include "message.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS 16384
#define MOST_TIME    8.64e10 /* microseconds: a day */
#define REMEDY       "write a trace with plait-train --trace or plait-perf fusion --timeline"

struct moment { /* a step's start, or a gradient that is ready */
    uint32_t rank, tensor;
    size_t step;  /* of the rank */
    int64_t time; /* ps; of a gradient in the end since the step's start */
};

struct reader {
    const char *file, *text;
    size_t bytes;
    struct moment *starts, *marks;
    size_t nstart, nmark;
    bool travels[PLAIT_NDTYPE]; /* types of buckets */
    struct model *model;
};

/* ---- Events ------------------------------------------------------------------------------------------ */

static bool wrong(const struct reader *r, size_t event, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool wrong(const struct reader *r, size_t event, const char *format, ...)
{
    const struct json_step steps[] = { { "traceEvents", 0 }, { NULL, event } };
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return complain("%s, line %u: event %zu %s; " REMEDY, r->file, json_line(r->text, r->bytes, steps, 2), event, text);
}

static bool read_number(const struct reader *r, size_t event, const json_t *object, const char *key, double least,
                        double most, double *out)
{
    const json_t *v = json_object_get(object, key);

    *out = json_number_value(v);
    return (json_is_number(v) && *out >= least && *out <= most) ||
           wrong(r, event, "has no \"%s\" from %.0f to %.0f", key, least, most);
}

static bool read_moment(const struct reader *r, size_t event, const json_t *e, struct moment *out)
{
    double rank, time;

    if (!read_number(r, event, e, "pid", 0, UINT32_MAX, &rank) || !read_number(r, event, e, "ts", 0, MOST_TIME, &time))
        return false;
    *out = (struct moment){ .rank = (uint32_t)rank, .time = llround(1e6 * time) };
    return true;
}

static bool read_mark(struct reader *r, size_t event, const json_t *e)
{
    const json_t *about = json_object_get(e, "args");
    const char *name = json_string_value(json_object_get(about, "type"));
    const int type = name != NULL ? plait_dtype_find(name) : -1;
    struct moment *m = &r->marks[r->nmark++];
    double tensor, count;

    if (!read_moment(r, event, e, m) || !read_number(r, event, about, "tensor", 0, MOST_TENSORS - 1, &tensor) ||
        !read_number(r, event, about, "elements", 1, INT32_MAX, &count))
        return false;
    if (type < 0)
        return wrong(r, event, "has no \"type\" of elements, such as float32");
    m->tensor = (uint32_t)tensor;
    struct plait_tensor *t = &r->model->tensors[m->tensor];
    if (t->count != 0 && (t->count != (size_t)count || t->type != (enum plait_dtype)type))
        return wrong(r, event, "says that tensor %" PRIu32 " has %.0f %s; it had %zu %s", m->tensor, count, name,
                     t->count, plait_dtype_name(t->type));
    *t = (struct plait_tensor){ "gradient", (size_t)count, (enum plait_dtype)type, NULL };
    r->model->n = m->tensor >= r->model->n ? m->tensor + 1 : r->model->n;
    return true;
}

static bool read_event(struct reader *r, size_t event, const json_t *e)
{
    const char *phase = json_string_value(json_object_get(e, "ph")),
               *name = json_string_value(json_object_get(e, "name"));

    if (phase != NULL && strcmp(phase, "i") == 0)
        return read_mark(r, event, e);
    if (phase != NULL && name != NULL && strcmp(phase, "X") == 0 && strcmp(name, MODEL_STEP) == 0)
        return read_moment(r, event, e, &r->starts[r->nstart++]);
    const char *of = json_string_value(json_object_get(json_object_get(e, "args"), "type"));
    const int type = of != NULL ? plait_dtype_find(of) : -1;
    if (type >= 0)
        r->travels[type] = true;
    return true;
}

/* Of a fusion all float32 gradients have one payload type. */
static enum plait_dtype find_payload(const struct reader *r)
{
    return r->travels[PLAIT_FLOAT32]    ? PLAIT_NDTYPE
           : r->travels[PLAIT_BFLOAT16] ? PLAIT_BFLOAT16
           : r->travels[PLAIT_FLOAT16]  ? PLAIT_FLOAT16
                                        : PLAIT_NDTYPE;
}

/* ---- Steps ------------------------------------------------------------------------------------------- */

static int by_rank_and_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : (x->time > y->time) - (x->time < y->time);
}

/* The latest of a step first. */
static int by_tensor_and_step(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->step != y->step ? (x->step > y->step) - (x->step < y->step) : (x->time < y->time) - (x->time > y->time);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Find each mark's step. Returns the number of ranks; 0 after a message. */
static size_t find_steps(struct reader *r)
{
    size_t nrank = 0, s = 0;

    qsort(r->starts, r->nstart, sizeof *r->starts, by_rank_and_time);
    qsort(r->marks, r->nmark, sizeof *r->marks, by_rank_and_time);
    for (size_t i = 0; i < r->nstart; i++) {
        const bool same = i > 0 && r->starts[i].rank == r->starts[i - 1].rank;
        r->starts[i].step = same ? r->starts[i - 1].step + 1 : 0;
        nrank += !same;
    }
    for (size_t i = 0; i < r->nmark; i++) {
        struct moment *m = &r->marks[i];
        while (s + 1 < r->nstart && by_rank_and_time(&r->starts[s + 1], m) <= 0)
            s++;
        if (r->nstart == 0 || r->starts[s].rank != m->rank || r->starts[s].time > m->time) {
            complain("%s: rank %" PRIu32 " has no event \"" MODEL_STEP "\" before its first gradient; " REMEDY, r->file,
                     m->rank);
            return 0;
        }
        m->step = r->starts[s].step;
        m->time -= r->starts[s].time;
    }
    qsort(r->marks, r->nmark, sizeof *r->marks, by_tensor_and_step);
    return nrank;
}

/* The median over the steps in which all ranks have the gradient. It has marks [*at, ...). Returns their number. */
static size_t find_time(const struct reader *r, uint32_t tensor, size_t nrank, size_t *at, uint64_t *times)
{
    size_t n = 0;

    for (size_t end; *at < r->nmark && r->marks[*at].tensor == tensor; *at = end) {
        for (end = *at + 1;
             end < r->nmark && r->marks[end].tensor == tensor && r->marks[end].step == r->marks[*at].step;)
            end++;
        if (end - *at == nrank)
            times[n++] = (uint64_t)r->marks[*at].time;
    }
    qsort(times, n, sizeof *times, ascending);
    return n;
}

static bool find_times(struct reader *r, struct model *m)
{
    const size_t nrank = find_steps(r);
    uint64_t *times = allocate(r->nmark, sizeof *times);
    size_t at = 0, steps = SIZE_MAX;

    m->ready = allocate(m->n, sizeof *m->ready);
    for (uint32_t t = 0; nrank > 0 && t < m->n && steps > 0; t++) {
        const size_t n = find_time(r, t, nrank, &at, times);
        steps = n < steps ? n : steps;
        m->ready[t] = n > 0 ? times[(n - 1) / 2] : 0;
        if (n == 0)
            complain("%s: there is no step in which all %zu ranks have tensor %" PRIu32 "; " REMEDY, r->file, nrank, t);
    }
    free(times);
    if (nrank > 0)
        snprintf(m->about, sizeof m->about, "in the median of %zu step%s of %zu rank%s", steps, plural(steps), nrank,
                 plural(nrank));
    return nrank > 0 && steps > 0;
}

/* ---- The trace --------------------------------------------------------------------------------------- */

bool model_of_trace(const char *name, const char *text, size_t bytes, struct model *out)
{
    json_error_t error;
    json_t *root = json_loadb(text, bytes, 0, &error), *events = json_object_get(root, "traceEvents");
    const size_t n = json_array_size(events);
    struct model m = { .tensors = allocate(MOST_TENSORS, sizeof *m.tensors) };
    struct reader r = { .file = name, .text = text, .bytes = bytes, .model = &m };
    bool ok = true;

    r.starts = allocate(n, sizeof *r.starts);
    r.marks = allocate(n, sizeof *r.marks);
    if (root == NULL)
        ok = complain("%s, line %d: %s", name, error.line > 0 ? error.line : 1, error.text);
    for (size_t i = 0; ok && i < n; i++)
        ok = read_event(&r, i, json_array_get(events, i));
    if (ok && r.nmark == 0)
        ok = complain("%s: it has no gradients that are ready; " REMEDY, name);
    json_decref(root);
    m.payload = find_payload(&r);
    ok = ok && find_times(&r, &m);
    free(r.starts);
    free(r.marks);
    if (ok)
        *out = m;
    else
        model_finish(&m);
    return ok;
}
