/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread drives what nobody waits for, and leaves the processor to who computes. Waits are counted. */
#include "base/clock.h"
#include "progress/progress.h"
#include "unit_ranks.h"
#include "until.h"

#include <plait/memory.h>
#include <plait/request.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define COUNT (1 << 20)

static _Thread_local bool is_rank; /* this thread is one; the progress thread is none */
static _Atomic uint64_t waits;     /* the progress thread's: sleeps, and from bit 32 on yields */
static _Atomic unsigned nap;       /* microseconds that its yields take, as if others ran */
static atomic_bool for_ever;       /* its sleeps on this process's news alone end by news only */
static atomic_bool lingers;        /* its waits are followed by a long one */
static atomic_bool lingering, went_on;

static void linger(void)
{
    lingering = true;
    usleep(300000);
    went_on = true;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (is_rank)
        return __real_sched_yield();
    atomic_fetch_add(&waits, (uint64_t)1 << 32);
    if (lingers)
        linger();
    return nap > 0 ? usleep(nap) : __real_sched_yield();
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list args;
    long a[6];

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_futex_waitv && !is_rank)
        atomic_fetch_add(&waits, 1);
    if (number == SYS_futex_waitv && !is_rank && for_ever && a[1] == 1)
        a[3] = 0; /* no time limit */
    const long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!is_rank && lingers)
        linger();
    return result;
}

struct job {
    int done[2];        /* a pipe: rank 1 has its result */
    int slept[2];       /* a pipe: rank 0's progress thread has slept; if rank 1 is late */
    unsigned nap, late; /* microseconds: see above; by which rank 1 is later than that */
    bool less;          /* and less: it is to sleep longer and longer */
};

