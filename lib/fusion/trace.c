/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS 32768 /* of a rank */

struct event {
    double begin, end; /* plait_clock(), s */
    uint32_t kind;
    uint32_t number; /* of the tensor for PLAIT_TRACE_READY, else of the bucket */
};

struct plait_trace {
    _Atomic uint32_t n;  /* may exceed EVENTS */
    _Atomic double idle; /* end of the last wait, from which a step computes; 0: its first gradient is ready */
    struct event events[EVENTS];
    /* Buckets in flight and threads that wait now; the lock protects these and the times. */
    pthread_mutex_t lock;
    uint32_t in_flight, waiting;
    double changed; /* time when one of them changed */
    struct plait_fusion_times times;
};

struct plait_trace *plait_trace_create(void)
{
    struct plait_trace *t = calloc(1, sizeof *t);

    if (t != NULL) {
        pthread_mutex_init(&t->lock, NULL);
        plait_trace_waited(t);
    }
    return t;
}

void plait_trace_destroy(struct plait_trace *t)
{
    if (t != NULL)
        pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- Events ----------------------------------------------------------------------------------------------- */

double plait_trace_now(const struct plait_trace *t)
{
    return t != NULL ? plait_clock() : 0;
}

void plait_trace_add(struct plait_trace *t, enum plait_trace_kind kind, uint32_t number, double begin)
{
    if (t == NULL)
        return;
    const double end = plait_clock();
    const uint32_t i = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
    if (i == EVENTS)
        plait_log(PLAIT_LOG_WARN, "the trace is full (%d events per rank); plait_fusion_trace() writes and empties it",
                  EVENTS);
    if (i < EVENTS)
        t->events[i] = (struct event){ begin, end, kind, number };
}

void plait_trace_waited(struct plait_trace *t)
{
    if (t != NULL)
        t->idle = plait_clock();
}

void plait_trace_ready(struct plait_trace *t, uint32_t tensor)
{
    if (t == NULL)
        return;
    const double idle = atomic_exchange(&t->idle, 0);
    if (idle > 0)
        plait_trace_add(t, PLAIT_TRACE_COMPUTE, 0, idle);
    plait_trace_add(t, PLAIT_TRACE_READY, tensor, plait_clock());
}

void plait_trace_change(struct plait_trace *t, int in_flight, int waiting)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    const double now = plait_clock(), passed = now - t->changed;
    if (t->in_flight > 0)
        t->times.communicating += passed;
    if (t->in_flight > 0 && t->waiting == 0)
        t->times.hidden += passed;
    t->in_flight += (uint32_t)in_flight;
    t->waiting += (uint32_t)waiting;
    t->changed = now;
    pthread_mutex_unlock(&t->lock);
}

enum plait_status plait_fusion_times(struct plait_fusion *f, struct plait_fusion_times *out)
{
    if (f != NULL && plait_comm_inherited(f->comm))
        return plait_object_check(f->comm, "plait_fusion_times", f->name);
    if (f == NULL || out == NULL || f->trace == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_fusion_times: %s",
                          f == NULL     ? "fusion is NULL"
                          : out == NULL ? "out is NULL"
                                        : "the fusion keeps no times; create it with options.trace");
    pthread_mutex_lock(&f->trace->lock);
    *out = f->trace->times;
    f->trace->times = (struct plait_fusion_times){ 0 };
    pthread_mutex_unlock(&f->trace->lock);
    return PLAIT_OK;
}

/* ---- The file --------------------------------------------------------------------------------------------- */

static const char *const rows[PLAIT_NTRACE_KIND] = { "ready", "pack", "transfer", "unpack", "wait", "compute" };

/* Names may be any bytes; JSON must be UTF-8. */
static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text == '"' || *text == '\\' || *text > '~')
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    fputc('"', file);
}

static void write_rows(FILE *file, uint32_t rank)
{
    fprintf(file, "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}}",
            rank > 0 ? ",\n" : "", rank, rank);
    for (unsigned k = 0; k < PLAIT_NTRACE_KIND; k++)
        fprintf(file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s\"}}",
                rank, k, rows[k]);
}

/* Microseconds, with a point in every locale. */
static void write_time(FILE *file, const char *name, double seconds)
{
    const unsigned long long ns = (unsigned long long)(seconds * 1e9);

    fprintf(file, "\"%s\":%llu.%03llu,", name, ns / 1000, ns % 1000);
}

