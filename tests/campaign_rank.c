/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process of the campaign does: its ranks' calls, the faults they make themselves, and what is left behind. */
#include "base/clock.h"
#include "campaign.h"
#include "values.h"

#include <plait/memory.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CALLS 1000000 /* of the struck operation, until its failure comes */
#define MOST_LOOKS 20      /* for what is left, until other hosts' last news have come */

struct actor { /* a rank */
    const struct injection *j;
    struct scene *s;
    struct report *report;
    struct plait_comm *comm;
    uint32_t rank;
    bool library;
    char *in[NSTEP], *want[NSTEP], *out;
};

/* Short waits are spun: a sleep is longer. */
void wait_moment(double seconds)
{
    const double until = plait_clock() + seconds;

    if (seconds > 1e-4)
        usleep((useconds_t)(seconds * 1e6));
    while (plait_clock() < until)
        sched_yield();
}

void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "campaign: %s: %s\n", what, plait_last_error());
    abort();
}

/* With a small stack: the C library keeps those of all threads, and what belongs to them, so they count as before. */
static pthread_t start_thread(void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 << 10);
    must(pthread_create(&thread, &attr, body, arg) == 0, "thread");
    pthread_attr_destroy(&attr);
    return thread;
}

/* ---- Calls ------------------------------------------------------------------------------------------- */

static void *get_memory(bool library, size_t bytes)
{
    void *p = NULL;

    if (library)
        must(plait_mem_alloc(bytes + 1, &p) == PLAIT_OK, "memory");
    else
        must((p = malloc(bytes + 1)) != NULL, "memory");
    return p;
}

static void put_memory(bool library, void *p)
{
    if (library)
        must(plait_mem_free(p) == PLAIT_OK, "free");
    else
        free(p);
}

static void get_buffers(struct actor *a)
{
    const struct injection *j = a->j;
    size_t most = 0;

    a->library = j->memory == 1 || (j->memory == 2 && a->rank % 2);
    for (int i = 0; i < NSTEP; i++)
        most = step_bytes(j, i) > most ? step_bytes(j, i) : most;
    a->out = get_memory(a->library, most);
    for (int i = 0; i < NSTEP; i++) {
        if (i == STEP_OTHER && !fault_kinds[j->fault].differs)
            continue;
        a->in[i] = get_memory(a->library, step_bytes(j, i));
        a->want[i] = get_memory(false, step_bytes(j, i));
        collective_want(&j->steps[i], j->nrank, a->rank, a->out, a->want[i]);
        collective_fill(&j->steps[i], j->nrank, a->rank, a->in[i]);
    }
}

static void put_buffers(struct actor *a)
{
    for (int i = 0; i < NSTEP; i++) {
        put_memory(a->library, a->in[i]);
        put_memory(false, a->want[i]);
    }
    put_memory(a->library, a->out);
}

static void failed(struct actor *a, enum plait_status status)
{
    struct report *r = a->report;

    r->returned = plait_clock();
    r->status = status;
    r->early = a->s->fault == 0;
    snprintf(r->text, sizeof r->text, "%s", plait_last_error());
    a->s->failed++;
}

/* One call, verified. The first failure is reported. */
static enum plait_status call(struct actor *a, int which)
{
    const struct collective *c = &a->j->steps[which];
    const struct plait_geometry g = plait_geometry_of(c->coll, a->j->nrank, c->root, a->rank, 1);
    const struct collective_buffers b =
        collective_place(c, a->j->nrank, a->rank, collective_is_inplace(c, a->rank) ? a->out : a->in[which], a->out);
    enum plait_status status;

    memset(a->out, 0xa5, step_bytes(a->j, which));
    if (collective_is_inplace(c, a->rank) && b.in != NULL)
        memcpy(b.in, a->in[which], collective_elements(c, &g.in) * plait_dtype_size(c->type));
    a->report->number++;
    a->report->entered = plait_clock();
    if (a->s->fault == 0 || a->report->since == 0)
        a->report->since = a->report->entered;
    status = collective_run(a->comm, c, b.in, b.out);
    if (status != PLAIT_OK)
        failed(a, status);
    else
        a->report->wrong += !collective_right(c, a->j->nrank, a->rank, b.out, a->want[which]);
    return status;
}

/* ---- Faults ------------------------------------------------------------------------------------------ */

static double until_fault(const struct injection *j, const struct scene *s)
{
    return j->moment * (s->duration > 0 ? s->duration : 2e-5 + (double)step_bytes(j, STEP_STRUCK) * 1e-9);
}

static void *abort_later(void *arg)
{
    struct actor *a = arg;

    while (a->s->armed == 0)
        sched_yield();
    wait_moment(until_fault(a->j, a->s));
    a->s->fault = plait_clock();
    a->s->aborted = a->report->number;
    must(plait_comm_abort(a->comm, "campaign") == PLAIT_OK, "abort");
    return NULL;
}

