/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: the candidates of a collective and size, measured in turns. */
#include "tune.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "stats.h"

#include <plait/comm.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Candidates are the model's choice and others, in all so many, that are predicted to take at most so many times what
 * the best one takes. Over hosts there are more, as the model has built-in speeds of networks.
 */
#define MANY        4
#define CLOSE       1.6
#define MANY_HOSTS  6
#define CLOSE_HOSTS 3.0
#define FAR         3.0  /* one that takes so many times what the fastest takes is not measured further */
#define DECISIVE    0.03 /* of the time; smaller differences decide nothing */
#define ROUND       8e-3 /* seconds of a candidate in a round */
#define MOST        15   /* rounds */
#define LEAST       3
#define MOST_RUNS   2000 /* operations in a round */
#define FIRST_RUNS  50   /* in the first: one operation says little about the time of others */
#define DOUBT       1.82 /* times the distance of the quartiles over the root of n: half a median's 95 % interval */
#define PATIENCE    3    /* a cell may take so many times its share */

/* Rank 0 tells this to the others. */
struct order {
    double seconds; /* for this cell; 0: it is not measured */
    uint32_t n;
    char algorithm[TUNE_MOST][PLAIT_MAX_SPEC];
};

/*
 * All-reduces work in place, as those of training do: their input has just been written. An input that never changes
 * stays in the caches of all ranks, so one-shot would be up to three times faster than it is for gradients.
 */
static enum plait_status run(const struct tune *t, enum plait_coll coll, size_t n, const char *algorithm)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *c = t->comm;

    call.algorithm = algorithm;
    switch (coll) {
    case PLAIT_ALLREDUCE:
        return plait_allreduce(c, t->in, t->in, n, PLAIT_FLOAT32, PLAIT_SUM, &call);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(c, t->in, t->out, n, PLAIT_FLOAT32, PLAIT_SUM, &call);
    case PLAIT_ALLGATHER:
        return plait_allgather(c, t->in, t->out, n, PLAIT_FLOAT32, &call);
    case PLAIT_BROADCAST:
        return plait_broadcast(c, t->in, t->out, n, PLAIT_FLOAT32, 0, &call);
    case PLAIT_REDUCE:
        return plait_reduce(c, t->in, t->out, n, PLAIT_FLOAT32, PLAIT_SUM, 0, &call);
    case PLAIT_GATHER:
        return plait_gather(c, t->in, t->out, n, PLAIT_FLOAT32, 0, &call);
    case PLAIT_SCATTER:
        return plait_scatter(c, t->in, t->out, n, PLAIT_FLOAT32, 0, &call);
    case PLAIT_ALLTOALL:
        return plait_alltoall(c, t->in, t->out, n, PLAIT_FLOAT32, &call);
    default:
        return plait_barrier(c, NULL);
    }
}

