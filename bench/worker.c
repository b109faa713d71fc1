/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include "base/clock.h"
#include "buffers.h"
#include "operations.h"
#include "verify.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LATE 1000 /* microseconds by which one rank is late in a verified barrier */

static _Atomic uint64_t passes; /* of rank 0, so far; where there is a shared stage, that has them */

static bool fail(struct reply *r, const char *text)
{
    r->answer = ANSWER_FAILED;
    snprintf(r->text, sizeof r->text, "%s", text);
    return false;
}

/* *begin: the moment at which all begin, on this rank's clock. */
static bool meet_now(const struct worker *w, struct reply *r, double *begin)
{
    if (!training_before(&w->training) || (w->stage->apart && !w->backend->meet(w->self)))
        return fail(r, w->backend->error(w->self));
    *begin = w->stage->apart ? plait_clock() : stage_begin(w->stage);
    return true;
}

static bool meet(const struct worker *w, struct reply *r)
{
    double begin;
    return meet_now(w, r, &begin);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static bool compute_beside(struct worker *w, const struct work *k)
{
    const uint32_t ntest = k->kind == WORK_TESTS ? k->ntest : 0;

    return compute(&w->computer, (enum computation)k->computation, k->seconds, ntest, w->backend->test, w->self);
}

static bool one_operation(struct worker *w, const struct work *k, const struct operation *o)
{
    switch ((enum work_kind)k->kind) {
    case WORK_BLOCKING:
        return w->backend->run(w->self, o);
    case WORK_COMPUTE:
        return compute_beside(w, k);
    default:
        return w->backend->start(w->self, o) && compute_beside(w, k) && w->backend->wait(w->self);
    }
}

static bool one_pass(struct worker *w, const struct work *k, struct reply *r)
{
    if (w->rank == 0)
        atomic_fetch_add_explicit(w->stage->apart ? &passes : &w->stage->passes, 1, memory_order_relaxed);
    if (w->training.step.scheme != SCHEME_OFF)
        return training_step(&w->training, w->operation, w->noperation) || fail(r, w->backend->error(w->self));
    for (uint32_t i = 0; i < w->noperation; i++)
        if (!one_operation(w, k, &w->operation[i]))
            return fail(r, w->backend->error(w->self));
    return true;
}

/* Elements of the largest vector, over all of its blocks. */
static size_t most_elements(const struct worker *w)
{
    size_t most = 0;

    for (uint32_t i = 0; i < w->noperation; i++)
        most = w->operation[i].count > most ? w->operation[i].count : most;
    return w->geometry.kind == PLAIT_KIND_VECTOR ? most : most * w->stage->nrank;
}

static bool fill_inputs(const struct worker *w, const struct inputs *in)
{
    struct pattern p;

    if (!pattern_input(&p, in, w->rank, most_elements(w)) || !pattern_as(&p, in->type, w->type))
        return false;
    for (uint32_t i = 0; i < w->noperation; i++) {
        const struct operation *o = &w->operation[i];
        if (o->out != NULL)
            memset(o->out, 0xa5, worker_elements(w, o, &w->geometry.out) * p.width);
        if (o->in != NULL)
            pattern_fill(&p, o->in, worker_elements(w, o, &w->geometry.in));
    }
    pattern_finish(&p);
    return true;
}

static size_t wrong_in_slot(const struct worker *w, const struct operation *o, uint32_t slot, const struct pattern *p)
{
    const struct plait_side *out = &w->geometry.out;
    const size_t start = collective_elements(o->coll, w->stage->nrank, o->count, out, slot);
    const size_t end = collective_elements(o->coll, w->stage->nrank, o->count, out, slot + 1);

    return pattern_differing(p, (const unsigned char *)o->out + start * p->width, end - start);
}

/* Compare every output with the expected one, and every separate input with what it was. */
static bool count_wrong(const struct worker *w, const struct inputs *in, bool inplace, uint64_t *wrong)
{
    const size_t most = most_elements(w);
    const struct operation *o = w->operation, *end = o + w->noperation;
    struct pattern p;

    for (uint32_t slot = 0; slot < w->geometry.out.nslot; slot++) {
        if (!pattern_output(&p, in, w->rank, slot, most) || !pattern_as(&p, in->type, w->type))
            return false;
        for (o = w->operation; o < end; o++)
            *wrong += wrong_in_slot(w, o, slot, &p);
        pattern_finish(&p);
    }
    if (inplace || w->geometry.in.nslot == 0)
        return true;
    if (!pattern_input(&p, in, w->rank, most))
        return false;
    for (o = w->operation; o < end; o++)
        *wrong += pattern_differing(&p, o->in, worker_elements(w, o, &w->geometry.in));
    pattern_finish(&p);
    return true;
}

/*
 * A barrier has no result. One rank is late, and no rank may return before it has called. Without a shared stage this
 * cannot be seen.
 */
static bool check_barrier(struct worker *w, const struct command *c, uint32_t seed, struct reply *r)
{
    stage_mark(w->stage, w->rank, false);
    if (!meet(w, r))
        return false;
    if (w->rank == seed % w->stage->nrank)
        usleep(LATE);
    stage_mark(w->stage, w->rank, true);
    if (!one_pass(w, &c->work, r))
        return false;
    for (uint32_t i = 0; i < w->stage->nrank && !w->stage->apart; i++)
        r->wrong += !stage_marked(w->stage, i);
    return meet(w, r); /* before any mark is cleared */
}

static bool check_once(struct worker *w, const struct command *c, uint32_t seed, struct reply *r)
{
    const struct inputs in = {
        .coll = (enum plait_coll)c->coll,
        .type = training_exact(&c->step, (enum plait_dtype)c->dtype),
        .op = training_averages(&w->training) ? PLAIT_AVG : (enum plait_op)c->op,
        .nrank = w->stage->nrank,
        .root = c->root,
        .seed = seed,
    };

    if (!fill_inputs(w, &in))
        return fail(r, "out of memory for the verification pattern");
    return meet(w, r) && one_pass(w, &c->work, r) &&
           (count_wrong(w, &in, c->inplace, &r->wrong) || fail(r, "out of memory for the verification pattern"));
}

static bool check(struct worker *w, const struct command *c, struct reply *r)
{
    for (uint32_t i = 0; i < c->iterations; i++)
        if (!(c->coll == PLAIT_BARRIER ? check_barrier : check_once)(w, c, c->seed + i, r))
            return false;
    for (uint32_t i = 0; i < w->noperation; i++) {
        const struct operation *o = &w->operation[i];
        if (o->in != NULL)
            steady_fill(o->in, worker_elements(w, o, &w->geometry.in), o->type, o->op);
        if (o->out != NULL)
            steady_fill(o->out, worker_elements(w, o, &w->geometry.out), o->type, o->op);
    }
    return true;
}

static bool time_each(struct worker *w, const struct command *c, struct reply *r)
{
    double *times = stage_times(w->stage, w->rank);

    for (uint32_t i = 0; i < c->iterations && i < STAGE_ITERATIONS; i++) {
        double begin;
        if (!meet_now(w, r, &begin))
            return false;
        for (uint32_t k = 0; k < c->aggregate; k++)
            if (!one_pass(w, &c->work, r))
                return false;
        times[i] = (plait_clock() - begin) / c->aggregate;
    }
    return true;
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool stream(struct worker *w, const struct command *c, struct reply *r)
{
    const double operations = (double)c->iterations * c->aggregate;

    if (!meet(w, r))
        return false;
    const double cpu = cpu_now(), begin = plait_clock();
    for (uint64_t i = 0; i < (uint64_t)c->iterations * c->aggregate; i++)
        if (!one_pass(w, &c->work, r))
            return false;
    r->seconds = (plait_clock() - begin) / operations;
    r->cpu = (cpu_now() - cpu) / operations;
    return true;
}

/* One step, from the first tensor to the last sum. */
static bool write_timeline(struct worker *w, const struct command *c, struct reply *r)
{
    const struct fuser *f = w->backend->fuser;

    return (f->timeline(w->self, c->timeline) && training_step(&w->training, w->operation, w->noperation) &&
            f->timeline(w->self, c->timeline)) ||
           fail(r, w->backend->error(w->self));
}

/* The first step is not counted, since it does some things once. */
static bool figures(struct worker *w, const struct command *c, struct reply *r)
{
    const bool fused = c->step.scheme == SCHEME_FUSED;
    const struct fuser *f = w->backend->fuser;
    struct step_figures before, *all = &r->figures;

    if (!one_pass(w, &c->work, r))
        return false;
    f->figures(w->self, fused, &before);
    for (uint32_t i = 0; i < c->iterations; i++) {
        if (!meet(w, r) || !one_pass(w, &c->work, r))
            return false;
    }
    f->figures(w->self, fused, all);
    all->bytes = (all->bytes - before.bytes) / c->iterations;
    all->messages = (all->messages - before.messages) / c->iterations;
    all->communicating /= c->iterations;
    all->hidden /= c->iterations;
    return !fused || c->timeline[0] == '\0' || write_timeline(w, c, r);
}

static bool has_kind(const struct backend *b, enum work_kind kind)
{
    return kind < WORK_UNDRIVEN || (b->start != NULL && (kind != WORK_THREAD || b->thread != NULL));
}

/* Is it supported, with this algorithm? */
static enum answer prepare(struct worker *w, const struct command *c, struct reply *r)
{
    const struct operation o = { .coll = (enum plait_coll)c->coll,
                                 .type = (enum plait_dtype)c->dtype,
                                 .op = (enum plait_op)c->op };
    const bool fuses = c->step.scheme == SCHEME_FUSED || c->verb == VERB_FIGURES;
    const char *name = c->algorithm == 0 ? "" : NULL;

    if (!w->backend->supports(w->self, &o) || !has_kind(w->backend, (enum work_kind)c->work.kind) ||
        (fuses && w->backend->fuser == NULL))
        return ANSWER_UNSUPPORTED;
    if (w->backend->thread != NULL && !w->backend->thread(w->self, c->work.kind == WORK_THREAD)) {
        fail(r, w->backend->error(w->self));
        return ANSWER_FAILED;
    }
    worker_plan(w, c);
    w->training.step.scheme = SCHEME_OFF;
    if (c->step.scheme != SCHEME_OFF && !training_arrange(&w->training, &c->step, w->operation, &w->noperation)) {
        fail(r, w->backend->error(w->self));
        return ANSWER_FAILED;
    }
    if (w->backend->choose != NULL)
        name = w->backend->choose(w->self, o.coll, most_elements(w) * plait_dtype_size(o.type), c->algorithm);
    if (name == NULL)
        return ANSWER_NONE;
    snprintf(r->text, sizeof r->text, "%s", name);
    if (c->work.kind != WORK_BLOCKING && w->computer.pass == 0) {
        if (!meet(w, r))
            return ANSWER_FAILED;
        compute_calibrate(&w->computer);
    }
    return ANSWER_OK;
}

static void obey(struct worker *w, const struct command *c, struct reply *r)
{
    r->answer = prepare(w, c, r);
    if (r->answer != ANSWER_OK)
        return;
    switch (c->verb) {
    case VERB_CHECK:
        check(w, c, r);
        break;
    case VERB_TIME:
        time_each(w, c, r);
        break;
    case VERB_STREAM:
        stream(w, c, r);
        break;
    case VERB_FIGURES:
        figures(w, c, r);
        break;
    }
    /* Not every algorithm works for every number of ranks. */
    if (c->verb == VERB_CHECK && c->algorithm > 0 && r->answer == ANSWER_FAILED)
        r->answer = ANSWER_UNSUPPORTED;
}

void *worker_alloc(void *self, size_t bytes)
{
    (void)self;
    return buffers_alloc(bytes);
}

void worker_free(void *self, void *memory)
{
    (void)self;
    buffers_free(memory);
}

size_t worker_times(const struct stage *stage, const struct command *c, const struct reply *r)
{
    const uint32_t n = c->iterations < STAGE_ITERATIONS ? c->iterations : STAGE_ITERATIONS;

    return stage->apart && c->verb == VERB_TIME && r->answer == ANSWER_OK ? n * sizeof(double) : 0;
}

static pthread_mutex_t talking = PTHREAD_MUTEX_INITIALIZER; /* one message at a time */

/* Times that the coordinator cannot see in a shared stage follow the reply. */
static bool answer(struct worker *w, const struct command *c, const struct reply *r)
{
    const size_t bytes = worker_times(w->stage, c, r);

    pthread_mutex_lock(&talking);
    const bool ok = send(w->fd, r, sizeof *r, MSG_NOSIGNAL) == sizeof *r &&
                    (bytes == 0 || send(w->fd, stage_times(w->stage, w->rank), bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    pthread_mutex_unlock(&talking);
    return ok;
}

static atomic_bool finished; /* the coordinator may close the socket */

static bool serve(struct worker *w)
{
    for (;;) {
        struct command c;
        struct reply r = { 0 };
        const ssize_t got = recv(w->fd, &c, sizeof c, MSG_WAITALL);

        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof c)
            return false;
        if (c.verb != VERB_QUIT)
            obey(w, &c, &r);
        else
            atomic_store(&finished, true);
        if (!answer(w, &c, &r) || r.answer == ANSWER_FAILED)
            return false;
        if (c.verb == VERB_QUIT)
            return true;
    }
}

bool worker_serve(int fd, struct stage *stage, uint32_t rank, const struct backend *backend, void *self)
{
    struct worker w = { .fd = fd,
                        .rank = rank,
                        .stage = stage,
                        .backend = backend,
                        .self = self,
                        .training = { .backend = backend, .self = self } };
    struct reply ready = { .answer = ANSWER_OK };
    bool ok = true;

    if (!buffers_begin(rank))
        ok = fail(&ready, "the pages that all backends share cannot be opened; use --memory malloc");
    else if (!worker_alloc_tensors(&w))
        ok = fail(&ready, "out of memory for the buffers; use a smaller -e, fewer ranks or fewer peers");
    if (send(fd, &ready, sizeof ready, MSG_NOSIGNAL) != sizeof ready)
        ok = false;
    ok = ok && serve(&w);
    if (ok)
        training_finish(&w.training);
    worker_free_tensors(&w);
    return ok;
}

/* ---- starting ---------------------------------------------------------------------------------- */

uint32_t worker_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

void worker_pin(uint32_t rank)
{
    cpu_set_t allowed, mine;
    uint32_t skip = rank % worker_cpus();

    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0) {
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
            return;
        }
}

static int watched;
static bool says_busy;

static void *watch(void *argument)
{
    const struct reply working = { .answer = ANSWER_BUSY };
    struct pollfd p = { .fd = watched, .events = POLLRDHUP };
    uint64_t before = 0, now;

    (void)argument;
    for (; poll(&p, 1, says_busy ? 1000 : -1) <= 0; before = now) {
        now = atomic_load_explicit(&passes, memory_order_relaxed);
        pthread_mutex_lock(&talking);
        if (now != before && !atomic_load(&finished))
            send(watched, &working, sizeof working, MSG_NOSIGNAL);
        pthread_mutex_unlock(&talking);
    }
    if (!atomic_load(&finished))
        _exit(EXIT_RANKS);
    return NULL;
}

void worker_watch(int fd, const struct stage *stage, uint32_t rank)
{
    pthread_t thread;

    watched = fd;
    says_busy = stage->apart && rank == 0;
    if (pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
}
