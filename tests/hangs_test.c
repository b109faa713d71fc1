/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that hang in sends and receives are seen in them: from outside, in warnings, errors and the log.
 * Usage: hangs_test PLAIT_INFO
 */
#include "base/clock.h"
#include "child.h"
#include "unit_ranks.h"
#include "until.h"
#include "watch.h"

#include <plait/message.h>
#include <plait/request.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 1000

/* Rank 1 waits for rank 2's third message while those of rank 0 pass, whose last one it does not take. */
static int hang_in_messages(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic pid_t *pid = arg;
    static float v[1 << 20], w[1000];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;

    call.request = &r;
    pid[rank] = getpid();
    for (unsigned k = 0; rank > 0 && k < 2; k++)
        CHECK((rank == 2 ? plait_send(*comm, w, 100, PLAIT_FLOAT32, 1, NULL)
                         : plait_recv(*comm, w, 100, PLAIT_FLOAT32, 2, NULL)) == PLAIT_OK);
    if (rank == 1)
        CHECK(plait_recv(*comm, w, 1000, PLAIT_FLOAT32, 2, &call) == PLAIT_OK);
    for (unsigned k = 0; rank < 2 && k < MANY; k++)
        CHECK((rank == 0 ? plait_send(*comm, v, 5, PLAIT_FLOAT32, 1, NULL)
                         : plait_recv(*comm, v, 5, PLAIT_FLOAT32, 0, NULL)) == PLAIT_OK);
    if (rank == 1) {
        pid[3] = 1; /* the many have passed */
        plait_wait(&r);
    }
    if (rank == 0)
        plait_send(*comm, v, 1 << 20, PLAIT_FLOAT32, 1, NULL);
    for (;;)
        pause();
}

static pid_t run_hanging(_Atomic pid_t *pid)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = hang_in_messages, .arg = (void *)(uintptr_t)pid };

    const pid_t child = child_fork();
    if (child == 0) {
        setenv("PLAIT_CMA", "0", 1); /* the long message is staged: half of it finds room */
        r.processes = true;
        _exit(ranks_run(&r) == 3 ? 0 : 1); /* all are killed */
    }
    return child;
}

/* Dump until it is in this and waits. */
static bool comes_to(pid_t pid, const char *words, const char *whom, char *text, size_t room)
{
    for (const double until = plait_clock() + 20; plait_clock() < until; usleep(20000))
        if (dump_says(pid, words, text, room) && strstr(strstr(text, words), whom) != NULL)
            return true;
    return false;
}

static unsigned count_lines(const char *text, const char *start)
{
    unsigned n = 0;

    for (; (text = strstr(text, start)) != NULL; text++)
        n++;
    return n;
}

static void a_rank_that_hangs_in_a_message_shows_it_although_many_passed_and_when_it_is_stopped(void **state)
{
    static const char received[] = "\n  recv #3 from rank 2 (1000 float32), 4000 bytes, running, began ";
    static const char sent[] =
        "\n  send #1001 to rank 1 (1048576 float32), 4194304 bytes, running, 4 of 8 slices, began ";
    _Atomic pid_t *pid = shared_memory(4096);
    static char text[65536];
    const pid_t child = run_hanging(pid);
    assert_true(comes_true(pid[3] != 0));
    assert_true(comes_to(pid[0], sent, ", waiting for rank 1\n", text, sizeof text));
    assert_true(comes_to(pid[1], received, ", waiting for rank 2\n", text, sizeof text));
    kill(pid[1], SIGSTOP);
    assert_true(dump_says(pid[1], "(stopped)", text, sizeof text));
    assert_non_null(strstr(text, received));
    assert_non_null(strstr(text, ", waiting for rank 2\n"));
    assert_null(strstr(text, "from rank 0")); /* --last 1: what it hangs in comes first */
    assert_int_equal(dump(pid[1], "--last 1024", text, sizeof text), 0);
    assert_non_null(strstr(text, received));
    assert_int_equal(count_lines(text, "\n  recv #"), 1);
    assert_int_equal(count_lines(text, "\n  send #"), 0);
    for (unsigned r = 0; r < 3; r++)
        kill(pid[r], SIGKILL);
    assert_int_equal(child_end(child), 0);
    munmap(pid, 4096);
}

