/* SPDX-License-Identifier: BSD-3-Clause */
/* Children of ranks: forked at any moment, executing other programs, living longer than their parent. */
#include "child.h"
#include "ranks.h"
#include "unit.h"
#include "values.h"

#include <plait/memory.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20000

extern char **environ;

static int sum(struct plait_comm *comm, uint32_t rank, size_t count)
{
    static _Thread_local float in[COUNT], out[COUNT];

    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, 2, rank, count);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, 2, count) == 0);
    return 0;
}

static struct ranks two(int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = body, .arg = arg, .options.deadline = 20 };
    return r;
}

/* ---- What a child may do --------------------------------------------------------------------------- */

static bool refused(enum plait_status status, const char *call)
{
    char want[128];

    snprintf(want, sizeof want, "%s: comm 'the comm' belongs to rank", call);
    return status == PLAIT_ERR_ARG && strncmp(plait_last_error(), want, strlen(want)) == 0 &&
           strstr(plait_last_error(), "forked child; create a comm in the child") != NULL;
}

/* Calls of a child with its parent's comm and memory, and with a comm of its own. */
static int use_library(struct plait_comm *comm, uint32_t rank, void *memory)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *own;
    void *mine;
    float v = 3, w = 0;

    CHECK(refused(plait_allreduce(comm, &v, &w, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL), "allreduce") && w == 0);
    CHECK(refused(plait_barrier(comm, NULL), "barrier"));
    CHECK(refused(plait_comm_abort(comm, "by the child"), "plait_comm_abort"));
    CHECK(plait_comm_rank(comm) == rank && plait_comm_nrank(comm) == 2);
    CHECK(plait_mem_free(memory) == PLAIT_OK);
    o.nrank = 1;
    CHECK(plait_comm_create(&o, &own) == PLAIT_OK);
    CHECK(plait_mem_alloc(4096, &mine) == PLAIT_OK && mine != memory);
    CHECK(plait_allreduce(own, &v, mine, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && *(float *)mine == 3);
    CHECK(plait_mem_free(mine) == PLAIT_OK);
    CHECK(plait_comm_destroy(own) == PLAIT_OK);
    CHECK(refused(plait_barrier(comm, NULL), "barrier"));
    return 0;
}

/* Any pointer was taken for its parent's memory, until it had an arena of its own; then that was unknown. */
static void a_forked_child_frees_only_its_own_and_its_parents_memory(void **state)
{
    char *memory;
    void *other = malloc(1);
    int how;

    assert_int_equal(plait_mem_alloc(10000, (void **)&memory), PLAIT_OK);
    const pid_t child = fork();
    if (child == 0) {
        const bool stranger = plait_mem_free(other) == PLAIT_ERR_ARG && plait_mem_free(&how) == PLAIT_ERR_ARG;
        const bool parents = plait_mem_free(memory) == PLAIT_OK && plait_mem_free(NULL) == PLAIT_OK;
        void *own;
        if (!stranger || !parents || plait_mem_alloc(10000, &own) != PLAIT_OK)
            _exit(1);
        _exit(plait_mem_free(memory) == PLAIT_OK && plait_mem_free(other) == PLAIT_ERR_ARG &&
                      plait_mem_free(own) == PLAIT_OK && plait_mem_free(own) == PLAIT_ERR_ARG
                  ? 0
                  : 2);
    }
    assert_int_equal(child_end(child), 0);
    assert_int_equal(plait_mem_free(memory), PLAIT_OK);
    free(other);
}

static struct plait_comm *at_exit_comm;
static void *at_exit_memory;

/* As a program's own clean-up would, also in children that know nothing of it. */
static void clean_up(void)
{
    plait_mem_free(at_exit_memory);
    plait_comm_destroy(at_exit_comm);
}

