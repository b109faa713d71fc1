/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"

#include "message.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_SECONDS     2e-3
#define WARM_TRIES       5
#define WARM_ENOUGH      5e-3 /* seconds of one operation, beyond which one try is enough */
#define LEAST_LARGE      4    /* per backend and round of a large cell */
#define LEAST_ITERATIONS 3    /* per backend and half, however long each takes */

static struct half *half_of(struct task *t)
{
    return &t->cell->half[t->place];
}

struct command measure_command(const struct task *t, uint32_t backend, enum verb verb, uint32_t iterations)
{
    const struct cell *c = t->cell;

    return (struct command){
        .verb = verb,
        .coll = t->bench->coll->coll,
        .dtype = c->type,
        .op = c->op,
        .root = c->root > 0 ? (uint32_t)c->root : 0,
        .inplace = t->place == IN_PLACE,
        .algorithm = c->half[t->place].outcome[backend].algorithm,
        .count = c->each,
        .min_count = c->min_count,
        .max_count = c->max_count,
        .iterations = iterations,
        .aggregate = verb == VERB_CHECK ? 1 : (uint32_t)t->bench->options->aggregate,
        .seed = 1,
        .work = t->work,
        .step = t->step,
    };
}

/* Combine the ranks' times as -a says. */
static double over_ranks(const struct bench *b, const double *x, uint32_t n)
{
    double sum = 0, least = x[0], most = x[0];

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i];
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    switch (b->options->average) {
    case 0:
        return x[0];
    case 1:
        return sum / n;
    case 2:
        return least;
    default:
        return most;
    }
}

static bool stream(struct task *t, uint32_t backend, uint32_t iterations, double *seconds, double *cpu)
{
    struct bench *b = t->bench;
    struct ranks *r = &b->ranks[backend];
    const struct command c = measure_command(t, backend, VERB_STREAM, iterations);
    struct reply reply[MAX_RANKS];
    double elapsed[MAX_RANKS] = { 0 }, used[MAX_RANKS] = { 0 };

    if (!ranks_command(r, &c, reply, b->options->timeout))
        return false;
    for (uint32_t i = 0; i < r->nrank; i++) {
        elapsed[i] = reply[i].seconds;
        used[i] = reply[i].cpu;
    }
    *seconds = over_ranks(b, elapsed, r->nrank);
    *cpu = over_ranks(b, used, r->nrank);
    return true;
}

bool measure_times(struct task *t, uint32_t backend, struct series *times)
{
    struct bench *b = t->bench;
    struct ranks *r = &b->ranks[backend];
    const struct command c = measure_command(t, backend, VERB_TIME, t->iterations[backend]);
    struct reply reply[MAX_RANKS];

    if (!ranks_command(r, &c, reply, b->options->timeout))
        return false;
    for (uint32_t i = 0; i < c.iterations; i++) {
        double slowest = 0;
        for (uint32_t rank = 0; rank < r->nrank; rank++)
            slowest = fmax(slowest, stage_times(r->stage, rank)[i]);
        series_add(times, slowest);
    }
    return true;
}

static bool time_each(struct task *t, uint32_t backend, uint32_t round)
{
    struct outcome *o = &half_of(t)->outcome[backend];
    const size_t before = o->times.n;

    if (!measure_times(t, backend, &o->times))
        return false;
    o->round[round] = midmean_of(o->times.x + before, o->times.n - before);
    return true;
}

struct verdict {
    enum answer answer;
    uint64_t wrong;
    char name[64]; /* of the algorithm */
};

/* Verify; also finds out whether the backend has the type, operator and algorithm at all. */
static bool check(struct task *t, uint32_t backend, uint32_t iterations, struct verdict *out)
{
    struct bench *b = t->bench;
    struct ranks *r = &b->ranks[backend];
    const struct command c = measure_command(t, backend, VERB_CHECK, iterations);
    struct reply reply[MAX_RANKS];

    if (!ranks_command(r, &c, reply, b->options->timeout))
        return false;
    *out = (struct verdict){ .answer = ANSWER_OK };
    for (uint32_t i = 0; i < r->nrank; i++) {
        out->wrong += reply[i].wrong;
        if (reply[i].answer > (uint32_t)out->answer)
            out->answer = (enum answer)reply[i].answer;
    }
    snprintf(out->name, sizeof out->name, "%.60s", reply[0].text);
    return true;
}

bool measure_check(struct task *t, uint32_t backend, bool *able)
{
    struct verdict v;

    if (!check(t, backend, (uint32_t)t->bench->options->check, &v))
        return false;
    *able = v.answer == ANSWER_OK;
    half_of(t)->outcome[backend].wrong += v.wrong;
    return true;
}

