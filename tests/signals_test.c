/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's signals, registers and settings: they arrive, interrupt nothing, and stay as they are. */
#include "base/clock.h"
#include "child.h"
#include "unit_ranks.h"
#include "values.h"

#include <plait/memory.h>
#include <plait/message.h>
#include <plait/plan.h>
#include <plait/topology.h>

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define COUNT 20000

static int sum(struct plait_comm *comm, uint32_t rank, size_t count)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const uint32_t nrank = plait_comm_nrank(comm);

    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, nrank, rank, count);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, nrank, count) == 0);
    return 0;
}

static struct ranks ranks_of(uint32_t nprocess, int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    struct ranks r = { .nprocess = nprocess, .nthread = 1, .body = body, .arg = arg, .options.deadline = 20 };
    return r;
}

/* ---- A timer that interrupts everything ------------------------------------------------------------ */

#define EVERY_US  200
#define FEW_TICKS 50 /* at least, however little of the processor this process gets */

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    const int saved = errno;

    ticks = ticks + 1;
    errno = saved;
}

static void start_timer(bool restart)
{
    const struct itimerval every = { { 0, EVERY_US }, { 0, EVERY_US } };
    struct sigaction action = { .sa_handler = tick, .sa_flags = restart ? SA_RESTART : 0 };

    ticks = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_timer(void)
{
    const struct itimerval never = { { 0, 0 }, { 0, 0 } };

    setitimer(ITIMER_REAL, &never, NULL);
}

/* Sleeps are interrupted too. */
static void stay_away(double seconds)
{
    for (const double until = plait_clock() + seconds; plait_clock() < until;)
        usleep(1000);
}

/* Waits of every kind: for a late rank in creation, in eager and long operations, in destroy; and a deadline. */
static int wait_in_storm(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool *restart = arg;
    struct plait_comm_options o = ranks_options(rank);
    static float v[COUNT];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    char first[20];

    start_timer(*restart);
    if (rank == 0)
        stay_away(0.1); /* the others look for rank 0's socket */
    if (rank == 2)
        stay_away(0.3); /* and rank 0 waits for them */
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    for (unsigned k = 0; k < 6; k++) {
        if (rank == k % 3)
            stay_away(0.05);
        CHECK(sum(*comm, rank, k < 3 ? 10 : COUNT) == 0);
        CHECK(rank != 0 || plait_barrier(*comm, NULL) == PLAIT_OK);
        CHECK(rank == 0 || plait_barrier(*comm, NULL) == PLAIT_OK);
    }
    for (unsigned k = 0; k < 100; k++)
        CHECK(sum(*comm, rank, k % 2 ? 10 : COUNT) == 0);
    const int interrupts = ticks;
    call.deadline = 2;
    if (rank == 2) {
        ranks_meet();
        CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_TIMEOUT);
    } else {
        const double start = plait_clock();
        CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_TIMEOUT);
        const double took = plait_clock() - start;
        ranks_meet();
        snprintf(first, sizeof first, ": rank %u: ", rank);
        CHECK(took >= 1.95 ||
              strstr(plait_last_error(), first) == NULL); /* a rank that came late is told by the other */
    }
    CHECK(strstr(plait_last_error(), "no progress for 2 s: rank 2 has not called it") != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_TIMEOUT);
    *comm = NULL;
    stop_timer();
    CHECK(interrupts > FEW_TICKS);
    return 0;
}

static void a_timer_interrupts_every_wait_and_ends_none(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        bool restart = k;
        struct ranks r = ranks_of(3, wait_in_storm, &restart);
        r.no_comm = true;
        assert_int_equal(ranks_run(&r), 0);
    }
}

