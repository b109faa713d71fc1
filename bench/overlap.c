/* SPDX-License-Identifier: BSD-3-Clause */
#include "overlap.h"

#include "allocate.h"

#include <math.h>
#include <stdio.h>

double overlap_percent(double blocking, double compute, double total)
{
    if (blocking <= 0)
        return 0;
    return 100 * fmin(fmax(1 - (total - compute) / blocking, 0), 1);
}

const char *overlap_driver(enum work_kind kind)
{
    static const char *const names[NWORK] = {
        [WORK_UNDRIVEN] = "nobody",
        [WORK_TESTS] = "tests",
        [WORK_THREAD] = "thread",
    };
    return names[kind];
}

/* ---- measuring --------------------------------------------------------------------------------- */

/* Seconds of an iteration for each kind of work that the backend supports. */
struct rounds {
    bool able[NWORK];
    double seconds[NWORK][MAX_ROUNDS];
};

static bool median_time(struct task *t, uint32_t backend, enum work_kind kind, double *out)
{
    struct series times = { 0 };

    t->work.kind = kind;
    const bool ok = measure_times(t, backend, &times);
    if (ok)
        *out = median_of(times.x, times.n);
    series_finish(&times);
    return ok;
}

/* Find the time of the blocking operation, which becomes the computation's, and the iterations of a round. */
static bool calibrate(struct task *t, uint32_t backend)
{
    const struct options *o = t->bench->options;
    double once, blocking;

    t->work.kind = WORK_BLOCKING;
    if (!measure_warm_up(t, backend, &once))
        return false;
    t->iterations[backend] = measure_iterations(o, once);
    if (!median_time(t, backend, WORK_BLOCKING, &blocking))
        return false;
    t->work.seconds = fmin(once, blocking); /* other work may have held up one of them */
    t->iterations[backend] = 1;             /* a short sleep takes much longer than asked */
    if (!median_time(t, backend, WORK_COMPUTE, &once))
        return false;
    t->iterations[backend] = measure_iterations(o, t->work.seconds + once);
    return true;
}

static bool all_rounds(struct task *t, uint32_t backend, struct rounds *out)
{
    for (uint32_t round = 0; round < t->bench->options->rounds; round++)
        for (int kind = 0; kind < NWORK; kind++)
            if (out->able[kind] && !median_time(t, backend, (enum work_kind)kind, &out->seconds[kind][round]))
                return false;
    return true;
}

static void add_row(const struct task *t, uint32_t backend, enum work_kind kind, const struct rounds *from)
{
    const uint64_t n = t->bench->options->rounds;
    struct cell *c = t->cell;
    double percent[MAX_ROUNDS];

    for (uint64_t i = 0; i < n; i++)
        percent[i] =
            overlap_percent(from->seconds[WORK_BLOCKING][i], from->seconds[WORK_COMPUTE][i], from->seconds[kind][i]);
    c->overlap = grow(c->overlap, c->noverlap + 1, sizeof *c->overlap);
    c->overlap[c->noverlap++] = (struct overlap){
        .place = t->place,
        .backend = backend,
        .computation = (enum computation)t->work.computation,
        .kind = kind,
        .blocking = median_of(from->seconds[WORK_BLOCKING], n),
        .compute = median_of(from->seconds[WORK_COMPUTE], n),
        .total = median_of(from->seconds[kind], n),
        .percent = median_of(percent, n),
    };
}

/* One computation; the backend can do the operation. */
static bool measure_rows(struct task *t, uint32_t backend)
{
    struct rounds r = { .able = { [WORK_BLOCKING] = true, [WORK_COMPUTE] = true } };

    t->work.seconds = 0;
    for (int kind = WORK_UNDRIVEN; kind < NWORK; kind++) {
        t->work.kind = (uint32_t)kind;
        if (!measure_check(t, backend, &r.able[kind]))
            return false;
    }
    if (!calibrate(t, backend) || !all_rounds(t, backend, &r))
        return false;
    for (int kind = WORK_UNDRIVEN; kind < NWORK; kind++)
        if (r.able[kind])
            add_row(t, backend, (enum work_kind)kind, &r);
    return true;
}

static bool measure_backend(struct task *t, uint32_t backend)
{
    const struct options *o = t->bench->options;
    bool able;

    t->work = (struct work){ .ntest = (uint32_t)o->overlap_tests };
    if (!measure_check(t, backend, &able))
        return false;
    for (int i = 0; able && i < NCOMPUTATION; i++) {
        t->work.computation = (uint32_t)i;
        if (o->computation[i] && !measure_rows(t, backend))
            return false;
    }
    return true;
}

bool overlap_measure(struct bench *b, struct cell *c)
{
    for (int place = 0; place < NPLACE; place++) {
        struct task t = { .bench = b, .cell = c, .place = (enum place)place };
        if (!measure_wants(b, t.place))
            continue;
        for (uint32_t k = 0; k < b->nbackend; k++)
            if (!measure_backend(&t, k))
                return false;
        b->wrong += c->half[place].outcome[0].wrong;
    }
    return true;
}

/* ---- reporting --------------------------------------------------------------------------------- */

void overlap_report_head(const struct bench *b)
{
    printf("# %-20s : part of the blocking time that a computation of the same length hides\n", "overlap");
    printf("# %-20s : nobody; %llu tests in the computation; the library's progress thread\n", "driven by",
           (unsigned long long)b->options->overlap_tests);
    printf("#\n# %10s  %12s  %8s  %6s  %6s  %5s  %14s  %9s  %9s  %10s  %10s  %10s  %7s\n", "size", "count", "type",
           "redop", "root", "place", "backend", "computing", "driven by", "blocking", "compute", "total", "overlap");
    printf("# %10s  %12s  %8s  %6s  %6s  %5s  %14s  %9s  %9s  %10s  %10s  %10s  %7s\n", "(B)", "(elements)", "", "", "",
           "", "", "", "", "(us)", "(us)", "(us)", "(%)");
}

void overlap_report_cell(const struct bench *b, const struct cell *c)
{
    for (size_t i = 0; i < c->noverlap; i++) {
        const struct overlap *o = &c->overlap[i];
        printf("%12llu  %12llu  %8s  %6s  %6d  %5s  %14s  %9s  %9s  %10.2f  %10.2f  %10.2f  %7.1f\n",
               (unsigned long long)c->bytes, (unsigned long long)c->count, dtype_label(c->type), op_label(c->op),
               (int)c->root, place_name(o->place), b->ranks[o->backend].name, computation_name(o->computation),
               overlap_driver(o->kind), 1e6 * o->blocking, 1e6 * o->compute, 1e6 * o->total, o->percent);
    }
    fflush(stdout);
}
