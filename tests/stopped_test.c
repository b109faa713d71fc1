/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines where a process was stopped, or does not call for long: that time does not count in full, and yet every wait
 * ends. The clock is the test's own: it moves when it is read, in sleeps and in jumps.
 */
#include "pending.h"
#include "unit.h"

#include <plait/message.h>
#include <plait/request.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define READ_NS  1000000  /* by which the clock moves when it is read */
#define SLEEP_NS 10000000 /* and in a sleep, which is none */

static atomic_bool own_clock;
static _Atomic int64_t base, moved, jumped; /* nanoseconds: at the beginning; since then, by moving and by jumping */
static _Atomic int64_t jump_at, jump;       /* when it has moved so far it jumps that far, once */

int __real_clock_gettime(clockid_t which, struct timespec *t);
int __wrap_clock_gettime(clockid_t which, struct timespec *t);
int __wrap_clock_gettime(clockid_t which, struct timespec *t)
{
    if (!own_clock || which != CLOCK_MONOTONIC)
        return __real_clock_gettime(which, t);
    const int64_t far = atomic_fetch_add(&moved, READ_NS);
    if (far >= jump_at)
        jumped += atomic_exchange(&jump, 0);
    const int64_t now = base + far + jumped;
    *t = (struct timespec){ .tv_sec = now / 1000000000, .tv_nsec = now % 1000000000 };
    return 0;
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
    if (number != SYS_futex_waitv || !own_clock)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    moved += SLEEP_NS;
    errno = ETIMEDOUT;
    return -1;
}

static atomic_bool away, over; /* rank 1 has its comm; rank 0 is done */

/* nrank: of the comm; the others must have it before time jumps for them too. */
static void take_the_clock(uint32_t nrank)
{
    struct timespec t;

    while (nrank > 1 && !away)
        usleep(1000);
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    base = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    moved = jumped = 0;
    own_clock = true;
}

struct wait {
    bool collective; /* that rank 1 does not call; else a message to itself, which it does not send */
    double deadline;
    double jump;   /* seconds between two tests; of the stop */
    double counts; /* of it */
};

static const struct wait waits[] = {
    { false, 100, 3, 2 },
    { false, 1, 3, 0.25 },
    { true, 100, 1000, 2 },
    { true, 4, 1000, 1 },
};

static int leave(struct plait_comm **comm)
{
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static int stay_away(struct plait_comm **comm)
{
    away = true;
    while (!over)
        usleep(1000);
    return leave(comm);
}

static enum plait_status begin(struct plait_comm *comm, const struct wait *w, struct plait_request **r)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    static int32_t got;

    call.deadline = w->deadline;
    call.request = r;
    return w->collective ? plait_barrier(comm, &call) : plait_recv(comm, &got, 1, PLAIT_INT32, 0, &call);
}

/* The number of tests follows from what counts of the time between two. */
static int poll_rarely(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct wait *w = arg;
    const unsigned expected = (unsigned)(w->deadline / w->counts);
    enum plait_status status;
    struct plait_request *r;
    unsigned polls = 0;
    int done;

    if (rank == 1)
        return stay_away(comm);
    take_the_clock(plait_comm_nrank(*comm));
    CHECK(begin(*comm, w, &r) == PLAIT_OK);
    do {
        jumped += (int64_t)(w->jump * 1e9);
        status = plait_test(&r, &done);
    } while (status == PLAIT_OK && !done && ++polls < 10 * expected);
    own_clock = false;
    over = true;
    CHECK(status == PLAIT_ERR_TIMEOUT && strstr(plait_last_error(), "no progress for ") != NULL);
    fprintf(stderr, "%s, deadline %g s, tested every %g s: ended at test %u\n", w->collective ? "barrier" : "recv",
            w->deadline, w->jump, polls + 1);
    CHECK(polls >= expected - 2 && polls <= expected + 1);
    return leave(comm);
}

static void a_request_polled_rarely_ends(void **state)
{
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++)
        run(1, waits[i].collective ? 2 : 1, poll_rarely, (void *)(uintptr_t)&waits[i]);
}

/* In the middle of the wait the process is stopped. */
static int stop_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct wait *w = arg;
    struct plait_request *r;

    if (rank == 1)
        return stay_away(comm);
    jump_at = (int64_t)(w->deadline / 2 * 1e9);
    jump = (int64_t)(w->jump * 1e9);
    take_the_clock(plait_comm_nrank(*comm));
    CHECK(begin(*comm, w, &r) == PLAIT_OK);
    const enum plait_status status = plait_wait(&r);
    const double waited = 1e-9 * (double)moved;
    own_clock = false;
    over = true;
    CHECK(status == PLAIT_ERR_TIMEOUT && jump == 0);
    fprintf(stderr, "%s, deadline %g s, stopped for %g s: ended after %.2f s besides\n",
            w->collective ? "barrier" : "recv", w->deadline, w->jump, waited);
    CHECK(waited >= w->deadline - w->counts && waited <= w->deadline - w->counts + 1);
    return leave(comm);
}

static void a_stop_counts_in_part(void **state)
{
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++)
        run(1, waits[i].collective ? 2 : 1, stop_once, (void *)(uintptr_t)&waits[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_polled_rarely_ends),
        cmocka_unit_test(a_stop_counts_in_part),
    };

    return cmocka_run_group_tests_name("stopped", tests, NULL, NULL);
}