/* Rank 0 starts, and is not in the library until rank 1 has its result, which needs rank 0's part. */
static int start_and_compute(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct job *job = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    void *memory;
    char byte = 0;

    is_rank = true;
    CHECK(plait_mem_alloc(2 * COUNT * sizeof(int32_t), &memory) == PLAIT_OK);
    int32_t *in = memory, *out = in + COUNT;
    for (int i = 0; i < COUNT; i++)
        in[i] = i;
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 1) {
        CHECK(job->late == 0 || read(job->slept[0], &byte, 1) == 1);
        usleep(job->late);
        CHECK(plait_allreduce(*comm, in, out, COUNT, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
        CHECK(write(job->done[1], &byte, 1) == 1);
    } else {
        const double start = plait_clock();
        nap = job->nap;
        waits = 0;
        call.request = &request;
        CHECK(plait_allreduce(*comm, in, out, COUNT, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        for (int k = 0; k < 10000 && job->late > 0 && (uint32_t)waits == 0; k++)
            usleep(1000);
        const bool slept = (uint32_t)waits > 0;
        CHECK(job->late == 0 || write(job->slept[1], &byte, 1) == 1);
        CHECK(job->late == 0 || slept); /* nobody yields for ever */
        CHECK(read(job->done[0], &byte, 1) == 1);
        const uint64_t both = waits;
        if (job->nap > 0)
            CHECK(both >> 32 <= 1 + (uint32_t)both / PLAIT_CROWDED_SLEEPS);
        CHECK(!job->less || (uint32_t)both <= 20 + 1e3 * (plait_clock() - start) / 4);
        CHECK(plait_wait(&request) == PLAIT_OK);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(out[i] == 2 * i);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    return plait_mem_free(memory) == PLAIT_OK ? 0 : 1;
}

static void run(unsigned nap_us, unsigned late_us, bool less)
{
    struct job job = { .nap = nap_us, .late = late_us, .less = less };
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = start_and_compute, .arg = &job, .options.progress = 1 };

    assert_int_equal(pipe(job.done), 0);
    assert_int_equal(pipe(job.slept), 0);
    assert_int_equal(ranks_run(&r), 0);
    for (unsigned end = 0; end < 2; end++) {
        close(job.done[end]);
        close(job.slept[end]);
    }
}

static void the_thread_alone_finishes_an_operation(void **state)
{
    run(0, 0, false);
    run(0, 20000, false);
}

/* Once a yield has come back late. */
static void the_thread_sleeps_where_others_want_the_processor(void **state)
{
    run(150, 20000, false);
}

/* 8 ms at a time at last; always 1 ms would be four times as many sleeps as may be, each of which takes the processor from who
 * computes. */
static void the_thread_looks_around_less_while_it_waits_long(void **state)
{
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && (errno == ENOSYS || errno == EPERM)) {
        print_message("skipped: this kernel has no futex_waitv()\n");
        skip();
    }
    run(0, 400000, true);
}

/* Some naps in a third of a second, and no yields, but for one that began before. */
static bool naps_for_a_while(void)
{
    const double start = plait_clock();

    waits = 0;
    usleep(300000);
    const uint64_t both = waits;
    return both >> 32 <= 1 && (uint32_t)both <= 4 + (plait_clock() - start) / 0.05;
}

static int a_thread_with_nothing_to_do_sleeps(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;

    is_rank = true;
    call.request = &request;
    CHECK(plait_barrier(*comm, &call) == PLAIT_OK && plait_wait(&request) == PLAIT_OK);
    CHECK(comes_true(naps_for_a_while())); /* it may get the processor late */
    return plait_barrier(*comm, NULL) != PLAIT_OK;
}

/* Rank 0 waits, so that the thread rests; then it starts again, and is not in the library. */
static int wait_and_start(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct job *job = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    static int32_t in[COUNT / 16], sums[2][COUNT / 16]; /* long enough that each needs the other */
    char byte = 0;

    is_rank = true;
    for_ever = true;
    call.request = &request;
    for (unsigned k = 0; k < 20; k++) {
        if (rank == 1)
            usleep(2000);
        CHECK(plait_allreduce(*comm, in, sums[rank], COUNT / 16, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(plait_wait(&request) == PLAIT_OK);
        usleep(rank == 0 ? 5000 : 0); /* the thread has gone to sleep */
        CHECK(plait_allreduce(*comm, in, sums[rank], COUNT / 16, PLAIT_INT32, PLAIT_SUM, rank == 0 ? &call : NULL) ==
              PLAIT_OK);
        CHECK(rank == 0 ? read(job->done[0], &byte, 1) == 1 : write(job->done[1], &byte, 1) == 1);
        CHECK(plait_wait(&request) == PLAIT_OK);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    return 0;
}

/* It went on resting until its sleep's time was over: steps of a fusion were not hidden behind the next computation. */
static void the_thread_that_rests_hears_of_a_new_operation(void **state)
{
    struct job job = { .nap = 0 };
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = wait_and_start, .arg = &job, .options.progress = 1 };

    assert_int_equal(pipe(job.done), 0);
    assert_int_equal(ranks_run(&r), 0);
    close(job.done[0]);
    close(job.done[1]);
}

/* What the progress thread changes meanwhile is asked for under the comm's lock: the thread sanitizer would see else. */
static int counters_are_asked_for_while_the_thread_runs_operations(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = 20000, TIMES = 100 };
    static int32_t in[2][N], out[2][N];
    struct plait_comm_stats stats;
    struct plait_comm_memory memory;
    struct plait_comm_count count = { .operations = 0 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;

    is_rank = true;
    for (uint32_t k = 0; k < TIMES; k++) {
        call.request = &r;
        in[rank][N - 1] = (int32_t)k;
        CHECK(plait_allreduce(*comm, in[rank], out[rank], N, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        plait_comm_stats(*comm, &stats);
        plait_comm_memory(*comm, &memory);
        CHECK(stats.operations >= k && memory.control > 0 && plait_comm_waited(*comm, 1 - rank) >= 0);
        CHECK(plait_comm_count(*comm, 0, &count) == PLAIT_OK && count.operations >= k && count.operations <= k + 1);
        CHECK(plait_comm_count(*comm, 7, &count) == PLAIT_ERR_ARG);
        CHECK(plait_wait(&r) == PLAIT_OK && out[rank][N - 1] == 2 * (int32_t)k);
    }
    CHECK(plait_comm_count(*comm, 0, &count) == PLAIT_OK && count.operations == TIMES); /* none is lost */
    return 0;
}

static int the_thread_has_ended_when_the_last_comm_is_destroyed(struct plait_comm **comm, uint32_t rank, void *arg)
{
    is_rank = true;
    lingers = true;
    while (!lingering)
        usleep(1000);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK && went_on);
    *comm = NULL;
    lingers = false;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thread_alone_finishes_an_operation),
        cmocka_unit_test(the_thread_sleeps_where_others_want_the_processor),
        cmocka_unit_test(the_thread_looks_around_less_while_it_waits_long),
        test_of_ranks(a_thread_with_nothing_to_do_sleeps, 2, 1, .options.progress = 1),
        cmocka_unit_test(the_thread_that_rests_hears_of_a_new_operation),
        test_of_ranks(counters_are_asked_for_while_the_thread_runs_operations, 1, 2, .options.progress = 1),
        test_of_ranks(the_thread_has_ended_when_the_last_comm_is_destroyed, 1, 1, .options.progress = 1),
    };

    return cmocka_run_group_tests_name("progress_thread", tests, NULL, NULL);
}
