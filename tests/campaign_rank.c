/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process of the campaign does: its ranks' calls, the faults they make themselves, and what is left behind. */
#include "arena.h"
#include "campaign.h"
#include "clock.h"
#include "values.h"

#include <plait/memory.h>

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CALLS 1000000 /* of the struck operation, until its failure comes */
#define MOST_HEAP  2048    /* bytes that the C library may keep for itself between two measurements */

struct actor { /* a rank */
    const struct injection *j;
    struct scene *s;
    struct report *report;
    struct plait_comm *comm;
    uint32_t rank;
    bool library;
    char *in[NSTEP], *out;
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

/* ---- Calls ------------------------------------------------------------------------------------------- */

static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "campaign: %s: %s\n", what, plait_last_error());
    abort();
}

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
    size_t most = 0;

    a->library = a->j->memory == 1 || (a->j->memory == 2 && a->rank % 2);
    for (int i = 0; i < NSTEP; i++) {
        const struct step *s = &a->j->steps[i];
        most = step_bytes(s) > most ? step_bytes(s) : most;
        if (i == STEP_OTHER && !fault_kinds[a->j->fault].differs)
            continue;
        a->in[i] = get_memory(a->library, step_bytes(s));
        values_fill(a->in[i], s->type, s->op, a->j->nrank, a->rank, s->count);
    }
    a->out = get_memory(a->library, most);
}

static void put_buffers(struct actor *a)
{
    for (int i = 0; i < NSTEP; i++)
        put_memory(a->library, a->in[i]);
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
    const struct step *s = &a->j->steps[which];
    const size_t bytes = step_bytes(s);
    struct plait_call options = PLAIT_CALL_DEFAULT;
    enum plait_status status;

    options.algorithm = s->algorithm[0] != '\0' ? s->algorithm : NULL;
    if (s->inplace)
        memcpy(a->out, a->in[which], bytes);
    else
        memset(a->out, 0xa5, bytes);
    a->report->number++;
    a->report->entered = plait_clock();
    if (s->coll == PLAIT_BARRIER)
        status = plait_barrier(a->comm, NULL);
    else
        status = plait_allreduce(a->comm, s->inplace ? a->out : a->in[which], a->out, s->count, s->type, s->op,
                                 options.algorithm != NULL ? &options : NULL);
    if (status != PLAIT_OK)
        failed(a, status);
    else
        a->report->wrong += memcmp(a->out, a->s->want[which], bytes) != 0;
    return status;
}

/* ---- Faults ------------------------------------------------------------------------------------------ */

static double until_fault(const struct injection *j, const struct scene *s)
{
    return j->moment * (s->duration > 0 ? s->duration : 2e-5 + (double)step_bytes(&j->steps[STEP_STRUCK]) * 1e-9);
}

static void *abort_later(void *arg)
{
    struct actor *a = arg;

    while (a->s->armed == 0)
        sched_yield();
    wait_moment(until_fault(a->j, a->s));
    a->s->fault = plait_clock();
    must(plait_comm_abort(a->comm, "campaign") == PLAIT_OK, "abort");
    return NULL;
}

static void differ(struct actor *a)
{
    const bool culprit = is_culprit(a->j, a->rank), both = a->j->fault == FAULT_SWAP;
    enum plait_status status = PLAIT_OK;

    if (culprit) {
        wait_moment(until_fault(a->j, a->s));
        a->s->fault = plait_clock();
    }
    for (int k = 0; k <= both && status == PLAIT_OK; k++) {
        status = call(a, culprit == (k == 0) ? STEP_OTHER : STEP_STRUCK);
        a->report->untold += status == PLAIT_OK;
    }
}