static void write_event(FILE *file, const struct plait_fusion *f, uint32_t rank, const struct event *e, double start)
{
    fprintf(file, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,", e->kind == PLAIT_TRACE_READY ? "i" : "X", rank, e->kind);
    write_time(file, "ts", e->begin - start);
    write_time(file, "dur", e->end - e->begin);
    fprintf(file, "\"name\":");
    if (e->kind == PLAIT_TRACE_COMPUTE) {
        fprintf(file, "\"until the first gradient\"}");
    } else if (e->kind == PLAIT_TRACE_READY) {
        const struct plait_tensor *x = &f->tensors[e->number];
        write_string(file, x->name);
        fprintf(file, ",\"s\":\"t\",\"args\":{\"bucket\":%u,\"tensor\":%u,\"elements\":%zu,\"type\":\"%s\"}}",
                f->flat.places[e->number].bucket, e->number, x->count, plait_dtype_name(x->type));
    } else {
        const struct plait_slab *s = &f->flat.buckets[e->number];
        fprintf(file, "\"bucket %u\",\"args\":{\"tensors\":%u,\"bytes\":%zu,\"type\":\"%s\",\"algorithm\":", e->number,
                s->ntensor, s->count * plait_dtype_size(s->type), plait_dtype_name(s->type));
        write_string(file, f->buckets[e->number].request->job.o->selection.spec);
        fprintf(file, "}}");
    }
}

/* events: of all ranks, one after the other; counts: bytes of each. */
static enum plait_status write_file(const struct plait_fusion *f, const char *path, const struct event *events,
                                    size_t nevent, const size_t *counts)
{
    FILE *file =
        path != NULL ? plait_descriptor_stream(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), "w") : NULL;
    double start = 0;

    if (file == NULL)
        return path == NULL ? plait_fail(PLAIT_ERR_ARG, "plait_fusion_trace: path is NULL")
                            : plait_fail_errno(errno, "cannot write the trace to '%s'", path);
    for (size_t i = 0; i < nevent; i++)
        start = i == 0 || events[i].begin < start ? events[i].begin : start;
    fprintf(file, "{\"traceEvents\":[\n");
    for (uint32_t r = 0; r < f->nrank; r++) {
        write_rows(file, r);
        for (size_t left = counts[r] / sizeof *events; left > 0; left--)
            write_event(file, f, r, events++, start);
    }
    fprintf(file, "\n]}\n");
    const bool bad = ferror(file) != 0;
    return fclose(file) != 0 || bad ? plait_fail_errno(errno, "cannot write the trace to '%s'", path) : PLAIT_OK;
}

/* Rank 0 gathers all events and writes the file; all ranks learn whether it could. */
static enum plait_status collect(struct plait_fusion *f, const char *path, size_t *counts, size_t *starts)
{
    struct plait_comm *comm = f->comm;
    const uint32_t n = f->trace->n < EVENTS ? f->trace->n : EVENTS;
    const size_t own = n * sizeof *f->trace->events;
    struct event *all = NULL;
    size_t total = 0;
    int32_t written = PLAIT_OK;
    enum plait_status status = plait_allgather(comm, &own, counts, sizeof own, PLAIT_UINT8, NULL);

    for (uint32_t r = 0; r < f->nrank; r++) {
        starts[r] = total;
        total += counts[r];
    }
    if (status == PLAIT_OK && f->rank == 0 && (all = malloc(total + 1)) == NULL)
        status = plait_object_fail(comm, plait_fail_memory("out of memory for a trace"));
    if (status == PLAIT_OK)
        status = plait_gatherv(comm, f->trace->events, own, all, counts, starts, PLAIT_UINT8, 0, NULL);
    if (status == PLAIT_OK && f->rank == 0)
        written = write_file(f, path, all, total / sizeof *all, counts);
    free(all);
    if (status == PLAIT_OK)
        status = plait_broadcast(comm, &written, &written, 1, PLAIT_INT32, 0, NULL);
    if (status == PLAIT_OK && written != PLAIT_OK && f->rank > 0)
        plait_fail((enum plait_status)written, "plait_fusion_trace: rank 0 could not write the file");
    f->trace->n = 0;
    plait_trace_waited(f->trace);
    return status == PLAIT_OK ? (enum plait_status)written : status;
}

enum plait_status plait_fusion_trace(struct plait_fusion *f, const char *path)
{
    enum plait_status status = plait_fusion_check_idle(f, "plait_fusion_trace");

    if (status == PLAIT_OK)
        status = plait_not_in_group(PLAIT_OK, "plait_fusion_trace");
    if (status == PLAIT_OK && f->trace == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_fusion_trace: %s keeps no trace; create it with options.trace",
                          f->name);
    if (status != PLAIT_OK)
        return status;
    size_t *counts = calloc(2 * (size_t)f->nrank, sizeof *counts);
    if (counts == NULL)
        status = plait_object_fail(f->comm, plait_fail_memory("out of memory for a trace"));
    else
        status = collect(f, path, counts, counts + f->nrank);
    free(counts);
    return status;
}