/* Bytes of the largest buffer. */
static size_t needed(const struct tune *t, enum plait_coll coll, size_t bytes)
{
    return plait_geometry_of(coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR ? bytes : bytes * t->nrank;
}

/* ---- Rank 0's order ---------------------------------------------------------------------------- */

/* Has an algorithm the same plan as another one, on every rank? Two ranks' binomial tree is the direct plan. */
static bool are_equal(const struct tune *t, enum plait_coll coll, const char *a, const char *b)
{
    const struct plait_comm *c = t->comm;
    const struct plait_shape shape = {
        .coll = coll, .nrank = t->nrank, .node = c->node, .nlevel = c->nlevel, .level = c->level
    };
    const char *const names[] = { a, b };
    bool equal = true;

    for (uint32_t r = 0; r < t->nrank && equal; r++) {
        struct plait_plan *plan[2] = { NULL, NULL };
        for (int k = 0; k < 2; k++) {
            struct plait_shape s = shape;
            const struct plait_alg *alg;
            if (plait_alg_find(c->algorithms, names[k], &s, &alg) == PLAIT_OK)
                (void)plait_plan_emit(alg, &s, r, &plan[k]);
        }
        equal = plan[0] != NULL && plan[1] != NULL && plan[0]->bytes == plan[1]->bytes &&
                memcmp(plan[0], plan[1], plan[0]->bytes) == 0;
        plait_plan_destroy(plan[0]);
        plait_plan_destroy(plan[1]);
    }
    return equal;
}

static void add_candidate(const struct tune *t, enum plait_coll coll, const char *name, struct order *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (are_equal(t, coll, o->algorithm[i], name))
            return;
    snprintf(o->algorithm[o->n++], sizeof o->algorithm[0], "%s", name);
}

/* All that apply to these ranks. */
static void add_all(const struct tune *t, enum plait_coll coll, struct order *o)
{
    const struct plait_comm *c = t->comm;

    for (const struct plait_alg *const *a = c->algorithms; *a != NULL && o->n < TUNE_MOST; a++) {
        struct plait_shape s = { .coll = coll,
                                 .nrank = t->nrank,
                                 .inplace = coll == PLAIT_ALLREDUCE,
                                 .node = c->node,
                                 .nlevel = c->nlevel,
                                 .level = c->level };
        const struct plait_alg *alg;
        if ((*a)->coll == coll && plait_alg_find(c->algorithms, (*a)->name, &s, &alg) == PLAIT_OK)
            add_candidate(t, coll, (*a)->name, o);
    }
}

static void add_close(const struct tune *t, enum plait_coll coll, const struct plait_choice *choice, struct order *o)
{
    const uint32_t most = t->nhost > 1 ? MANY_HOSTS : MANY;
    const double close = t->nhost > 1 ? CLOSE_HOSTS : CLOSE;
    const struct plait_candidate *c = choice->candidate;

    for (uint32_t i = 1; i < choice->ncandidate && o->n < most; i++)
        if (c[i].predicted <= close * fmin(c[0].predicted, c[1].predicted))
            add_candidate(t, coll, c[i].algorithm, o);
}

/* The library's choice first; none on the eager path. A *guess of 0 becomes the predicted time. */
static enum plait_status find_candidates(const struct tune *t, enum plait_coll coll, size_t bytes,
                                         enum tune_which which, double *guess, struct order *o)
{
    struct plait_choice choice;
    const enum plait_status status = plait_comm_choose(t->comm, &(struct plait_shape){ .coll = coll },
                                                       bytes / sizeof(float), PLAIT_FLOAT32, PLAIT_SUM, NULL, &choice);

    if (status != PLAIT_OK || strcmp(choice.path, "eager") == 0)
        return status;
    snprintf(o->algorithm[o->n++], sizeof o->algorithm[0], "%s", choice.algorithm);
    if (which == TUNE_ALL)
        add_all(t, coll, o);
    else
        add_close(t, coll, &choice, o);
    if (*guess <= 0 && choice.ncandidate > 0)
        *guess = choice.candidate[0].predicted;
    return status;
}

/* Is there time for this cell? If it is short, there may be for the first candidates, at least `least` of them. */
static void allow(const struct tune *t, double share, double guess, uint32_t least, struct order *o)
{
    const double left = t->until - plait_clock(), most = fmin(PATIENCE * share * left, left);

    o->seconds = fmax(share * left, 0);
    while (o->n > least && guess * o->n * (2 + LEAST) > most)
        o->n--;
    if (o->n == 0 || guess * o->n * (2 + LEAST) > most)
        o->seconds = 0;
}

/* ---- Measuring --------------------------------------------------------------------------------- */

/* Seconds of each of n operations, back to back, on this rank. */
static enum plait_status time_runs(const struct tune *t, enum plait_coll coll, size_t count, const char *algorithm,
                                   uint32_t n, double *out)
{
    enum plait_status status = plait_barrier(t->comm, NULL);
    const double begin = plait_clock();

    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        status = run(t, coll, count, algorithm);
    *out = (plait_clock() - begin) / n;
    return status;
}

/* Drop those that are far slower than the fastest, but not the first. */
static void keep_close(struct order *o, double *once)
{
    double least = once[0];
    uint32_t n = 1;

    for (uint32_t c = 1; c < o->n; c++)
        least = fmin(least, once[c]);
    for (uint32_t c = 1; c < o->n; c++) {
        if (once[c] > FAR * least)
            continue;
        memmove(o->algorithm[n], o->algorithm[c], sizeof o->algorithm[0]);
        once[n++] = once[c];
    }
    o->n = n;
}

/*
 * A candidate is better than the first one if it is faster by more than DECISIVE in the median of the rounds, and
 * faster at all in three quarters of them.
 */
static void decide(const struct order *o, uint32_t rounds, double (*seconds)[TUNE_MOST], struct tune_cell *out)
{
    double faster[MOST], x[MOST], best = 1 / (1 - DECISIVE), second = INFINITY;
    struct stats stats;

    out->n = o->n;
    memcpy(out->algorithm, o->algorithm, sizeof out->algorithm);
    for (uint32_t c = 0; c < o->n; c++) {
        for (uint32_t r = 0; r < rounds; r++) {
            x[r] = seconds[r][c];
            faster[r] = seconds[r][0] / seconds[r][c];
        }
        out->seconds[c] = median_of(x, rounds);
        stats = stats_of(faster, rounds);
        out->faster[c] = stats.median;
        out->doubt[c] = DOUBT * 2 * (stats.median - stats.quartile) / sqrt(rounds) / stats.median;
        if (c > 0 && rounds >= LEAST && stats.median > best && stats.quartile > 1) {
            best = stats.median;
            out->best = c;
        }
    }
    out->next = out->best;
    for (uint32_t c = 0; c < o->n; c++)
        if (c != out->best && out->seconds[c] < second) {
            second = out->seconds[c];
            out->next = c;
        }
}

/* Make plans and buffers, then see how long each candidate takes. */
static enum plait_status try_once(const struct tune *t, enum plait_coll coll, size_t count, struct order *o,
                                  double *once)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t c = 0; c < o->n && status == PLAIT_OK; c++) {
        status = time_runs(t, coll, count, o->algorithm[c], 1, &once[c]);
        if (status == PLAIT_OK)
            status = time_runs(t, coll, count, o->algorithm[c], 1, &once[c]);
    }
    if (status == PLAIT_OK)
        status = tune_agree(t, once, o->n);
    if (status == PLAIT_OK)
        keep_close(o, once);
    return status;
}