static int time_out_in_storm(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool *restart = arg;
    struct plait_comm_options o = ranks_options(rank);

    o.nrank = 3; /* rank 2 never comes */
    o.timeout = 2;
    ranks_meet();
    const double start = plait_clock();
    start_timer(*restart);
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_TIMEOUT);
    CHECK(rank == 1 || plait_clock() - start >= 1.95); /* a rank that came late is told by the other */
    CHECK(ticks > FEW_TICKS);
    CHECK(strstr(plait_last_error(), "of 3 ranks did not join within 2 s: rank ") != NULL); /* 1 may be late too */
    stop_timer();
    return 0;
}

static void a_timer_takes_no_time_limit_from_creation(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        bool restart = k;
        struct ranks r = ranks_of(2, time_out_in_storm, &restart);
        r.no_comm = true;
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Stopped and continued --------------------------------------------------------------------------- */

struct stop {
    _Atomic int pid[2];
    _Atomic bool go;
};

/* In a child of rank 0: what the shell does to a job. */
static void stop_both(struct stop *s)
{
    usleep(200000); /* rank 0 waits */
    for (unsigned r = 0; r < 2; r++)
        kill(s->pid[r], SIGSTOP);
    usleep(2600000);
    for (unsigned r = 0; r < 2; r++)
        kill(s->pid[r], SIGCONT);
    usleep(200000); /* rank 0 has looked at the clock */
    s->go = true;
    _exit(0);
}

static int be_stopped(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct stop *s = arg;

    s->pid[rank] = getpid();
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 0 && fork() == 0)
        stop_both(s);
    while (rank == 1 && !s->go)
        usleep(1000);
    CHECK(sum(*comm, rank, COUNT) == 0);
    return 0;
}

/* The time of the stop counted as waiting: when the job went on, ranks gave up. */
static void a_job_that_was_stopped_longer_than_the_deadline_goes_on(void **state)
{
    struct stop *s = shared_memory(sizeof *s);
    struct ranks r = ranks_of(2, be_stopped, s);

    r.options.deadline = 2.4;
    assert_int_equal(ranks_run(&r), 0);
    munmap(s, sizeof *s);
}

/* ---- What stays as it was -------------------------------------------------------------------------- */

struct settings {
    struct {
        void (*handler)(int);
        int flags;
        uint64_t mask; /* what the kernel knows; the rest of a sigset_t is not written */
    } actions[65];
    sigset_t mask;
    cpu_set_t cpus;
    char directory[4096], locale[256];
    mode_t umask;
    int error, threads, rounding;
    uint32_t mxcsr; /* without the flags of past exceptions */
    uint16_t x87;
};

static int count_threads(void)
{
    char line[256];
    int n = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "Threads:", 8) == 0)
            n = atoi(line + 8);
    if (f != NULL)
        fclose(f);
    return n;
}