/* Rank 1 receives what nobody sends; the others wait for it in a barrier, or rank 0 in a receive. */
static int miss_a_message(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static struct heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
    const bool collective = *(const bool *)arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status status = PLAIT_OK;
    float v[8];

    plait_log_callback(hear, &h);
    call.deadline = 40;
    ranks_meet();
    if (rank == 1)
        status = plait_recv(*comm, v, 4, PLAIT_FLOAT32, 0, &call);
    else if (collective || rank == 2)
        status = plait_barrier(*comm, collective ? NULL : &call);
    else
        status = plait_recv(*comm, v, 8, PLAIT_FLOAT32, 1, NULL);
    CHECK(status == PLAIT_ERR_TIMEOUT);
    CHECK(strstr(plait_last_error(), collective
                                         ? "rank 1 has not called it, but waits in recv #1 from rank 0 (4 float32)"
                                         : "rank 1 does not send message #1 to rank 0 (8 float32), but waits in "
                                           "recv #1 from rank 0 (4 float32)") != NULL);
    const char *listed = strstr(h.all, "last operations of rank 1: recv #1 from rank 0 (4 float32), 16 bytes, ");
    CHECK(listed != NULL && strstr(listed, ", waiting for rank 0\n") != NULL);
    CHECK(rank != 0 || strstr(h.warning, "recv #1 from rank 0 (4 float32)") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void warning_error_and_log_say_in_which_message_the_awaited_rank_is(void **state)
{
    static const bool collective[] = { true, false };

    for (unsigned i = 0; i < 2; i++) {
        struct ranks r = {
            .nprocess = 3, .nthread = 1, .body = miss_a_message, .arg = (void *)(uintptr_t)&collective[i]
        };
        r.processes = true; /* each hears its own log */
        r.options.warn = 1;
        r.options.deadline = 3;
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* A wait without an end was told of no more once its look for ranks that are cut off came first. */
static int warn_without_end(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct heard *h = arg;

    if (rank == 0)
        plait_log_callback(hear, h);
    CHECK(rank == 0 || comes_true(h->n[PLAIT_LOG_WARN] > 0));
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    CHECK(rank == 1 || strstr(h->warning, "no progress for 0.2 s: rank 1 has not called it") != NULL);
    return 0;
}

static void a_wait_without_end_is_warned_of(void **state)
{
    struct heard *h = shared_memory(sizeof *h);
    const struct ranks r = { .nprocess = 2,
                             .nthread = 1,
                             .body = warn_without_end,
                             .arg = h,
                             .processes = true,
                             .options.warn = 0.2,
                             .options.deadline = 1e9 };

    pthread_mutex_init(&h->lock, NULL);
    assert_int_equal(ranks_run(&r), 0);
    munmap(h, sizeof *h);
}

/* Rank 1 asks once whether its message has come, and then does nothing for long. */
static int a_rank_that_no_longer_looks_is_not_said_to_wait(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    float v[8];
    int done;

    if (rank == 0) {
        ranks_meet();
        CHECK(plait_recv(*comm, v, 8, PLAIT_FLOAT32, 1, NULL) == PLAIT_ERR_TIMEOUT);
        CHECK(strstr(plait_last_error(), "rank 1 does not send message #1 to rank 0 (8 float32)") != NULL);
        CHECK(strstr(plait_last_error(), "waits in") == NULL);
        ranks_meet();
    } else {
        call.request = &r;
        call.deadline = 40;
        CHECK(plait_recv(*comm, v, 4, PLAIT_FLOAT32, 0, &call) == PLAIT_OK);
        CHECK(plait_test(&r, &done) == PLAIT_OK && !done);
        ranks_meet();
        ranks_meet(); /* rank 0 has given up */
        CHECK(plait_wait(&r) == PLAIT_ERR_TIMEOUT);
    }
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_hangs_in_a_message_shows_it_although_many_passed_and_when_it_is_stopped),
        cmocka_unit_test(warning_error_and_log_say_in_which_message_the_awaited_rank_is),
        cmocka_unit_test(a_wait_without_end_is_warned_of),
        test_of_ranks(a_rank_that_no_longer_looks_is_not_said_to_wait, 2, 1, .processes = true, .options.deadline = 1),
    };
    setenv("PLAIT_LOG", "info", 1); /* a failure lists last operations */

    if (argc != 2)
        return 2;
    watch_info = argv[1];
    return cmocka_run_group_tests_name("hangs", tests, NULL, NULL);
}