/* One round; seconds: [TUNE_MOST], in: what an operation takes so far, out: in this round, the slowest rank's. */
static enum plait_status take_round(const struct tune *t, enum plait_coll coll, size_t count, const struct order *o,
                                    uint32_t round, double *seconds)
{
    const double slot = fmin(ROUND, o->seconds / LEAST / (o->n + 1));
    enum plait_status status = PLAIT_OK;

    for (uint32_t k = 0; k < o->n && status == PLAIT_OK; k++) {
        const uint32_t c = (round + k) % o->n, most = round == 0 ? FIRST_RUNS : MOST_RUNS;
        const uint32_t n = (uint32_t)fmin(fmax(slot / fmax(seconds[c], 1e-8), 1), most);
        status = time_runs(t, coll, count, o->algorithm[c], n, &seconds[c]);
    }
    return status == PLAIT_OK ? tune_agree(t, seconds, o->n) : status;
}

/* Rounds until the time of the cell is over, on rank 0's clock. */
static enum plait_status measure(const struct tune *t, enum plait_coll coll, size_t bytes, struct order *o,
                                 struct tune_cell *out)
{
    const size_t count = bytes / sizeof(float);
    const double begin = plait_clock();
    double now[TUNE_MOST], seconds[MOST][TUNE_MOST], used = 0;
    uint32_t rounds = 0;
    enum plait_status status = try_once(t, coll, count, o, now);

    while (status == PLAIT_OK && rounds < MOST && used < (rounds < LEAST ? PATIENCE : 1) * o->seconds) {
        status = take_round(t, coll, count, o, rounds, now);
        memcpy(seconds[rounds++], now, sizeof now);
        used = t->rank == 0 ? plait_clock() - begin : 0;
        if (status == PLAIT_OK)
            status = tune_agree(t, &used, 1);
    }
    if (status != PLAIT_OK || rounds == 0)
        return status;
    out->bytes = bytes;
    decide(o, rounds, seconds, out);
    return PLAIT_OK;
}

enum plait_status tune_cell(struct tune *t, enum plait_coll coll, size_t bytes, const char *const *names, double share,
                            double guess, enum tune_which which, struct tune_cell *out)
{
    struct order o = { 0 };
    enum plait_status status = PLAIT_OK;

    *out = (struct tune_cell){ 0 };
    if (needed(t, coll, bytes) > t->room)
        return PLAIT_OK;
    for (; names != NULL && names[o.n] != NULL; o.n++)
        snprintf(o.algorithm[o.n], sizeof o.algorithm[0], "%s", names[o.n]);
    if (t->rank == 0 && names == NULL)
        status = find_candidates(t, coll, bytes, which, &guess, &o);
    if (t->rank == 0 && status == PLAIT_OK)
        allow(t, share, guess, which == TUNE_ALL ? o.n : 2, &o);
    if (status == PLAIT_OK)
        status = plait_broadcast(t->comm, &o, &o, sizeof o, PLAIT_UINT8, 0, NULL);
    return status == PLAIT_OK && o.seconds > 0 ? measure(t, coll, bytes, &o, out) : status;
}
