/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks did last, seen from outside, in warnings, errors and the log. Usage: ring_test PLAIT_INFO */
#include "base/clock.h"
#include "child.h"
#include "memory/arena.h"
#include "ranks.h"
#include "unit.h"
#include "until.h"
#include "watch.h"

#include <plait/log.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT ((size_t)1 << 20) /* 4 MiB of float32 */

/* ---- A rank that is stopped ------------------------------------------------------------------------- */

struct scene {
    struct plait_unique_id id;
    _Atomic unsigned running;
    pid_t pid[3];
    char error[3][1024];
};

static void rank_main(struct scene *s, uint32_t rank)
{
    struct plait_comm_options o = options_of_rank(3, rank, &s->id);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *comm;
    float *v = calloc(COUNT, sizeof *v);

    o.name = "scene";
    o.deadline = 60;
    call.algorithm = "ring"; /* everyone receives from one rank only */
    call.slice = 256 << 10;
    if (v == NULL || plait_comm_create(&o, &comm) != PLAIT_OK)
        _exit(1);
    for (unsigned n = 0; plait_allreduce(comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK; n++)
        s->running += n == 0;
    snprintf(s->error[rank], sizeof s->error[rank], "%s", plait_last_error());
    plait_comm_destroy(comm);
    _exit(0);
}

static void start_scene(struct scene *s)
{
    assert_int_equal(plait_unique_id_create(&s->id), PLAIT_OK);
    for (uint32_t r = 0; r < 3; r++) {
        const pid_t pid = child_fork(); /* the scene is shared: only the parent may write it there */
        if (pid == 0)
            rank_main(s, r);
        s->pid[r] = pid;
    }
    assert_true(comes_true(s->running == 3));
}

/* The operation that a rank is in, from its dump. */
static unsigned operation_in(const char *text)
{
    const char *at = strstr(text, "  allreduce #");
    unsigned n = 0;

    assert_non_null(at);
    assert_int_equal(sscanf(at, "  allreduce #%u (1048576 float32 sum, ring), 4194304 bytes, ", &n), 1);
    return n;
}

/* What the others come to by themselves, they have come to some time after this; if not, the caller tries again. */
static bool stop_and_dump(pid_t pid, const char *words, char *text, size_t room)
{
    usleep(20000);
    if (dump(pid, "--last 1", text, room) != 0 || strstr(text, words) == NULL)
        return false;
    kill(pid, SIGSTOP);
    assert_true(dump_says(pid, "(stopped)", text, room));
    return strstr(text, words) != NULL;
}

/* Rank 0 stopped inside an operation, rank 1 while it waits for it; rank 2 waits for one of them in the same one. */
static bool stop_two(struct scene *s, char text[3][4096])
{
    kill(s->pid[0], SIGCONT);
    kill(s->pid[1], SIGCONT);
    usleep(10000);
    kill(s->pid[0], SIGSTOP);
    assert_true(dump_says(s->pid[0], "(stopped)", text[0], sizeof text[0]));
    if (strstr(text[0], ", running, ") == NULL ||
        !stop_and_dump(s->pid[1], ", waiting for rank 0\n", text[1], sizeof text[1]))
        return false;
    usleep(20000);
    return dump(s->pid[2], "--last 1", text[2], sizeof text[2]) == 0 &&
           strstr(text[2], ", waiting for rank ") != NULL && operation_in(text[1]) == operation_in(text[0]) &&
           operation_in(text[2]) == operation_in(text[0]); /* rank 0 may have given all, and the others be ahead */
}

static void the_dump_of_stopped_and_waiting_ranks_names_operation_progress_and_whom(void **state)
{
    struct scene *s = shared_memory(sizeof *s);
    char text[3][4096];
    unsigned steps, of, tries = 0;

    start_scene(s);
    while (!stop_two(s, text))
        assert_true(tries++ < 200);
    assert_non_null(strstr(text[0], "comm 'scene', rank 0 of 3: "));
    assert_int_equal(sscanf(strstr(text[0], " slices, "), " slices, %u of %u steps, began ", &steps, &of), 2);
    assert_true(of > 16 && steps < of);                   /* 16 slices of a few steps each */
    assert_null(strstr(text[2], ", waiting for rank 2")); /* rank 1: its data; rank 0: to take some */
    assert_non_null(strstr(text[2], ", running, "));

    kill(s->pid[0], SIGKILL); /* rank 2 tells, and rank 1, which cannot know, still shows what it did */
    child_end(s->pid[2]);
    assert_non_null(strstr(s->error[2], "comm 'scene', allreduce #"));
    assert_non_null(strstr(s->error[2], " steps: rank 0 (process "));
    assert_true(dump_says(s->pid[1], ", waiting for rank 0\n", text[1], sizeof text[1]));
    for (unsigned r = 0; r < 2; r++) {
        kill(s->pid[r], SIGKILL);
        child_end(s->pid[r]);
    }
    munmap(s, sizeof *s);
}

/* ---- Warnings, errors and the log -------------------------------------------------------------------- */

static enum plait_status sum(struct plait_comm *comm, size_t count)
{
    static _Thread_local float in[5000], out[5000];
    return plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL);
}