/*
 * Warm up, and find the seconds of one operation: the fastest of a few tries. A try that other work disturbed would
 * leave the cell with a handful of iterations, each begun with cold caches.
 */
bool measure_warm_up(struct task *t, uint32_t backend, double *out)
{
    const struct options *o = t->bench->options;
    const uint32_t tries = o->warmup == UINT64_MAX ? WARM_TRIES : 2;
    double seconds, took, cpu;

    if (!stream(t, backend, 1, &seconds, &cpu))
        return false;
    for (uint32_t i = 1; i < tries && (seconds < WARM_ENOUGH || i == 1); i++) {
        const double one = fmax(seconds * (double)o->aggregate, 1e-8);
        const uint64_t fitting = (uint64_t)fmin(fmax(WARM_SECONDS / one, 1), 10000);
        const uint64_t warmup = o->warmup != UINT64_MAX ? o->warmup : fitting;
        if (warmup > 0 && !stream(t, backend, (uint32_t)warmup, &took, &cpu))
            return false;
        if (warmup > 0)
            seconds = fmin(seconds, took);
    }
    *out = seconds;
    return true;
}

uint32_t measure_iterations(const struct options *o, double seconds)
{
    uint64_t wanted = o->iterations / o->rounds;

    if (o->iterations ==
        0) { /* half of the time goes to iterations that begin together, half to operations back to back */
        const double round = o->cell_seconds / (double)o->rounds / 2;
        wanted = (uint64_t)fmin(round / fmax(seconds * (double)o->aggregate, 1e-8), STAGE_ITERATIONS);
        if (wanted * o->rounds < LEAST_ITERATIONS)
            wanted = (LEAST_ITERATIONS + o->rounds - 1) / o->rounds;
    }
    return (uint32_t)fmin(fmax((double)wanted, 1), STAGE_ITERATIONS);
}

/* Choose the fastest of the backend's own choice, which takes `seconds`, and its correct algorithms. */
static bool choose_algorithm(struct task *t, uint32_t backend, double *seconds, struct verdict *verdict)
{
    struct outcome *o = &half_of(t)->outcome[backend];
    struct verdict v = { .answer = ANSWER_OK };
    uint32_t best = 0;
    double took;

    for (o->algorithm = 1; v.answer != ANSWER_NONE; o->algorithm++) {
        if (!check(t, backend, 1, &v))
            return false;
        if (v.answer != ANSWER_OK || v.wrong > 0)
            continue;
        if (!measure_warm_up(t, backend, &took))
            return false;
        if (took < *seconds) {
            *seconds = took;
            *verdict = v;
            best = o->algorithm;
        }
    }
    o->algorithm = best;
    return true;
}

static bool prepare(struct task *t, uint32_t backend)
{
    const struct options *options = t->bench->options;
    struct outcome *o = &half_of(t)->outcome[backend];
    struct verdict v;
    double seconds;

    o->algorithm = 0;
    if (!check(t, backend, (uint32_t)options->check, &v))
        return false;
    o->measured = v.answer == ANSWER_OK;
    if (o->measured && (!measure_warm_up(t, backend, &seconds) || !choose_algorithm(t, backend, &seconds, &v)))
        return false;
    if (o->measured)
        t->iterations[backend] = measure_iterations(options, seconds);
    o->wrong = v.wrong;
    memcpy(o->algorithm_name, v.name, sizeof o->algorithm_name);
    if (backend > 0 && o->wrong > 0)
        complain("%s: %llu wrong elements; do not compare its times", t->bench->ranks[backend].name,
                 (unsigned long long)o->wrong);
    return true;
}

static void show_progress(const struct task *t, uint32_t backend, uint32_t round)
{
    const struct bench *b = t->bench;
    const struct options *o = b->options;
    char start[64] = "";

    if (o->starts > 1)
        snprintf(start, sizeof start, "start %llu of %llu, ", (unsigned long long)b->starts.begun,
                 (unsigned long long)o->starts);
    report_progress("%s%s, cell %zu of %zu, round %u of %llu: %s", start, b->coll->title,
                    (size_t)(t->cell - b->cell) + 1, b->ncell, round + 1, (unsigned long long)o->rounds,
                    b->ranks[backend].name);
}

/*
 * In a large cell the first operations of a turn find their data in no cache. So as many as are timed run first,
 * untimed.
 */
