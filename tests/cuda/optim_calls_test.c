/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the driver (in the short tier every ninth) fails once, one after the other, on one of two ranks that train:
 * a fusion and an optimiser are made, sharded or not, make two steps and are left. That rank gets an error that names the
 * call, or none if the library can do without; it aborts, and the other one gets an error soon; no stream hangs; nothing of
 * the device's is left; and the same ranks train in a new comm. As calls_test.c does with collectives.
 */
#include "../child.h"
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "base/clock.h"
#include "device.h"
#include "device_run.h"

#include <plait/fusion.h>
#include <plait/memory.h>
#include <plait/optim.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define NRANK 2
#define LATE  60.0 /* seconds: far above a loaded machine's delays, below the deadline */
#define FAULT 999  /* CUDA_ERROR_UNKNOWN */

enum { NTENSOR = 3, MOST = 300, NSTEP = 2, AREA = NTENSOR * MOST * sizeof(float), ROOM = AREA + 64 };
static const size_t counts[NTENSOR] = { 5, MOST, 64 };

static unsigned every(void)
{
    return full() ? 1 : RANKS_ON_HOSTS ? 97 : 31;
}

struct scene { /* shared by the test and its ranks */
    bool sharded;
    uint32_t nthread, victim;

    /* Of the round. */
    pthread_barrier_t all;
    struct plait_unique_id id;
    char call[48]; /* that failed, or "" */
    enum plait_status status[NRANK];
    char text[NRANK][512];
    double seconds[NRANK];

    unsigned fired, survived;
    struct standin_left reference[NRANK];
};

/* ---- Training ---------------------------------------------------------------------------------------------------- */

struct trainer {
    struct device_rank
        d; /* gradients lie in buckets; masters in d.out, the loss scale behind them, weights of ranks that are not sharded in d.in */
    struct plait_fusion *fusion;
    struct plait_optim *optim;
    float weights[NTENSOR][MOST]; /* that are right in the end */
};

static float gradient(uint32_t t, size_t i)
{
    return (float)((t + 3 * i) % 7) - 3;
}

static struct plait_optim_options options_of_optim(void)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;

    o.method = PLAIT_OPTIM_SGD;
    o.ntensor = NTENSOR;
    return o;
}

static struct plait_optim_step step_of(double factor)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.1;
    s.factor = factor;
    return s;
}

/* On the host, from weights that are 0. */
static bool train_on_host(struct trainer *x)
{
    struct plait_optim_options o = options_of_optim();
    const struct plait_optim_step s = step_of(NRANK);
    struct plait_optim_part parts[NTENSOR];
    static _Thread_local float gradients[NTENSOR][MOST];
    struct plait_optim *optim;
    bool right = true;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        parts[t] = (struct plait_optim_part){
            t, counts[t], gradients[t], PLAIT_FLOAT32, x->weights[t], NULL, PLAIT_FLOAT32, 0
        };
        for (size_t i = 0; i < counts[t]; i++)
            gradients[t][i] = gradient(t, i);
    }
    o.parts = parts;
    o.npart = NTENSOR;
    if (plait_optim_create(&o, &optim) != PLAIT_OK)
        return false;
    for (unsigned k = 0; k < NSTEP; k++)
        right = plait_optim_step(optim, &s, NULL) == PLAIT_OK && right;
    plait_optim_destroy(optim);
    return right;
}

static enum plait_status make(struct trainer *x, struct plait_comm *comm, bool sharded)
{
    static const char *const names[NTENSOR] = { "a", "b", "c" };
    struct plait_fusion_options f = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_optim_options o = options_of_optim();
    struct plait_tensor tensors[NTENSOR];
    struct plait_optim_part parts[NTENSOR];
    struct plait_piece piece;

    for (uint32_t t = 0; t < NTENSOR; t++)
        tensors[t] = (struct plait_tensor){ names[t], counts[t], PLAIT_FLOAT32, NULL };
    f.tensors = tensors;
    f.ntensor = NTENSOR;
    f.layout.threshold = 1000;
    f.sharded = sharded;
    f.progress = 0; /* this thread makes the calls */
    f.weights = sharded ? PLAIT_FLOAT32 : PLAIT_NDTYPE;
    f.stream = o.stream = x->d.stream;
    enum plait_status status = plait_fusion_create(comm, &f, &x->fusion);
    if (status != PLAIT_OK)
        return status;
    o.npart = plait_fusion_npiece(x->fusion);
    o.parts = parts;
    o.comm = sharded ? comm : NULL;
    o.scale = (void *)(x->d.out + AREA);
    for (uint32_t k = 0; k < o.npart; k++) {
        plait_fusion_piece(x->fusion, k, &piece);
        const size_t at = (piece.tensor * MOST + piece.start) * sizeof(float);
        parts[k] = (struct plait_optim_part){ piece.tensor,
                                              piece.count,
                                              piece.gradient,
                                              PLAIT_FLOAT32,
                                              (float *)(void *)(x->d.out + at),
                                              sharded ? piece.weight : x->d.in + at,
                                              PLAIT_FLOAT32,
                                              0 };
    }
    return plait_optim_create(&o, &x->optim);
}