/* The struck operation again and again, until it fails. */
static void repeat_struck(struct actor *a)
{
    for (unsigned n = 0; n < MOST_CALLS; n++)
        if (call(a, STEP_STRUCK) != PLAIT_OK)
            return;
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

static void strike(struct actor *a)
{
    const struct injection *j = a->j;
    const bool acts = a->rank == j->actor;
    pthread_t thread;

    a->report->phase = PHASE_STRUCK;
    if (fault_kinds[j->fault].differs) {
        differ(a);
        return;
    }
    if (acts && j->fault == FAULT_ABORT)
        must(pthread_create(&thread, NULL, abort_later, a) == 0, "thread");
    for (uint32_t n = 0; n < j->extra; n++)
        if (call(a, STEP_STRUCK) != PLAIT_OK)
            goto out;
    if (acts)
        a->s->armed++;
    if (acts && (j->fault == FAULT_EXIT || j->fault == FAULT_LEAVE || j->fault == FAULT_SILENT))
        go(a);
    else
        repeat_struck(a);
out:
    if (acts && j->fault == FAULT_ABORT) {
        a->s->armed++;
        pthread_join(thread, NULL);
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

static bool create(struct actor *a)
{
    struct plait_comm_options o = options_of(a->j);
    enum plait_status status;

    o.nrank = a->j->nrank;
    o.rank = a->rank;
    o.id = &a->s->id;
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
    o.id = &a->s->again;
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
    a->report->destroyed = plait_comm_destroy(a->comm);
    a->report->phase = PHASE_AGAIN;
    if (!(gone(a->j) >> a->rank & 1))
        a->report->again = again(a);
    put_buffers(a);
    a->report->phase = PHASE_DONE;
    return NULL;
}

/* ---- What is left ------------------------------------------------------------------------------------ */

struct footprint {
    size_t heap, mapped; /* bytes; mapped: but for the heap's own */
    bool arena;          /* something is allocated in it */
    unsigned descriptors, shared, threads;
    char named[256]; /* a file in /dev/shm or /tmp, open or mapped */
};

static unsigned count_entries(const char *path, struct footprint *f)
{
    char target[256];
    unsigned n = 0;
    DIR *d = opendir(path);

    must(d != NULL, path);
    for (struct dirent *e; (e = readdir(d)) != NULL; n++) {
        const ssize_t got = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        target[got > 0 ? got : 0] = '\0';
        if ((strncmp(target, "/dev/shm/", 9) == 0 || strncmp(target, "/tmp/", 5) == 0) && atoi(e->d_name) > 2)
            memcpy(f->named, target, sizeof target);
    }
    closedir(d);
    return n;
}

static void count_mappings(struct footprint *f)
{
    char line[1024];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");

    must(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof line, maps) != NULL) {
        f->shared += strstr(line, "/memfd:") != NULL;
        if (strstr(line, "[heap]") == NULL && sscanf(line, "%lx-%lx", &from, &to) == 2)
            f->mapped += to - from;
        if (strstr(line, "/dev/shm/") != NULL)
            snprintf(f->named, sizeof f->named, "%.200s", line);
    }
    fclose(maps);
}

static struct footprint measure(void)
{
    struct footprint f = { 0 };
    const struct plait_arena *arena;
    void *whole = NULL;

    f.descriptors = count_entries("/proc/self/fd", &f);
    f.threads = count_entries("/proc/self/task", &f);
    count_mappings(&f);
    must(plait_arena_get(0, &arena) == PLAIT_OK, "arena");
    f.arena = plait_arena_alloc(arena->size, &whole) != PLAIT_OK; /* nothing else may be in it; it costs no memory */
    plait_arena_free(whole);
    malloc_trim(0);
    const struct mallinfo2 m = mallinfo2();
    f.heap = m.uordblks + m.hblkhd;
    return f;
}

static void compare(const struct footprint *a, const struct footprint *b, char *text, size_t size)
{
    const struct {
        const char *what;
        size_t before, after, slack;
    } all[] = {
        { "bytes of heap", a->heap, b->heap, MOST_HEAP },    { "memory of the arena", a->arena, b->arena, 0 },
        { "bytes mapped", a->mapped, b->mapped, MOST_HEAP }, { "descriptors", a->descriptors, b->descriptors, 0 },
        { "shared mappings", a->shared, b->shared, 0 },      { "threads", a->threads, b->threads, 0 }
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].after > all[i].before + all[i].slack)
            n += (size_t)snprintf(text + n, size - n, "%s%s: %zu before, %zu after", n > 0 ? "; " : "", all[i].what,
                                  all[i].before, all[i].after);
    if (b->named[0] != '\0')
        snprintf(text + n, size - n, "%sa named file: %.200s", n > 0 ? "; " : "", b->named);
}

/* A comm of its own, which also frees what was waiting for others to leave. In a thread, which keeps no freed memory.
 */
static void *live_alone(void *arg)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;

    o.nrank = 1;
    must(plait_comm_create(&o, &comm) == PLAIT_OK && plait_barrier(comm, NULL) == PLAIT_OK &&
             plait_comm_destroy(comm) == PLAIT_OK,
         "a comm alone");
    return arg;
}

/* Before the first measurement as many threads as ever live at once, so that the C library has their stacks. */
static void run_threads(uint32_t n, void *(*body)(void *), struct actor *actors)
{
    pthread_t threads[MOST_RANKS + 1];

    for (uint32_t t = 0; t < n; t++)
        must(pthread_create(&threads[t], NULL, body, actors != NULL ? &actors[t] : NULL) == 0, "thread");
    for (uint32_t t = 0; t < n; t++)
        pthread_join(threads[t], NULL);
}

static pthread_barrier_t together;

static void *meet(void *arg)
{
    pthread_barrier_wait(&together);
    return arg;
}

void process_main(const struct injection *j, struct scene *s, uint32_t process)
{
    struct actor actors[MOST_RANKS] = { 0 };
    struct footprint before, after;

    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* otherwise it changes, and freed memory stays mapped */
    pthread_barrier_init(&together, NULL, j->nthread + 1);
    run_threads(j->nthread + 1, meet, NULL);
    run_threads(1, live_alone, NULL);
    measure();
    before = measure();
    for (uint32_t t = 0; t < j->nthread; t++) {
        const uint32_t rank = process * j->nthread + t;
        actors[t] = (struct actor){ .j = j, .s = s, .report = &s->reports[rank], .rank = rank };
    }
    run_threads(j->nthread, rank_main, actors);
    s->idle |= 1u << process;
    while (!s->measure)
        usleep(500);
    run_threads(1, live_alone, NULL);
    after = measure();
    compare(&before, &after, s->leaks[process], sizeof s->leaks[process]);
}
