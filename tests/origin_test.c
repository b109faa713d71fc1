/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs without a name: whose ranks belong together, and which of two jobs on one port ends. Scripts are what people write. */
#include "child.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/plait-origin-XXXXXX", said[64], stop[64];

/* ---- Scripts, which have the program as $PROGRAM -------------------------------------------------------------------- */

/* A shell of its own, which is a launcher: nothing of a rank is in its environment. */
static pid_t start(const char *script, int out)
{
    const pid_t pid = child_fork();

    if (pid > 0)
        return pid;
    if (out >= 0)
        dup2(out, STDOUT_FILENO);
    const int fd = open(said, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", script, NULL);
    _exit(127);
}

static bool was_said(const char *text)
{
    FILE *f = fopen(said, "r");
    char line[1024];
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strstr(line, text) != NULL;
    if (f != NULL)
        fclose(f);
    return found;
}

/* A start of two ranks: `variables` are both's, `with` runs a rank, "sh -c '$PROGRAM; exit $?'". */
#define LOOP(variables, with)                                                             \
    "for r in 0 1; do export RANK=$r; " variables " " with " & pids=\"$pids $!\"; done; " \
    "for p in $pids; do wait $p || exit 1; done"

#define RANK(r, variables) "export RANK=" #r " " variables "; $PROGRAM; exit $?"

static void assert_two_meet(const char *first, const char *second)
{
    const pid_t a = start(first, -1), b = start(second, -1);
    const int ends[] = { child_end(a), child_end(b) };

    if (ends[0] != 0 || ends[1] != 0)
        fail_msg("'%s' ends with %d, '%s' with %d", first, ends[0], second, ends[1]);
}

static void assert_meets(const char *script)
{
    const int end = child_end(start(script, -1));

    if (end != 0)
        fail_msg("'%s' ends with %d", script, end);
}

/* ---- Who belongs together ------------------------------------------------------------------------------------------- */

static void ranks_of_two_launchers_are_refused(void **state)
{
    static const char *const places[] = { "", "LOCAL_WORLD_SIZE=2" }; /* over TCP, and on this machine */

    for (unsigned i = 0; i < 4; i++) {
        setenv("LOCAL_WORLD_SIZE", i % 2 == 0 ? "" : "2", 1);
        const pid_t a = start(RANK(0, ""), -1), b = start(RANK(1, ""), -1);
        const int ends[] = { child_end(a), child_end(b) };
        if (ends[0] != 1 || ends[1] != 1)
            fail_msg("%s: two launchers' ranks end with %d and %d", places[i % 2], ends[0], ends[1]);
        assert_true(was_said("two launchers on one host started ranks 0 and 1: port used by another job"));
        assert_true(was_said("a wrapper script each, which TORCHELASTIC_RUN_ID fixes"));
        unlink(said);
    }
    unsetenv("LOCAL_WORLD_SIZE");
    assert_two_meet(RANK(0, "TORCHELASTIC_RUN_ID=by-hand"), RANK(1, "TORCHELASTIC_RUN_ID=by-hand"));
}

static void agents_of_torchrun_on_one_host_belong_together(void **state)
{
    assert_two_meet(RANK(0, "GROUP_RANK=0"), RANK(1, "GROUP_RANK=1"));
}

static void ranks_in_wrappers_belong_together(void **state)
{
    assert_meets(LOOP("", "sh -c '$PROGRAM; exit $?'"));
    assert_meets(LOOP("", "sh -c '$PROGRAM | cat; exit 0'"));
    /* A wrapper makes RANK of what its launcher says. */
    assert_meets(LOOP("env -u RANK PMI_SIZE=2 PMI_RANK=$r", "sh -c 'export RANK=$PMI_RANK; $PROGRAM; exit $?'"));
    assert_meets(LOOP("env -u RANK OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$r",
                      "sh -c 'export RANK=$OMPI_COMM_WORLD_RANK; sh -c \"$PROGRAM; exit \\$?\"; exit $?'"));
    assert_meets(LOOP("env -u RANK PMIX_RANK=$r", "sh -c 'export RANK=$PMIX_RANK; $PROGRAM; exit $?'"));
}

/* It may be an agent, or a shell at work, which starts ranks itself. */
static void one_of_other_many_is_no_wrapper(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *const scripts[] = {
            LOOP("env -u RANK PMI_SIZE=1 PMI_RANK=0", "sh -c 'export RANK='$r'; $PROGRAM; exit $?'"),
            LOOP("env -u RANK SLURM_STEP_ID=1 SLURM_NTASKS=4 SLURM_PROCID=$r PMIX_RANK=$r",
                 "sh -c 'export RANK='$r'; $PROGRAM; exit $?'"),
        };
        assert_int_equal(child_end(start(scripts[i], -1)), 1);
        assert_true(was_said("two launchers on one host"));
        unlink(said);
    }
}

