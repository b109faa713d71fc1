/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "elastic.h"

#include "stats.h"

#include <plait/comm.h>
#include <plait/elastic.h>
#include <plait/memory.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

struct work { /* of one rank */
    const struct options *o;
    struct elastic_figures *f;
    enum plait_elastic_mode mode;
    uint32_t rank;
    struct plait_comm *all, *comm, *workers;
    struct plait_elastic *elastic;
    float *weights, *room; /* room: result of the all-reduce */
};

/* Stands for the forward and backward pass. */
static void sleep_for(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

    while (seconds > 0 && clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}

/* Create the mode's communicator; NULL for a rank that it does not need. */
static enum plait_status meet(struct work *w)
{
    struct plait_comm_options c = PLAIT_COMM_OPTIONS_DEFAULT;

    c.nrank = w->f->nworker + w->f->nserver;
    c.rank = w->rank;
    c.id = &w->f->id;
    c.timeout = w->o->timeout / 2;
    return w->all == NULL ? plait_comm_create(&c, &w->comm)
                          : plait_comm_split(w->all, w->rank < c.nrank ? 0 : PLAIT_NO_COLOR, 0, "elastic", &w->comm);
}

static enum plait_status make(struct work *w)
{
    const struct options *o = w->o;
    struct plait_elastic_options e = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    const size_t count = o->bytes / sizeof(float);
    const bool serves = w->rank >= w->f->nworker;
    void *weights = NULL, *room = NULL;

    enum plait_status status = plait_comm_split(w->comm, serves ? PLAIT_NO_COLOR : 0, 0, "workers", &w->workers);
    if (status == PLAIT_OK && !serves)
        status = plait_mem_alloc(count * sizeof(float), &weights);
    if (status == PLAIT_OK && w->mode == PLAIT_ELASTIC_SYNC2)
        status = plait_mem_alloc(count * sizeof(float), &room);
    w->weights = weights;
    w->room = room;
    for (size_t i = 0; status == PLAIT_OK && !serves && i < count; i++)
        w->weights[i] = 1 + 0.001F * (float)(i % 97 + w->rank);
    e.mode = w->mode;
    e.weights = w->weights;
    e.count = count;
    e.payload = o->payload[0];
    e.nserver = w->f->nserver;
    e.reproducible = o->reproducible && w->mode >= PLAIT_ELASTIC_SYNC1;
    e.algorithm = w->mode >= PLAIT_ELASTIC_SYNC2 ? o->algorithm : NULL;
    return status == PLAIT_OK ? plait_elastic_create(w->comm, &e, &w->elastic) : status;
}

/* Modes that can overlap the exchange with the computation do so. */
static enum plait_status one_round(struct work *w)
{
    const bool overlaps =
        w->mode != PLAIT_ELASTIC_ORIGINAL && w->mode != PLAIT_ELASTIC_SYNC1 && w->mode != PLAIT_ELASTIC_SYNC2;
    enum plait_status status = overlaps ? plait_elastic_start(w->elastic) : PLAIT_OK;

    if (status == PLAIT_OK)
        sleep_for(w->o->compute);
    if (status != PLAIT_OK)
        return status;
    return overlaps ? plait_elastic_finish(w->elastic) : plait_elastic_exchange(w->elastic);
}

/* Rounds of a turn: -n, or as many as fit into --cell-time; the same on all workers. */
static uint32_t rounds_of_turn(const struct options *o, double round)
{
    const double n = round > 0 ? o->cell_seconds / round : 1;
    return o->iterations > 0 ? (uint32_t)o->iterations : n < 2 ? 2 : n > 1000 ? 1000 : (uint32_t)n;
}

static enum plait_status run_turn(struct work *w, uint32_t n, double *seconds)
{
    enum plait_status status = plait_barrier(w->workers, NULL);
    const double start = plait_clock();

    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++) {
        status = one_round(w);
        atomic_fetch_add(&w->f->done, 1);
    }
    if (status == PLAIT_OK)
        status = plait_barrier(w->workers, NULL);
    *seconds = (plait_clock() - start) / n;
    return status;
}

static enum plait_status measure_allreduce(struct work *w)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const size_t count = w->o->bytes / sizeof(float);
    enum plait_status status = PLAIT_OK;
    double times[ELASTIC_MAX_TURNS];

    call.algorithm = w->o->algorithm;
    call.reproducible = w->o->reproducible;
    for (uint32_t t = 0; t <= w->o->rounds && status == PLAIT_OK; t++) { /* the first is not counted */
        status = plait_barrier(w->workers, NULL);
        const double start = plait_clock();
        if (status == PLAIT_OK)
            status = plait_allreduce(w->workers, w->weights, w->room, count, PLAIT_FLOAT32, PLAIT_SUM, &call);
        if (status == PLAIT_OK)
            status = plait_barrier(w->workers, NULL);
        times[t > 0 ? t - 1 : 0] = plait_clock() - start;
    }
    if (w->rank == 0)
        w->f->allreduce = median_of(times, w->o->rounds);
    return status;
}

static enum plait_status train(struct work *w)
{
    struct plait_elastic_counts before, after;
    double seconds = 0;
    enum plait_status status = run_turn(w, 1, &seconds); /* warm-up */

    if (status == PLAIT_OK)
        status = run_turn(w, 2, &seconds);
    if (status == PLAIT_OK)
        status = plait_broadcast(w->workers, &seconds, &seconds, 1, PLAIT_FLOAT64, 0, NULL);
    plait_elastic_counts(w->elastic, &before);
    const uint32_t n = rounds_of_turn(w->o, seconds);
    for (uint32_t t = 0; t < w->o->rounds && status == PLAIT_OK; t++) {
        status = run_turn(w, n, &seconds);
        if (w->rank == 0)
            w->f->turn[t] = seconds;
    }
    plait_elastic_counts(w->elastic, &after);
    const uint64_t made = after.exchanges - before.exchanges;
    w->f->behind[w->rank] = made > 0 ? (double)(after.behind - before.behind) / (double)made : 0;
    w->f->behind_max[w->rank] = after.behind_max;
    return status == PLAIT_OK && w->room != NULL ? measure_allreduce(w) : status;
}

static enum plait_status serve(struct work *w)
{
    struct plait_elastic_counts counts;
    const enum plait_status status = plait_elastic_serve(w->elastic);

    plait_elastic_counts(w->elastic, &counts);
    w->f->slots[w->rank] = counts.slots;
    w->f->lost[w->rank] = counts.forces - counts.movement;
    return status;
}

int elastic_rank(const struct options *o, enum plait_elastic_mode mode, uint32_t rank, struct plait_comm *all,
                 struct elastic_figures *f)
{
    struct work w = { .o = o, .f = f, .mode = mode, .rank = rank, .all = all };
    enum plait_status status = meet(&w);

    if (status == PLAIT_OK && w.comm != NULL)
        status = make(&w);
    if (status == PLAIT_OK && w.comm != NULL)
        status = rank < f->nworker ? train(&w) : serve(&w);
    if (status != PLAIT_OK)
        snprintf(f->error[rank], sizeof f->error[rank], "%s", plait_last_error());
    plait_elastic_destroy(w.elastic);
    plait_mem_free(w.weights);
    plait_mem_free(w.room);
    plait_comm_destroy(w.workers);
    plait_comm_destroy(w.comm);
    return status == PLAIT_OK ? 0 : 1;
}