static void get_settings(struct settings *s)
{
    memset(s, 0, sizeof *s);
    s->error = errno;
    s->rounding = fegetround();
#ifdef __x86_64__
    s->mxcsr = __builtin_ia32_stmxcsr() & ~0x3fu;
    __asm__ volatile("fnstcw %0" : "=m"(s->x87));
#endif
    for (int i = 1; i <= 64; i++) {
        struct sigaction action = { 0 };
        sigaction(i, NULL, &action);
        s->actions[i].handler = action.sa_handler;
        s->actions[i].flags = action.sa_flags;
        memcpy(&s->actions[i].mask, &action.sa_mask, sizeof s->actions[i].mask);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    sched_getaffinity(0, sizeof s->cpus, &s->cpus);
    assert_non_null(getcwd(s->directory, sizeof s->directory));
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    s->umask = umask(0);
    umask(s->umask);
    s->threads = count_threads();
    errno = s->error;
}

/* What of the caller's changed since; NULL: nothing. */
static const char *changed(const struct settings *before)
{
    struct settings s;

    get_settings(&s);
    return s.error != before->error                                      ? "errno"
           : s.rounding != before->rounding                              ? "rounding"
           : s.mxcsr != before->mxcsr                                    ? "MXCSR"
           : s.x87 != before->x87                                        ? "x87 control word"
           : memcmp(&s.actions, &before->actions, sizeof s.actions) != 0 ? "signal handlers"
           : memcmp(&s.mask, &before->mask, sizeof s.mask) != 0          ? "signal mask"
           : memcmp(&s.cpus, &before->cpus, sizeof s.cpus) != 0          ? "affinity"
           : strcmp(s.directory, before->directory) != 0                 ? "working directory"
           : strcmp(s.locale, before->locale) != 0                       ? "locale"
           : s.umask != before->umask                                    ? "umask"
           : s.threads != before->threads                                ? "number of threads"
                                                                         : NULL;
}

/* An unusual state: everything differs from the default. */
static void set_unusual(void)
{
    sigset_t mask;
    cpu_set_t cpus, one;

    signal(SIGUSR1, tick);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int i = CPU_SETSIZE; i-- > 0;)
        if (CPU_ISSET(i, &cpus) && CPU_COUNT(&one) == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    if (chdir("/") != 0)
        abort();
    umask(0123);
    setlocale(LC_ALL, "C.UTF-8");
    fesetround(FE_UPWARD); /* both units */
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
#ifdef __x86_64__
    const uint16_t x87 = 0x0870; /* single precision, up, and those exceptions */
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
}

static void make_denormals(float *v, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)((float)(i % 1000) * scale); /* multiples of the smallest number */
        memcpy(&v[i], &bits, sizeof bits);
    }
}

/* Each call of the library in turn: afterwards everything is as before. */
static int call_everything(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    static float in[COUNT], out[COUNT], twice[COUNT];
    const float special[] = { INFINITY, NAN, 3e38f, -INFINITY };
    float special_out[4];
    struct plait_call ring = PLAIT_CALL_DEFAULT, bad = PLAIT_CALL_DEFAULT;
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 4 };
    struct plait_unique_id id;
    struct plait_topology topology;
    struct plait_comm_stats stats;
    struct plait_choice choice;
    struct plait_plan *plan, *parsed;
    struct settings before;
    void *memory;
    char *text;

    make_denormals(in, 1, COUNT);
    make_denormals(twice, 2, COUNT);
    ring.algorithm = "ring";
    bad.algorithm = "rnig";
    set_unusual();
    errno = 4711;
    get_settings(&before);