/* The struck operation again and again, until it fails. */
static void repeat_struck(struct actor *a)
{
    for (unsigned n = 0; n < MOST_CALLS; n++)
        if (call(a, STEP_STRUCK) != PLAIT_OK)
            return;
    a->report->untold++;
}

static void differ(struct actor *a)
{
    const bool culprit = is_culprit(a->j, a->rank), both = a->j->fault == FAULT_SWAP;

    if (culprit) {
        wait_moment(until_fault(a->j, a->s));
        a->s->fault = plait_clock();
    }
    for (int k = 0; k <= both; k++) {
        const int which = culprit == (k == 0) ? STEP_OTHER : STEP_STRUCK;
        if (call(a, which) != PLAIT_OK)
            return;
        a->report->untold += !may_finish(a->j, which);
    }
    if (a->report->untold == 0 && !a->j->last)
        repeat_struck(a);
}

/* A culprit that goes by itself. */
static void go(struct actor *a)
{
    const uint32_t others = a->j->nrank - 1;

    wait_moment(until_fault(a->j, a->s));
    a->s->fault = plait_clock();
    if (a->j->fault == FAULT_EXIT)
        _exit(0);
    if (a->j->fault == FAULT_LEAVE)
        return;
    a->report->phase = PHASE_AWAY;
    while (a->s->failed < others)
        usleep(1000);
    a->report->phase = PHASE_STRUCK;
    call(a, STEP_STRUCK);
}

static void come_near(struct actor *a)
{
    const struct injection *j = a->j;
    const bool acts = a->rank == j->actor;

    for (uint32_t n = 0; n < j->extra; n++)
        if (call(a, STEP_STRUCK) != PLAIT_OK)
            return;
    if (acts)
        a->s->armed++;
    if (acts && (j->fault == FAULT_EXIT || j->fault == FAULT_LEAVE || j->fault == FAULT_SILENT))
        go(a);
    else
        repeat_struck(a);
}

static void strike(struct actor *a)
{
    a->report->phase = PHASE_STRUCK;
    if (fault_kinds[a->j->fault].differs) {
        differ(a);
    } else if (a->j->fault == FAULT_ABORT && a->rank == a->j->actor) {
        const pthread_t thread = start_thread(abort_later, a);
        come_near(a);
        a->s->armed++; /* if it did not come so far */
        pthread_join(thread, NULL);
    } else {
        come_near(a);
    }
}

/* ---- A rank's life ----------------------------------------------------------------------------------- */

static struct plait_comm_options options_of(const struct injection *j)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;

    o.name = "campaign";
    o.deadline = j->deadline;
    o.warn = 1e6;
    return o;
}

/* Over hosts the id says where its maker is: rank 0. */
static const struct plait_unique_id *get_id(struct actor *a, unsigned which, uint32_t rank)
{
    if (a->j->nhost > 0 && rank == 0) {
        must(plait_unique_id_create_tcp(NULL, &a->s->ids[which]) == PLAIT_OK, "id");
        a->s->made[which] = 1;
    }
    while (!a->s->made[which])
        usleep(200);
    return &a->s->ids[which];
}

static bool create(struct actor *a)
{
    struct plait_comm_options o = options_of(a->j);
    enum plait_status status;

    o.nrank = a->j->nrank;
    o.rank = a->rank;
    o.id = get_id(a, 0, a->rank);
    o.timeout = a->j->timeout;
    a->report->phase = PHASE_CREATE;
    a->s->ready++;
    if (is_culprit(a->j, a->rank) && a->j->fault == FAULT_ABSENT) {
        a->s->fault = plait_clock();
        return false;
    }
    while (a->s->ready < a->j->nrank)
        usleep(200);
    a->report->entered = plait_clock();
    status = plait_comm_create(&o, &a->comm);
    if (status != PLAIT_OK)
        failed(a, status);
    return status == PLAIT_OK;
}

static bool good_operations(struct actor *a)
{
    a->report->phase = PHASE_GOOD;
    for (uint32_t n = 0; n < a->j->ngood; n++) {
        const int which = n == 0 ? STEP_STRUCK : n % 2 ? STEP_GOOD : STEP_GOOD_TOO;
        if (call(a, which) != PLAIT_OK)
            return false;
        if (n == 0 && a->rank == a->j->actor)
            a->s->duration = plait_clock() - a->report->entered;
    }
    return true;
}

/* The survivors' new comm: it works, and ends in peace. */
static enum plait_status again(struct actor *a)
{
    const uint32_t survivors = ((1u << a->j->nrank) - 1) & ~gone(a->j);
    const uint32_t nrank = (uint32_t)__builtin_popcount(survivors);
    struct plait_comm_options o = options_of(a->j);
    struct plait_comm *comm = NULL;
    float in[1000], out[1000], want[1000];
    enum plait_status status;