static int run_children(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint32_t *memory;
    int how;

    CHECK(plait_mem_alloc(1 << 20, (void **)&memory) == PLAIT_OK);
    memory[1000] = 12345;
    at_exit_comm = *comm;
    at_exit_memory = memory;
    for (unsigned k = 0; k < 8; k++) {
        CHECK(sum(*comm, rank, k % 2 ? COUNT : 100) == 0);
        const pid_t child = fork();
        if (child == 0) {
            alarm(30);
            if (k == 0)
                atexit(clean_up);
            if (k < 2)
                exit(0);
            if (k < 5)
                _exit(use_library(*comm, rank, memory));
            plait_comm_destroy(*comm);
            const pid_t grandchild = fork();
            if (grandchild == 0)
                _exit(use_library(*comm, rank, memory));
            _exit(waitpid(grandchild, &how, 0) == grandchild && how == 0 ? use_library(*comm, rank, memory) : 1);
        }
        CHECK(sum(*comm, rank, k % 2 ? COUNT : 100) == 0);
        CHECK(child_end(child) == 0);
        CHECK(sum(*comm, rank, COUNT) == 0);
        CHECK(memory[1000] == 12345);
    }
    CHECK(plait_mem_free(memory) == PLAIT_OK);
    return 0;
}

static void a_forked_child_is_refused_and_changes_nothing(void **state)
{
    struct ranks r = two(run_children, NULL);

    r.options.name = "the comm";
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- fork() at any moment -------------------------------------------------------------------------- */

struct busy {
    struct plait_comm *comm;
    uint32_t rank;
    _Atomic bool stop;
    int failed;
};

static void *operate(void *arg)
{
    struct busy *b = arg;

    for (unsigned k = 0; k < 300 && b->failed == 0; k++)
        b->failed = sum(b->comm, b->rank, k % 3 ? COUNT : 100);
    b->stop = true;
    return NULL;
}

/* Holds the library's locks as often as possible. */
static void *churn(void *arg)
{
    struct busy *b = arg;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    void *memory;

    o.nrank = 1;
    while (!b->stop && b->failed == 0) {
        b->failed |= plait_mem_alloc(1 << 16, &memory) != PLAIT_OK || plait_comm_create(&o, &comm) != PLAIT_OK;
        if (b->failed == 0)
            b->failed |= plait_comm_destroy(comm) != PLAIT_OK || plait_mem_free(memory) != PLAIT_OK;
    }
    return NULL;
}

static int fork_all_the_time(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct busy b = { .comm = *comm, .rank = rank };
    pthread_t threads[2];
    void *memory;
    int bad = 0;

    CHECK(plait_mem_alloc(4096, &memory) == PLAIT_OK);
    pthread_create(&threads[0], NULL, operate, &b);
    pthread_create(&threads[1], NULL, churn, &b);
    for (unsigned k = 0; k < 40 || !b.stop; k++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(30);
            _exit(use_library(*comm, rank, memory));
        }
        bad |= child_end(child) != 0;
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(bad == 0 && b.failed == 0);
    return 0;
}

static void fork_in_the_middle_of_operations_of_other_threads(void **state)
{
    struct ranks r = two(fork_all_the_time, NULL);

    r.options.name = "the comm";
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- A child that outlives its parent -------------------------------------------------------------- */

struct orphan {
    _Atomic int pid;
};

static void live_on(struct orphan *o)
{
    const pid_t child = fork();

    if (child == 0) {
        alarm(60);
        for (;;)
            pause();
    }
    o->pid = child;
}

static int die_and_leave_a_child(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct orphan *o = arg;

    CHECK(sum(*comm, rank, 100) == 0);
    if (rank == 1) {
        live_on(o);
        raise(SIGKILL);
    }
    static float v[COUNT];
    CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_PEER);
    CHECK(strstr(plait_last_error(), "rank 1 (process ") != NULL && strstr(plait_last_error(), "died") != NULL);
    CHECK(o->pid != 0 && kill(o->pid, 0) == 0);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_child_does_not_hide_its_parents_death(void **state)
{
    struct orphan *o = shared_memory(sizeof *o);
    const struct ranks r = two(die_and_leave_a_child, o);

    assert_int_equal(ranks_run(&r), 1); /* the killed one */
    kill(o->pid, SIGKILL);
    munmap(o, sizeof *o);
}

/* ---- Programs that are executed -------------------------------------------------------------------- */

static const char *self;

/* In a program just executed: descriptors it has. */
static int count_own(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    return d != NULL ? n : 255;
}

/* Descriptors of a program executed now; -1: it could not be. */
static int count_in_program(void)
{
    char *argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t) "--count-descriptors", NULL };
    pid_t pid;
    int how;

    if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0 || waitpid(pid, &how, 0) != pid || !WIFEXITED(how))
        return -1;
    return WEXITSTATUS(how);
}