static int stall(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static struct heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static const char absent[] = "rank 2 has not called it";
    const size_t count = *(const size_t *)arg;
    char warning[1024], error[1024], expected[160], listed[160];

    plait_log_callback(hear, &h);
    for (unsigned i = 0; i < 9; i++)
        CHECK(sum(*comm, count) == PLAIT_OK);
    if (rank == 2) {
        ranks_meet();
        CHECK(sum(*comm, count) == PLAIT_ERR_TIMEOUT);
        return plait_comm_destroy(*comm) == PLAIT_ERR_TIMEOUT ? (*comm = NULL, 0) : 1;
    }
    CHECK(sum(*comm, count) == PLAIT_ERR_TIMEOUT);
    ranks_meet();
    snprintf(error, sizeof error, "%s", plait_last_error());
    snprintf(warning, sizeof warning, "%s", h.warning);
    snprintf(expected, sizeof expected, "comm 'stalls', allreduce #10 (%zu float32 sum, ", count);
    CHECK(strncmp(error, expected, strlen(expected)) == 0);
    CHECK(strstr(error, " s: ") != NULL && strstr(strstr(error, " s: "), absent) == strstr(error, " s: ") + 4);
    CHECK(strstr(error, " steps: rank ") != NULL);
    if (strstr(error, rank == 0 ? ": rank 0: " : ": rank 1: ") != NULL) { /* this rank was the first: its own words */
        CHECK(h.n[PLAIT_LOG_WARN] == 1);
        char *words = strstr(warning, "no progress for 1.5 s"), *same = strstr(error, "no progress for 3.5 s");
        CHECK(words != NULL && same != NULL);
        words[16] = same[16] = words[18] = same[18] = '_';
        strstr(error, absent)[strlen(absent)] = '\0'; /* what follows is said of each moment */
        const char *comm_on = strstr(warning, "comm '");
        CHECK(comm_on != NULL && strncmp(comm_on, error, strlen(error)) == 0);
    }
    /* The log has the failure once, and the last operations of this rank and of the one at fault. */
    const char *first = strstr(h.all, " fails: ");
    CHECK(first != NULL && strstr(first + 1, " fails: ") == NULL);
    snprintf(listed, sizeof listed, "last operations of rank %u: allreduce #10 (", rank);
    CHECK(strstr(h.all, listed) != NULL);
    CHECK(strstr(h.all, "last operations of rank 2: allreduce #9 (") != NULL);
    CHECK(strstr(h.all, "last operations of rank 2: allreduce #10 (") == NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_TIMEOUT);
    *comm = NULL;
    first = strstr(h.all, " fails: ");
    CHECK(first != NULL && strstr(first + 1, " fails: ") == NULL);
    return 0;
}

static void warning_and_error_of_a_stall_say_the_same(void **state)
{
    static const size_t counts[] = { 1, 5000 };

    for (unsigned i = 0; i < 2; i++) {
        struct ranks r = { .nprocess = 3,
                           .nthread = 1,
                           .body = stall,
                           .arg = (void *)(uintptr_t)&counts[i],
                           .options.name = "stalls",
                           .options.warn = 1.5,
                           .options.deadline = 3.5 };
        assert_int_equal(ranks_run(&r), 0);
    }
}

static void stop_here(int number)
{
    raise(SIGSTOP);
}

