/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include "allocate.h"
#include "file.h"
#include "message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LANES 4096 /* of messages of a rank at the same time */

struct events {
    struct plait_sim_event *event;
    size_t n, room;
};

static void take(void *arg, const struct plait_sim_event *e)
{
    struct events *v = arg;

    if (v->n == v->room) {
        v->room = 2 * v->room + 1024;
        v->event = grow(v->event, v->room, sizeof *v->event);
    }
    v->event[v->n++] = *e;
}

static int by_rank_and_start(const void *a, const void *b)
{
    const struct plait_sim_event *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* Picoseconds as microseconds, with a point in every locale. */
static void write_time(FILE *f, const char *name, uint64_t ps)
{
    fprintf(f, "\"%s\":%" PRIu64 ".%06" PRIu64 ",", name, ps / 1000000, ps % 1000000);
}

/* A rank's name, or with it a row's. */
static void write_name(FILE *f, uint32_t rank, int row, const char *name)
{
    fprintf(f, "%s{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
            rank > 0 || row >= 0 ? ",\n" : "", rank, row >= 0 ? row : 0, row >= 0 ? "thread_name" : "process_name",
            name);
}

/* Up to the arguments. */
static void begin_event(FILE *f, uint32_t rank, uint32_t row, uint64_t start, uint64_t end)
{
    fprintf(f, ",\n{\"ph\":\"X\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",", rank, row);
    write_time(f, "ts", start);
    write_time(f, "dur", end - start);
}

static void write_event(FILE *f, const struct plait_sim_event *e, uint32_t thread)
{
    static const char *const names[PLAIT_SIM_NKIND] = { [PLAIT_SIM_SEND] = "send to",
                                                        [PLAIT_SIM_RECV] = "receive from",
                                                        [PLAIT_SIM_COPY] = "copy",
                                                        [PLAIT_SIM_REDUCE] = "reduce",
                                                        [PLAIT_SIM_TRANSFER] = "message to" };
    const bool peer = e->kind != PLAIT_SIM_COPY && e->kind != PLAIT_SIM_REDUCE;

    begin_event(f, e->rank, thread, e->start, e->end);
    fprintf(f, "\"name\":\"%s", names[e->kind]);
    if (peer)
        fprintf(f, " %" PRIu32, e->peer);
    fprintf(f, "\",\"args\":{\"step\":%" PRIu32 ",\"slice\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}", e->step, e->slice,
            e->bytes);
}

/* The first lane that is free; lane 0 is the processor. */
static uint32_t lane_of(const struct plait_sim_event *e, uint64_t *busy, uint32_t *nlane)
{
    uint32_t lane = 1;

    if (e->kind != PLAIT_SIM_TRANSFER)
        return 0;
    while (lane < *nlane && busy[lane] > e->start)
        lane++;
    lane = lane < MOST_LANES ? lane : MOST_LANES - 1;
    *nlane = lane >= *nlane ? lane + 1 : *nlane;
    busy[lane] = e->end;
    return lane;
}

static void write_all(FILE *f, const struct events *v, uint32_t nrank)
{
    uint64_t *busy = allocate(MOST_LANES, sizeof *busy);
    size_t i = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        uint32_t nlane = 1, named = 1;
        char name[24];
        snprintf(name, sizeof name, "rank %" PRIu32, r);
        write_name(f, r, -1, name);
        write_name(f, r, 0, "processor");
        for (; i < v->n && v->event[i].rank == r; i++) {
            const uint32_t lane = lane_of(&v->event[i], busy, &nlane);
            for (; named < nlane; named++)
                write_name(f, r, (int)named, "messages");
            write_event(f, &v->event[i], lane);
        }
        memset(busy, 0, nlane * sizeof *busy);
    }
    free(busy);
}

static FILE *begin(const char *path)
{
    FILE *f = fopen(path, "we");

    if (f == NULL)
        complain("--trace %s: %m; name another file", path);
    else
        fprintf(f, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    return f;
}

static bool end(FILE *f, const char *path)
{
    fprintf(f, "\n]}\n");
    return file_end(f, "--trace", path);
}

bool trace_write(const struct scene *s, const struct plait_shape *shape, const char *spec, size_t count,
                 const char *path)
{
    struct plait_forecast *forecast = scene_forecast(s, shape, spec, 0, NULL, 0);
    struct plait_prediction p;
    struct events v = { 0 };
    const char *name = spec;
    bool ok = forecast != NULL;

    if (ok && plait_forecast_fastest(forecast, PLAIT_FLOAT32, count, &name, &p) != PLAIT_OK)
        ok = complain("%s", plait_last_error());
    const struct plait_sim_options o = { .place = s->place, .event = take, .arg = &v };
    if (ok && plait_simulate(&s->machine, name, shape, PLAIT_FLOAT32, count, &o, &p) != PLAIT_OK)
        ok = complain("%s: %s", name, plait_last_error());
    plait_forecast_destroy(forecast);
    if (ok && v.n > 0)
        qsort(v.event, v.n, sizeof *v.event, by_rank_and_start);
    FILE *f = ok ? begin(path) : NULL;
    if (f != NULL)
        write_all(f, &v, shape->nrank);
    free(v.event);
    return f != NULL && end(f, path);
}

/* ---- Steps of training ---------------------------------------------------------------------------------- */

enum row { READY, TRANSFER, WAIT, COMPUTE, NROW };

static void write_ready(FILE *f, const struct model *m, uint32_t tensor, uint64_t time)
{
    const struct plait_tensor *t = &m->tensors[tensor];

    fprintf(f, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":0,\"tid\":%d,", READY);
    write_time(f, "ts", time);
    fprintf(f, "\"name\":\"gradient %" PRIu32 "\",\"args\":{\"tensor\":%" PRIu32 ",\"elements\":%zu,\"type\":\"%s\"}}",
            tensor, tensor, t->count, plait_dtype_name(t->type));
}

static void write_bucket(FILE *f, const struct plait_training_bucket *b, uint32_t number)
{
    begin_event(f, 0, TRANSFER, b->begin, b->end);
    fprintf(f,
            "\"name\":\"bucket %" PRIu32 "\",\"args\":{\"tensors\":%" PRIu32
            ",\"bytes\":%zu,\"type\":\"%s\",\"algorithm\":\"%s\"}}",
            number, b->ntensor, b->bytes, plait_dtype_name(b->type), b->algorithm);
}

bool trace_write_step(const char *path, const struct model *m, const struct plait_training_bucket *buckets,
                      const struct plait_step_time *step)
{
    static const char *const rows[NROW] = { "ready", "transfer", "wait", "compute" };
    const double slower = m->compute > 0 ? (double)step->compute / (double)m->compute : 1; /* than described */
    FILE *f = begin(path);
    uint64_t first = step->compute;

    if (f == NULL)
        return false;
    write_name(f, 0, -1, "a rank");
    for (int k = 0; k < NROW; k++)
        write_name(f, 0, k, rows[k]);
    for (uint32_t i = 0; i < m->n; i++) {
        const uint64_t time = slower == 1 ? m->ready[i] : (uint64_t)(slower * (double)m->ready[i]);
        first = time < first ? time : first;
        write_ready(f, m, i, time);
    }
    for (uint32_t k = 0; k < step->nbucket; k++)
        write_bucket(f, &buckets[k], k);
    begin_event(f, 0, COMPUTE, 0, first);
    fprintf(f, "\"name\":\"" MODEL_STEP "\"}");
    begin_event(f, 0, COMPUTE, first, step->compute);
    fprintf(f, "\"name\":\"until the last gradient\"}");
    begin_event(f, 0, WAIT, step->compute, step->time);
    fprintf(f, "\"name\":\"exposed\"}");
    return end(f, path);
}