static int leave_by_vfork(void)
{
    int how;
    const pid_t child = vfork();

    if (child == 0)
        _exit(0);
    return waitpid(child, &how, 0) == child ? how : -1;
}

static int count_while_busy(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int before = *(int *)arg;
    struct busy b = { .comm = *comm, .rank = rank };
    pthread_t threads[2];
    int bad = 0;

    CHECK(count_in_program() == before);
    pthread_create(&threads[0], NULL, operate, &b);
    pthread_create(&threads[1], NULL, churn, &b);
    for (unsigned k = 0; k < 20 || !b.stop; k++) {
        bad |= count_in_program() != before;
        bad |= system("exit 0") != 0;
        bad |= leave_by_vfork() != 0;
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(bad == 0 && b.failed == 0);
    return 0;
}

static void an_executed_program_inherits_no_descriptor(void **state)
{
    int before = count_in_program();
    const struct ranks r = two(count_while_busy, &before);

    assert_true(before > 0 && before < 255);
    assert_int_equal(ranks_run(&r), 0);
}

struct meetings {
    struct plait_unique_id id[50];
    int before;
};

static void *meet_often(void *arg)
{
    struct busy *b = ((void **)arg)[0];
    struct meetings *m = ((void **)arg)[1];

    for (unsigned k = 0; k < 50 && b->failed == 0; k++) {
        struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
        struct plait_comm *comm;
        o.nrank = 2;
        o.rank = b->rank;
        o.id = &m->id[k];
        b->failed |= plait_comm_create(&o, &comm) != PLAIT_OK;
        b->failed |= b->failed == 0 && plait_comm_destroy(comm) != PLAIT_OK;
    }
    b->stop = true;
    return NULL;
}

static int count_during_creation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct meetings *m = arg;
    struct busy b = { .rank = rank };
    void *both[] = { &b, m };
    pthread_t thread;
    int bad = 0;

    pthread_create(&thread, NULL, meet_often, both);
    while (!b.stop)
        bad |= count_in_program() != m->before;
    pthread_join(thread, NULL);
    CHECK(bad == 0 && b.failed == 0);
    return 0;
}

static void nor_while_another_thread_creates_comms(void **state)
{
    struct meetings m = { .before = count_in_program() };
    struct ranks r = two(count_during_creation, &m);

    for (unsigned k = 0; k < 50; k++)
        assert_int_equal(plait_unique_id_create(&m.id[k]), PLAIT_OK);
    r.no_comm = true;
    assert_int_equal(ranks_run(&r), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_is_refused_and_changes_nothing),
        cmocka_unit_test(fork_in_the_middle_of_operations_of_other_threads),
        cmocka_unit_test(a_child_does_not_hide_its_parents_death),
        cmocka_unit_test(an_executed_program_inherits_no_descriptor),
        cmocka_unit_test(nor_while_another_thread_creates_comms),
        cmocka_unit_test(a_forked_child_frees_only_its_own_and_its_parents_memory),
    };

    if (argc == 2 && strcmp(argv[1], "--count-descriptors") == 0)
        return count_own();
    self = argv[0];
#ifdef __SANITIZE_ADDRESS__ /* its allocator's locks stay as another thread left them: gcc 12's knows nothing of \
                               fork() */
    cmocka_set_skip_filter("fork_in_the_middle_of_operations_of_other_threads");
#endif
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
