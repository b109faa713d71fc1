/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nothing is left behind: ranks that are killed leave no process, file or socket, because there never is
 * a file and the rendezvous has no name in the file system.
 */
#include "child.h"
#include "ranks.h"
#include "unit.h"
#include "until.h"
#include "values.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NRANK 4
#define COUNT ((size_t)1 << 22)

struct scene { /* shared by the test and its ranks */
    struct plait_unique_id id;
    _Atomic unsigned running;  /* ranks that have finished an operation and are in another */
    _Atomic int status[NRANK]; /* of the operation that failed */
    char text[NRANK][512];
    pid_t pid[NRANK];
};

/* All-reduce until somebody is gone. */
static void rank_main(struct scene *s, uint32_t rank)
{
    struct plait_comm_options o = options_of_rank(NRANK, rank, &s->id);
    struct plait_comm *comm;
    float *v = malloc(COUNT * sizeof *v);
    enum plait_status status;

    o.deadline = 20;
    if (v == NULL || plait_comm_create(&o, &comm) != PLAIT_OK)
        _exit(1);
    memset(v, 0, COUNT * sizeof *v);
    for (unsigned n = 0; (status = plait_allreduce(comm, v, v, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL)) == PLAIT_OK; n++)
        s->running += n == 0;
    strncpy(s->text[rank], plait_last_error(), sizeof s->text[rank] - 1);
    s->status[rank] = status;
    plait_comm_destroy(comm);
    _exit(0);
}

static struct scene *open_scene(unsigned nrank)
{
    struct scene *s = shared_memory(sizeof *s);

    assert_int_equal(plait_unique_id_create(&s->id), PLAIT_OK);
    for (uint32_t r = 0; r < nrank; r++) {
        const pid_t pid = child_fork();
        if (pid == 0)
            rank_main(s, r);
        s->pid[r] = pid;
    }
    return s;
}

/* Is there a Unix socket with this id's name? */
static bool socket_exists(struct scene *s)
{
    char line[512];
    bool found = false;
    FILE *f = fopen("/proc/net/unix", "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        found |= strstr(line, (const char *)s->id.bytes) != NULL;
    fclose(f);
    return found;
}

/* Nothing that a rank has open or has mapped shared lies where shared memory and sockets have names. */
static void assert_no_named_file(pid_t pid)
{
    char path[64], line[1024], target[1024];
    FILE *f;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    assert_non_null(f = fopen(path, "r"));
    bool arena = false;
    while (fgets(line, sizeof line, f) != NULL) {
        assert_null(strstr(line, "/dev/shm/"));
        assert_true(strstr(line, "-s ") == NULL || strstr(line, " /tmp/") == NULL);
        arena |= strstr(line, "/memfd:plait") != NULL;
    }
    fclose(f);
    assert_true(arena); /* else this looked at the wrong process */
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    assert_non_null(d = opendir(path));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        const bool named = strncmp(target, "/dev/shm/", 9) == 0 || strncmp(target, "/tmp/", 5) == 0;
        assert_true(!named || atoi(e->d_name) <= 2); /* output may go to a file */
    }
    closedir(d);
}

static void close_scene(struct scene *s)
{
    munmap(s, sizeof *s);
}

static void one_killed_rank_leaves_nothing_and_the_others_name_it(void **state)
{
    for (uint32_t dead = 0; dead < NRANK; dead += 3) {
        struct scene *s = open_scene(NRANK);
        char want[64];
        assert_true(comes_true(s->running == NRANK));
        assert_no_named_file(s->pid[dead]);
        assert_false(socket_exists(s)); /* the rendezvous is over */
        kill(s->pid[dead], SIGKILL);
        snprintf(want, sizeof want, "rank %u (process %d) died", dead, (int)s->pid[dead]);
        for (uint32_t r = 0; r < NRANK; r++) {
            assert_int_equal(child_end(s->pid[r]), r == dead ? -SIGKILL : 0);
            if (r != dead)
                assert_int_equal(s->status[r], PLAIT_ERR_PEER);
            if (r != dead && strstr(s->text[r], want) == NULL)
                fail_msg("rank %u says '%s', not '%s'", r, s->text[r], want);
        }
        close_scene(s);
    }
}

static void ranks_that_are_all_killed_leave_nothing(void **state)
{
    struct scene *s = open_scene(NRANK);

    assert_true(comes_true(s->running == NRANK));
    for (uint32_t r = 0; r < NRANK; r++) {
        assert_no_named_file(s->pid[r]);
        kill(s->pid[r], SIGSTOP); /* all in the middle of it */
    }
    for (uint32_t r = 0; r < NRANK; r++)
        kill(s->pid[r], SIGKILL);
    for (uint32_t r = 0; r < NRANK; r++)
        child_end(s->pid[r]);
    assert_false(socket_exists(s));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and no process of theirs */
    close_scene(s);
}

static void a_root_killed_while_it_waits_takes_its_socket_along(void **state)
{
    struct scene *s = open_scene(1);

    assert_true(comes_true(socket_exists(s)));
    kill(s->pid[0], SIGKILL);
    child_end(s->pid[0]);
    assert_false(socket_exists(s));
    close_scene(s);
}

static int sum_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static float in[5000], out[5000];

    for (size_t count = 10; count <= 5000; count += 4990) {
        values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, 64, rank, count);
        CHECK(plait_allreduce(*comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
        CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, 64, count) == 0);
    }
    return 0;
}

static void sixty_four_processes_meet_and_part(void **state)
{
    const struct ranks r = { .nprocess = 64, .nthread = 1, .limit = 120, .body = sum_once, .processes = true };

    assert_int_equal(ranks_run(&r), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_killed_rank_leaves_nothing_and_the_others_name_it),
        cmocka_unit_test(ranks_that_are_all_killed_leave_nothing),
        cmocka_unit_test(a_root_killed_while_it_waits_takes_its_socket_along),
        cmocka_unit_test(sixty_four_processes_meet_and_part),
    };

    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