/* The first step is waited for by nobody. */
static enum plait_status make_steps(struct trainer *x, bool sharded)
{
    const struct plait_optim_step s = step_of(1);
    struct plait_optim_result result;
    enum plait_status status = PLAIT_OK;

    for (unsigned k = 0; k < NSTEP && status == PLAIT_OK; k++) {
        for (uint32_t t = 0; t < NTENSOR && status == PLAIT_OK; t++) {
            const float *from = (float *)(void *)x->d.host + t * MOST;
            const size_t bytes = counts[t] * sizeof *from;
            void *to = plait_fusion_data(x->fusion, t);
            if (!device_write(&x->d, to, from, bytes) && !device_write(&x->d, to, from, bytes)) /* it may fail once */
                abort();
            status = plait_fusion_ready(x->fusion, t);
        }
        if (status == PLAIT_OK)
            status = plait_fusion_wait_all(x->fusion, NULL);
        if (status == PLAIT_OK)
            status = plait_optim_step(x->optim, &s, k > 0 ? &result : NULL);
        if (status == PLAIT_OK && sharded)
            status = plait_fusion_gather(x->fusion);
    }
    return status;
}

/* Are the weights right? */
static bool are_right(struct trainer *x, bool sharded)
{
    float got[MOST];
    bool right = true;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        const void *at = sharded ? plait_fusion_weights(x->fusion, t) : x->d.in + t * MOST * sizeof(float);
        const size_t bytes = counts[t] * sizeof *got;
        if (!device_read(&x->d, got, at, bytes) && !device_read(&x->d, got, at, bytes)) /* it may fail once */
            abort();
        right = right && memcmp(got, x->weights[t], bytes) == 0;
    }
    return right;
}

/* What a program does that has had an error: it lets the others know, and leaves. text: [512] of the error. */
static enum plait_status train(struct trainer *x, struct plait_comm *comm, bool sharded, unsigned nth, char *text)
{
    x->fusion = NULL;
    x->optim = NULL;
    ask.standin_arm(nth, FAULT);
    enum plait_status status = make(x, comm, sharded);
    if (status == PLAIT_OK)
        status = make_steps(x, sharded);
    const bool wrong = status == PLAIT_OK && !are_right(x, sharded);
    if (status == PLAIT_OK) /* it may have failed with all on the stream, whose data is lost then */
        status = plait_fusion_wait_all(x->fusion, NULL);
    snprintf(text, 512, "%s", status != PLAIT_OK ? plait_last_error() : "");
    if (status == PLAIT_OK && wrong) {
        fprintf(stderr, "rank %u: weights are wrong\n", plait_comm_rank(comm));
        _exit(1);
    }
    if (status != PLAIT_OK) {
        plait_comm_abort(comm, text);
        if (x->fusion != NULL)
            plait_comm_abort(plait_fusion_comm(x->fusion), text);
    }
    plait_optim_destroy(x->optim);
    const enum plait_status left = plait_fusion_destroy(x->fusion);
    if (status == PLAIT_OK && left != PLAIT_OK)
        snprintf(text, 512, "%s", plait_last_error());
    return status == PLAIT_OK ? left : status;
}

/* ---- A round ----------------------------------------------------------------------------------------------------- */

static int new_comm(struct scene *s, uint32_t rank, struct plait_comm **comm)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;

    pthread_barrier_wait(&s->all);
    if (rank == 0 && plait_unique_id_create(&s->id) != PLAIT_OK)
        abort();
    pthread_barrier_wait(&s->all);
    o.nrank = NRANK;
    o.rank = rank;
    o.id = &s->id;
    o.timeout = o.deadline = 2 * LATE;
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    return 0;
}

/* Gradients on the host, weights that are 0 on the device. */
static int reset(struct trainer *x, uint32_t rank)
{
    static const float zeros[NTENSOR * MOST];
    static const struct plait_loss_scale scale = PLAIT_LOSS_SCALE_STATIC(1);

    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            ((float *)(void *)x->d.host)[t * MOST + i] = gradient(t, i);
    CHECK(device_write(&x->d, x->d.out, zeros, sizeof zeros) &&
          device_write(&x->d, x->d.out + AREA, &scale, sizeof scale) && device.stream_synchronize(x->d.cuda) == 0);
    return 0;
}

static int run_phase(struct scene *s, struct trainer *x, uint32_t rank, unsigned nth)
{
    const char *failed = NULL;
    struct plait_comm *comm;

    if (new_comm(s, rank, &comm) != 0 || reset(x, rank) != 0)
        return 1;
    pthread_barrier_wait(&s->all);
    const double start = plait_clock();
    s->status[rank] = train(x, comm, s->sharded, rank == s->victim ? nth : 0, s->text[rank]);
    ask.standin_disarm(&failed);
    CHECK(device.stream_synchronize(x->d.cuda) == 0);
    s->seconds[rank] = plait_clock() - start;
    if (rank == s->victim)
        snprintf(s->call, sizeof s->call, "%s", failed != NULL ? failed : "");
    pthread_barrier_wait(&s->all);
    device_leave(comm);
    pthread_barrier_wait(&s->all);
    return 0;
}