    o.deadline = 30;
    o.nrank = nrank;
    o.rank = (uint32_t)__builtin_popcount(survivors & ((1u << a->rank) - 1));
    while (!a->s->whole)
        usleep(1000);
    o.id = get_id(a, 1, o.rank);
    status = plait_comm_create(&o, &comm);
    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, nrank, o.rank, 1000);
    values_want(want, PLAIT_FLOAT32, PLAIT_SUM, nrank, 1000);
    for (int n = 0; n < 3 && status == PLAIT_OK; n++) {
        memset(out, 0xa5, sizeof out);
        status = plait_allreduce(comm, in, out, n == 0 ? 1 : 1000, PLAIT_FLOAT32, PLAIT_SUM, NULL);
        a->report->wrong += status == PLAIT_OK && memcmp(out, want, n == 0 ? sizeof *out : sizeof out) != 0;
    }
    if (status == PLAIT_OK)
        status = plait_comm_destroy(comm);
    if (status != PLAIT_OK)
        snprintf(a->report->again_text, sizeof a->report->again_text, "%s", plait_last_error());
    return status;
}

/* Who returned from a call that differed hears of it now at the latest. */
static void leave(struct actor *a)
{
    struct report *r = a->report;

    r->destroyed = plait_comm_destroy(a->comm);
    if (!fault_kinds[a->j->fault].differs || r->status != PLAIT_OK)
        return;
    r->untold += r->destroyed == PLAIT_OK;
    if (r->destroyed != PLAIT_OK)
        failed(a, r->destroyed);
}

static void *rank_main(void *arg)
{
    struct actor *a = arg;

    a->report->pid = getpid();
    get_buffers(a);
    if (create(a) && good_operations(a))
        strike(a);
    a->report->phase = PHASE_DESTROY;
    if (a->comm != NULL && a->j->abort_first && a->report->status != PLAIT_OK)
        plait_comm_abort(a->comm, "a survivor gives up");
    leave(a);
    a->report->phase = PHASE_AGAIN;
    if (!(gone(a->j) >> a->rank & 1))
        a->report->again = again(a);
    put_buffers(a);
    a->report->phase = PHASE_DONE;
    return NULL;
}

/* ---- A process --------------------------------------------------------------------------------------- */

void run_threads(uint32_t n, void *(*body)(void *), void *args, size_t size)
{
    pthread_t threads[MOST_RANKS + 1];

    for (uint32_t t = 0; t < n; t++)
        threads[t] = start_thread(body, (char *)args + t * size);
    for (uint32_t t = 0; t < n; t++)
        pthread_join(threads[t], NULL);
}

/* One of two ranks that take each other for another host's. */
static void *use_network(void *arg)
{
    const struct plait_unique_id *id = *(const struct plait_unique_id **)arg;
    static _Atomic uint32_t rank;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;
    float x = 1;

    o.nrank = 2;
    o.rank = rank++;
    o.id = id;
    must(plait_comm_create(&o, &comm) == PLAIT_OK &&
             plait_allreduce(comm, &x, &x, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK &&
             plait_comm_destroy(comm) == PLAIT_OK,
         "a network");
    return NULL;
}

/* What is loaded for the first comm that needs a network stays. */
static void load_network(void)
{
    struct plait_unique_id id;
    const struct plait_unique_id *ids[2] = { &id, &id };

    must(plait_unique_id_create(&id) == PLAIT_OK, "id");
    setenv("PLAIT_FOR_TESTS", "1", 1);
    setenv("PLAIT_HOSTS", "2", 1);
    run_threads(2, use_network, ids, sizeof *ids);
    unsetenv("PLAIT_FOR_TESTS");
    unsetenv("PLAIT_HOSTS");
}

void process_main(const struct injection *j, struct scene *s, uint32_t process)
{
    if (j->nhost > 0)
        load_network();
    struct actor actors[MOST_RANKS] = { 0 };
    const struct footprint before = footprint_measure(j->nthread + 1); /* one more, for abort */

    for (uint32_t t = 0; t < j->nthread; t++) {
        const uint32_t rank = process * j->nthread + t;
        actors[t] = (struct actor){ .j = j, .s = s, .report = &s->reports[rank], .rank = rank };
    }
    run_threads(j->nthread, rank_main, actors, sizeof *actors);
    s->idle |= 1u << process;
    while (!s->measure)
        usleep(500);
    const unsigned looks = j->nhost == 0 ? 1 : MOST_LOOKS + (unsigned)(20 * cut_off(j)); /* 10 a second */
    for (unsigned tries = looks; tries > 0; tries--) {
        const struct footprint after = footprint_measure(j->nthread + 1);
        s->leaks[process][0] = '\0';
        footprint_compare(&before, &after, j->nhost > 0, s->leaks[process], sizeof s->leaks[process]);
        if (s->leaks[process][0] == '\0')
            break;
        usleep(100000);
    }
}
