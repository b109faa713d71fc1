/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include "message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LANES 4096 /* of messages of a rank at the same time */

struct events {
    struct plait_sim_event *event;
    size_t n, room;
    bool failed;
};

static void take(void *arg, const struct plait_sim_event *e)
{
    struct events *v = arg;

    if (v->n == v->room && !v->failed) {
        const size_t room = v->room > 0 ? 2 * v->room : 1024;
        struct plait_sim_event *grown = realloc(v->event, room * sizeof *grown);
        v->failed = grown == NULL;
        v->event = grown != NULL ? grown : v->event;
        v->room = grown != NULL ? room : v->room;
    }
    if (!v->failed)
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

static void write_name(FILE *f, uint32_t rank, uint32_t thread)
{
    if (thread == 0)
        fprintf(f,
                "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"args\":{\"name\":\"rank %" PRIu32
                "\"}}",
                rank > 0 ? ",\n" : "", rank, rank);
    fprintf(f,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
            ",\"args\":{\"name\":\"%s\"}}",
            rank, thread, thread == 0 ? "processor" : "messages");
}

static void write_event(FILE *f, const struct plait_sim_event *e, uint32_t thread)
{
    static const char *const names[PLAIT_SIM_NKIND] = { [PLAIT_SIM_SEND] = "send to",
                                                        [PLAIT_SIM_RECV] = "receive from",
                                                        [PLAIT_SIM_COPY] = "copy",
                                                        [PLAIT_SIM_REDUCE] = "reduce",
                                                        [PLAIT_SIM_TRANSFER] = "message to" };
    const bool peer = e->kind != PLAIT_SIM_COPY && e->kind != PLAIT_SIM_REDUCE;

    fprintf(f, ",\n{\"ph\":\"X\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",", e->rank, thread);
    write_time(f, "ts", e->start);
    write_time(f, "dur", e->end - e->start);
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

static bool write_all(FILE *f, const struct events *v, uint32_t nrank)
{
    uint64_t *busy = calloc(MOST_LANES, sizeof *busy);
    size_t i = 0;

    fprintf(f, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (uint32_t r = 0; r < nrank && busy != NULL; r++) {
        uint32_t nlane = 1, named = 1;
        write_name(f, r, 0);
        for (; i < v->n && v->event[i].rank == r; i++) {
            const uint32_t lane = lane_of(&v->event[i], busy, &nlane);
            for (; named < nlane; named++)
                write_name(f, r, named);
            write_event(f, &v->event[i], lane);
        }
        memset(busy, 0, nlane * sizeof *busy);
    }
    fprintf(f, "\n]}\n");
    free(busy);
    return busy != NULL;
}

int trace_write(const struct scene *s, const struct plait_shape *shape, const char *spec, size_t count,
                const char *path)
{
    struct plait_forecast *f = scene_forecast(s, shape, spec);
    struct plait_prediction p;
    struct events v = { 0 };
    const char *name = spec;
    bool ok = f != NULL;

    if (ok && plait_forecast_fastest(f, PLAIT_FLOAT32, count, &name, &p) != PLAIT_OK)
        ok = complain("%s", plait_last_error());
    const struct plait_sim_options o = { .place = s->place, .event = take, .arg = &v };
    if (ok && plait_simulate(&s->machine, name, shape, PLAIT_FLOAT32, count, &o, &p) != PLAIT_OK)
        ok = complain("%s: %s", name, plait_last_error());
    if (ok && v.failed)
        ok = complain("--trace %s: out of memory", path);
    if (ok && v.n > 0)
        qsort(v.event, v.n, sizeof *v.event, by_rank_and_start);
    FILE *file = ok ? fopen(path, "we") : NULL;
    if (ok && file == NULL)
        ok = complain("--trace %s: %m; name another file", path);
    if (ok)
        ok = write_all(file, &v, shape->nrank);
    const bool bad = file != NULL && ferror(file) != 0;
    if (file != NULL && (fclose(file) != 0 || bad))
        ok = complain("--trace %s: %m", path);
    plait_forecast_destroy(f);
    free(v.event);
    return !ok;
}