static int judge(const struct scene *s, uint32_t rank)
{
    CHECK(s->seconds[rank] < LATE);
    if (s->status[s->victim] == PLAIT_OK) {
        CHECK(s->status[rank] == PLAIT_OK);
        return 0;
    }
    CHECK(s->call[0] != '\0' && strstr(s->text[s->victim], "CUDA_ERROR_UNKNOWN") != NULL);
    return 0;
}

/* Equal to what the process has after the first round, in which nothing failed. */
static int compare_left(struct scene *s, uint32_t rank, bool first)
{
    struct standin_left *r = &s->reference[rank], is;

    if (rank % s->nthread == 0) {
        ask.standin_left(&is);
        if (first)
            *r = is;
        if (memcmp(&is, r, sizeof is) != 0)
            fprintf(stderr, "memory %u, %u before; pinned %u, %u; imported %u, %u; streams %u, %u; events %u, %u\n",
                    is.memory, r->memory, is.pinned, r->pinned, is.imported, r->imported, is.streams, r->streams,
                    is.events, r->events);
        CHECK(device_kept || memcmp(&is, r, sizeof is) == 0);
    }
    pthread_barrier_wait(&s->all);
    return 0;
}

/* With the call failing, if there is one; then once more in a new comm. */
static int round_of(struct scene *s, struct trainer *x, uint32_t rank, unsigned nth, bool first)
{
    if (run_phase(s, x, rank, nth) != 0 || judge(s, rank) != 0) {
        fprintf(stderr, "rank %u, call %u of rank %u (%s) failed: rank says %s '%s', it says '%s'\n", rank, nth,
                s->victim, s->call, plait_status_name(s->status[rank]), s->text[rank], s->text[s->victim]);
        return 1;
    }
    if (rank == s->victim && s->call[0] != '\0') {
        s->fired++;
        s->survived += s->status[rank] == PLAIT_OK;
    }
    const bool over = s->call[0] == '\0';
    pthread_barrier_wait(&s->all);
    if (nth > 0 && !over && run_phase(s, x, rank, 0) != 0)
        return 1;
    CHECK(nth == 0 || over || s->status[rank] == PLAIT_OK);
    if (compare_left(s, rank, first) != 0) {
        fprintf(stderr, "after call %u of rank %u\n", nth, s->victim);
        return 1;
    }
    return over ? -1 : 0; /* none failed */
}

/* ---- A job -------------------------------------------------------------------------------------------------------- */

/* What fails lets streams of the failed comm pass too early: no access is a race then. */
static int run_rank(struct plait_comm **comm, uint32_t rank, void *scene)
{
    struct scene *s = scene;
    const unsigned step = every();
    struct trainer x = { .fusion = NULL };
    int how;

    if (!device_begin(&x.d, ROOM) || !train_on_host(&x))
        _exit(1); /* with the threads that wait for it */
    if (round_of(s, &x, rank, 0, true) > 0 || round_of(s, &x, rank, 0, false) > 0)
        _exit(1);
    ask.standin_careless(1);
    for (unsigned nth = 1 + 2 * s->victim % step; (how = round_of(s, &x, rank, nth, false)) == 0; nth += step)
        ;
    if (how > 0)
        _exit(1);
    pthread_barrier_wait(&s->all);
    return 0;
}

static void run_job(bool sharded, uint32_t nthread, uint32_t victim)
{
    struct scene *s = shared_memory(sizeof *s);
    const struct ranks r = { .nprocess = NRANK / nthread,
                             .nthread = nthread,
                             .limit = 600,
                             .body = run_rank,
                             .arg = s,
                             .processes = true,
                             .no_comm = true,
                             .tied = true };

    *s = (struct scene){ .sharded = sharded, .nthread = nthread, .victim = victim };
    shared_barrier_init(&s->all, NRANK);
    const double start = plait_clock();
    const unsigned failed = device_ranks_run(&r), fired = s->fired;
    printf("%s %s, rank %u: %u calls failed, in %u the library did without (%.1f s)\n", sharded ? "sharded" : "whole  ",
           nthread > 1 ? "threads  " : "processes", victim, fired, s->survived, plait_clock() - start);
    munmap(s, sizeof *s);
    assert_int_equal(failed, 0);
    if (fired < 400 / every())
        fail_msg("only %u calls failed: the test looks at the wrong calls", fired);
}

static void ranks_that_train(void **state)
{
    for (unsigned i = 0; i < 4; i += full() ? 1 : 3) {
        run_job(true, i & 1 ? NRANK : 1, i >> 1);
        if (full() || i == 0)
            run_job(false, i & 1 ? 1 : NRANK, i >> 1);
    }
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_train),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_CONFIG", "/dev/null", 1);
    setenv("PLAIT_LOG_FILE", "/dev/null", 0); /* hundreds of failures */
    return run_tests_of_this_place("calls of the driver in training", tests);
}