static bool take_turn(struct task *t, uint32_t backend, uint32_t round)
{
    struct outcome *o = &half_of(t)->outcome[backend];
    const uint32_t n = t->iterations[backend];
    double seconds, cpu;

    show_progress(t, backend, round);
    return !o->measured || ((t->cell->bytes < LARGE_BUFFER || stream(t, backend, n, &seconds, &cpu)) &&
                            time_each(t, backend, round) && stream(t, backend, n, &o->stream[round], &o->cpu[round]));
}

/* In a large cell all backends get the same number of iterations, the most of any, so that none has colder caches. */
static void level_iterations(struct task *t)
{
    const struct options *o = t->bench->options;
    uint32_t most = o->iterations > 0 ? 0 : LEAST_LARGE;

    for (uint32_t k = 0; k < t->bench->nbackend; k++)
        if (half_of(t)->outcome[k].measured && t->iterations[k] > most)
            most = t->iterations[k];
    for (uint32_t k = 0; k < t->bench->nbackend; k++)
        t->iterations[k] = most;
}

static void compare(struct task *t)
{
    struct half *h = half_of(t);
    const uint64_t rounds = t->bench->options->rounds;
    double ratio[MAX_ROUNDS], least = INFINITY;

    h->best = 0;
    for (uint32_t k = 1; k < t->bench->nbackend; k++) {
        struct outcome *o = &h->outcome[k];
        if (!o->measured)
            continue;
        for (uint64_t i = 0; i < rounds; i++)
            ratio[i] = h->outcome[0].round[i] / o->round[i];
        const struct stats s = stats_of(ratio, rounds);
        o->ratio = s.median;
        o->ratio_low = s.min;
        o->ratio_high = s.max;
        const double midmean = midmean_of(o->times.x, o->times.n);
        if (midmean < least) {
            least = midmean;
            h->best = k;
        }
    }
}

/* All rounds once; guard_run() may repeat them. */
static bool all_rounds(void *context)
{
    struct task *t = context;
    const uint32_t n = t->bench->nbackend;

    for (uint32_t k = 0; k < n; k++)
        half_of(t)->outcome[k].times.n = 0;
    for (uint32_t round = 0; round < t->bench->options->rounds; round++)
        for (uint32_t k = 0; k < n; k++)
            if (!take_turn(t, (round + k) % n, round))
                return false;
    report_progress("%s", "");
    compare(t);
    return true;
}

bool measure_wants(const struct bench *b, enum place place)
{
    return b->options->place[place] && (place == OUT_OF_PLACE || collective_in_place(b->coll->coll));
}

static bool measure_half(struct bench *b, struct cell *c, enum place place)
{
    struct task t = { .bench = b, .cell = c, .place = place };
    struct half *h = half_of(&t);

    for (uint32_t k = 0; k < b->nbackend; k++)
        if (!prepare(&t, k))
            return false;
    if (c->bytes >= LARGE_BUFFER)
        level_iterations(&t);
    b->wrong += h->outcome[0].wrong;
    h->measured = true;
    return guard_run(&b->guard, c->bytes >= LARGE_BUFFER, all_rounds, &t, &h->guarded);
}

void time_of_day(char out[24])
{
    const time_t clock = time(NULL);
    struct tm local;

    strftime(out, 24, "%Y-%m-%d %H:%M:%S", localtime_r(&clock, &local));
}

bool measure_cell(struct bench *b, struct cell *c)
{
    time_of_day(c->when);
    for (int place = 0; place < NPLACE; place++)
        if (measure_wants(b, (enum place)place) && !measure_half(b, c, (enum place)place))
            return false;
    return true;
}

void cell_finish(struct cell *c)
{
    for (int place = 0; place < NPLACE; place++)
        for (uint32_t k = 0; k < MAX_BACKENDS; k++)
            series_finish(&c->half[place].outcome[k].times);
    free(c->overlap);
    free(c->row);
}

const struct half *measure_next(const struct bench *b, size_t *at, const struct cell **c, enum place *place)
{
    while (*at < b->ncell * NPLACE) {
        *c = &b->cell[*at / NPLACE];
        *place = (enum place)(*at % NPLACE);
        ++*at;
        if ((*c)->half[*place].measured)
            return &(*c)->half[*place];
    }
    return NULL;
}

double outcome_time(const struct bench *b, const struct outcome *o)
{
    return median_of(b->options->cputime ? o->cpu : o->stream, b->options->rounds);
}

struct stats outcome_stats(const struct bench *b, const struct outcome *o)
{
    const uint64_t skip = b->options->per_iter_skip;
    return o->times.n > skip ? stats_of(o->times.x + skip, o->times.n - skip) : stats_of(o->times.x, o->times.n);
}