#define SAME(call)                                                                                           \
    do {                                                                                                     \
        CHECK(call);                                                                                         \
        const char *what = changed(&before);                                                                 \
        if (what != NULL)                                                                                    \
            fprintf(stderr, "rank %u: %s changed: %s (errno %d)\n", rank, what, #call, errno), errno = 4711; \
        CHECK(what == NULL);                                                                                 \
    } while (0)
    SAME(plait_mem_alloc(COUNT * sizeof(float), &memory) == PLAIT_OK); /* makes the arena */
    SAME(plait_unique_id_create(&id) == PLAIT_OK);
    SAME(plait_comm_create(&o, comm) == PLAIT_OK);
    SAME(plait_allreduce(*comm, special, special_out, 4, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    SAME(plait_allreduce(*comm, special, special_out, 4, PLAIT_FLOAT32, PLAIT_AVG, NULL) == PLAIT_OK);
    SAME(plait_allreduce(*comm, in, out, 100, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(memcmp(out, twice, 100 * sizeof *out) == 0);
    for (unsigned k = 0; k < 3; k++) {
        if (rank == k % 2) /* the other sleeps meanwhile */
            usleep(20000);
        errno = 4711;
        SAME(plait_allreduce(*comm, in, out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, k ? NULL : &ring) == PLAIT_OK);
        CHECK(memcmp(out, twice, sizeof out) == 0);
        SAME(plait_barrier(*comm, NULL) == PLAIT_OK);
    }
    SAME(plait_allreduce(*comm, in, memory, COUNT, PLAIT_FLOAT32, PLAIT_AVG, NULL) == PLAIT_OK);
    SAME(plait_allreduce(*comm, memory, memory, COUNT, PLAIT_BFLOAT16, PLAIT_PROD, &ring) == PLAIT_OK);
    SAME(plait_allreduce(*comm, memory, out, COUNT, (enum plait_dtype)99, PLAIT_MAX, NULL) == PLAIT_ERR_ARG);
    SAME(plait_allreduce(*comm, memory, out, COUNT, PLAIT_FLOAT16, PLAIT_MAX, &bad) == PLAIT_ERR_CONFIG);
    SAME(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 100, PLAIT_INT32, PLAIT_SUM, NULL,
                           &choice) == PLAIT_OK);
    SAME(plait_choose(&shape, 100, PLAIT_INT32, PLAIT_SUM, NULL, &choice) == PLAIT_OK);
    SAME((plait_comm_stats(*comm, &stats), stats.operations) > 0);
    SAME((plait_topology_get(&topology), topology.ncpu) == 1);
    SAME(plait_alg_check(plait_algs[0], &shape, NULL) == PLAIT_OK);
    SAME(plait_plan_emit(plait_algs[0], &shape, 1, &plan) == PLAIT_OK);
    SAME(plait_plan_print(plan, &text) == PLAIT_OK);
    SAME(plait_plan_parse(NULL, text, &parsed) == PLAIT_OK);
    SAME((plait_plan_destroy(plan), plait_plan_destroy(parsed), free(text), true));
    SAME(plait_mem_free(&shape) == PLAIT_ERR_ARG);
    SAME(plait_mem_free(memory) == PLAIT_OK);
    if (rank == 0)
        usleep(50000);
    errno = 4711;
    SAME(plait_barrier(*comm, NULL) == PLAIT_OK);
    ranks_meet(); /* the other one is out of the barrier */
    errno = 4711;
    if (rank == 0)
        SAME(plait_comm_abort(*comm, "enough") == PLAIT_OK);
    SAME(plait_barrier(*comm, NULL) == PLAIT_ERR_FAILED);
    SAME(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
#undef SAME
    return 0;
}

static void every_call_leaves_the_callers_settings_as_they_were(void **state)
{
    struct ranks r = ranks_of(2, call_everything, NULL);

    r.no_comm = true;
    assert_int_equal(ranks_run(&r), 0);
}

/* A wait computes times: with every exception unmasked it died of SIGFPE where nothing was combined, and in messages. */
static int who_unmasks_every_exception_may_wait(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[] = { 1, 1 };
    int32_t v[] = { 4711, 4711 };

    for (unsigned k = 0; k < 3; k++) {
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        if (rank == 1)
            usleep(200000);
        feclearexcept(FE_ALL_EXCEPT);
        feenableexcept(FE_ALL_EXCEPT);
        const enum plait_status status = k == 0 ? plait_broadcast(*comm, &v[rank], v, 1, PLAIT_INT32, 1, NULL)
                                         : k == 1
                                             ? plait_allgatherv(*comm, &v[rank], v, counts, NULL, PLAIT_INT32, NULL)
                                         : rank == 1 ? plait_send(*comm, v, 1, PLAIT_INT32, 0, NULL)
                                                     : plait_recv(*comm, v, 1, PLAIT_INT32, 1, NULL);
        fedisableexcept(FE_ALL_EXCEPT);
        CHECK(status == PLAIT_OK && v[0] == 4711 && v[1] == 4711);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_interrupts_every_wait_and_ends_none),
        cmocka_unit_test(a_timer_takes_no_time_limit_from_creation),
        cmocka_unit_test(a_job_that_was_stopped_longer_than_the_deadline_goes_on),
        cmocka_unit_test(every_call_leaves_the_callers_settings_as_they_were),
        test_of_ranks(who_unmasks_every_exception_may_wait, 2, 1, .processes = true),
    };

    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