/* No other job has its id. A step of another number of processes may have started several jobs. */
static void ranks_of_a_named_step_are_not_compared(void **state)
{
    assert_two_meet(RANK(0, "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_NTASKS=2 SLURM_PROCID=0"),
                    RANK(1, "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_NTASKS=2 SLURM_PROCID=1"));
    assert_two_meet(RANK(0, "PMIX_NAMESPACE=x OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0"),
                    RANK(1, "PMIX_NAMESPACE=x OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1"));
    assert_true(!was_said("two launchers"));
    const pid_t a = start(RANK(0, "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_NTASKS=1 SLURM_PROCID=0"), -1),
                b = start(RANK(1, "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_NTASKS=1 SLURM_PROCID=0"), -1);
    assert_int_equal(child_end(a), 1);
    assert_int_equal(child_end(b), 1);
    assert_true(was_said("two launchers on one host"));
    unlink(said);
}

/* ---- Which of two jobs ends ----------------------------------------------------------------------------------------- */

/* One that runs ends well, however often another comes to its port; on this machine and over TCP. */
static void a_job_outlives_another_that_takes_its_port(void **state)
{
    static const char job[] = LOOP("", "sh -c '$PROGRAM; exit $?'");
    char training[32];

    for (unsigned i = 0; i < 2; i++) {
        int ends[2];
        setenv("LOCAL_WORLD_SIZE", i == 0 ? "2" : "", 1);
        assert_int_equal(pipe(ends), 0);
        setenv("TRAIN_UNTIL", stop, 1);
        const pid_t healthy = start(job, ends[1]);
        unsetenv("TRAIN_UNTIL");
        close(ends[1]);
        FILE *f = fdopen(ends[0], "r");
        for (unsigned r = 0; r < 2; r++)
            assert_non_null(fgets(training, sizeof training, f));
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(child_end(start(job, -1)), 1);
        assert_true(was_said("two processes have rank"));
        close(open(stop, O_CREAT | O_WRONLY, 0600));
        assert_int_equal(child_end(healthy), 0);
        fclose(f);
        unlink(stop);
        unlink(said);
    }
    unsetenv("LOCAL_WORLD_SIZE");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_two_launchers_are_refused),
        cmocka_unit_test(agents_of_torchrun_on_one_host_belong_together),
        cmocka_unit_test(ranks_in_wrappers_belong_together),
        cmocka_unit_test(one_of_other_many_is_no_wrapper),
        cmocka_unit_test(ranks_of_a_named_step_are_not_compared),
        cmocka_unit_test(a_job_outlives_another_that_takes_its_port),
    };
    char port[16];

    if (argc != 2 || mkdtemp(folder) == NULL)
        return 1;
    snprintf(said, sizeof said, "%s/said", folder);
    snprintf(stop, sizeof stop, "%s/stop", folder);
    snprintf(port, sizeof port, "%ld", 30000 + (long)getpid() % 10000);
    clearenv();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    setenv("PROGRAM", argv[1], 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("PLAIT_IFNAME", "=lo", 1);
    setenv("PLAIT_TIMEOUT", "20", 1);
    setenv("PLAIT_LOG_FILE", "/dev/null", 1);
    const int failed = cmocka_run_group_tests_name("origin", tests, NULL, NULL);
    unlink(said);
    rmdir(folder);
    return failed;
}