/* Rank 1 waits long for rank 0, and is stopped in the next operation when it reads its own vector. */
static int stop_after_a_long_wait(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic pid_t *stopped = arg;
    float one = 1, sum = 0, *in = &one;

    if (rank == 0)
        usleep(100000);
    CHECK(plait_allreduce(*comm, in, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    if (rank == 1) {
        in = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(in != MAP_FAILED);
        signal(SIGSEGV, stop_here);
        *stopped = getpid();
    }
    CHECK(plait_allreduce(*comm, in, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_TIMEOUT);
    CHECK(*stopped > 0 && kill(*stopped, SIGKILL) == 0);
    CHECK(strstr(plait_last_error(), "rank 1 has entered the operation but does not respond") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* What a rank last waited for was taken for what it waits for now: "ranks wait for each other". */
static void a_wait_that_is_over_is_nobodys_excuse(void **state)
{
    _Atomic pid_t *stopped = shared_memory(4096);
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = stop_after_a_long_wait, .arg = stopped };

    r.options.deadline = 3;
    assert_int_equal(ranks_run(&r), 1); /* the killed one */
    munmap(stopped, 4096);
}

static int run_out_of_arena(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t count = 1 << 20;
    float *v = calloc(count, sizeof *v);

    enum plait_status status = sum(*comm, 1); /* a late rank may be told of the second call in the first */
    if (status == PLAIT_OK)
        status = plait_allreduce(*comm, v, v, count, PLAIT_FLOAT32, PLAIT_SUM, NULL);
    CHECK(v != NULL && status == PLAIT_ERR_NOMEM);
    CHECK(strstr(plait_last_error(), "comm 'comm', allreduce #2 (1048576 float32 sum, ") != NULL);
    free(v);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* The operation before was named, which had succeeded. */
static void an_operation_that_finds_no_memory_is_named(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = run_out_of_arena };

    setenv("PLAIT_ARENA", "256K", 1);
    assert_int_equal(ranks_run(&r), 0);
    unsetenv("PLAIT_ARENA");
}

/* ---- Processes that have nothing to show --------------------------------------------------------------- */

static void assert_refused(pid_t pid, const char *words)
{
    char text[4096];
    const int status = dump(pid, "", text, sizeof text);

    if (status != 1 || strstr(text, words) == NULL)
        fail_msg("plait-info --dump %d: status %d, no '%s' in: %s", (int)pid, status, words, text);
}

static pid_t start(void (*body)(void))
{
    const pid_t pid = child_fork();

    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    assert_true(pid > 0);
    kill(pid, SIGKILL);
    child_end(pid);
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void end_at_once(void)
{
}

/* As a later version of the library would. */
static void make_other_arena(void)
{
    const int fd = memfd_create("plait", MFD_CLOEXEC);
    struct plait_arena_header h = { PLAIT_ARENA_MAGIC, 99, (int32_t)getpid(), "9.8.7", { { 0, 0 } }, 0 };

    if (fd < 0 || write(fd, &h, sizeof h) != sizeof h)
        _exit(1);
    wait_for_ever();
}

static void a_process_without_an_arena_is_refused_with_the_reason(void **state)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    char text[4096];

    assert_refused(999999999, "no such process");
    pid_t pid = start(end_at_once);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_refused(pid, "it has ended");
    end(pid);
    pid = start(wait_for_ever);
    assert_refused(pid, "it has no arena of Plait");
    end(pid);
    pid = start(make_other_arena);
    for (const double until = plait_clock() + 10; plait_clock() < until && dump(pid, "", text, sizeof text) == 1;)
        if (strstr(text, "9.8.7") != NULL)
            break;
    assert_refused(pid, "runs Plait 9.8.7, whose arena has layout 99");
    end(pid);

    /* A forked child has its parent's descriptors, but its parent's comms are not its own. */
    o.nrank = 1;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    pid = start(wait_for_ever);
    assert_refused(pid, "it has no arena of Plait");
    end(pid);
    assert_int_equal(dump(getpid(), "", text, sizeof text), 0);
    assert_non_null(strstr(text, "comm 'comm', rank 0 of 1: 0 operations completed\n"));
    assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
}

static void a_process_of_another_user_is_refused_with_the_remedy(void **state)
{
    char command[512], text[1024] = "";

    if (geteuid() == 0) {
        snprintf(command, sizeof command, "setpriv --reuid 65534 --regid 65534 --clear-groups %s --dump %d 2>&1",
                 watch_info, (int)getpid());
    } else {
        snprintf(command, sizeof command, "%s --dump 1 2>&1", watch_info);
    }
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    const int how = pclose(f);
    if (WEXITSTATUS(how) == 127 || strstr(text, "setpriv:") != NULL) {
        print_message("another user cannot run plait-info here: %s\n", text);
        skip();
    }
    assert_int_equal(WEXITSTATUS(how), 1);
    assert_non_null(strstr(text, "Permission denied; run plait-info as the user of that process, or as root"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dump_of_stopped_and_waiting_ranks_names_operation_progress_and_whom),
        cmocka_unit_test(warning_and_error_of_a_stall_say_the_same),
        cmocka_unit_test(a_wait_that_is_over_is_nobodys_excuse),
        cmocka_unit_test(an_operation_that_finds_no_memory_is_named),
        cmocka_unit_test(a_process_without_an_arena_is_refused_with_the_reason),
        cmocka_unit_test(a_process_of_another_user_is_refused_with_the_remedy),
    };
    setenv("PLAIT_LOG", "info", 1); /* a failure lists last operations */

    if (argc != 2)
        return 2;
    watch_info = argv[1];
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
