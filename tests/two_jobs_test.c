/* SPDX-License-Identifier: BSD-3-Clause */
/* Two jobs on one host with one MASTER_ADDR and MASTER_PORT. No ranks of both go on together. */
#include "child.h"
#include "tier.h"
#include "unit.h"

#include <plait/launch.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;
static const char *ranks_program;
static char said[80]; /* what ranks print as their error */

/* "NAME=value NAME=value", and nothing else. */
static void set(const char *variables)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *empty[2] = { path, NULL };
    char copy[1024], *save = NULL;

    environ = empty;
    setenv("PLAIT_LOG_FILE", "/dev/null", 1);
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *v = strtok_r(copy, " ", &save); v != NULL; v = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(v, '=');
        *equals = '\0';
        setenv(v, equals + 1, 1);
    }
}

static pid_t start_rank(unsigned job, unsigned rank, unsigned nrank, const char *variables)
{
    const pid_t pid = child_fork();
    char text[16], name[16];

    if (pid > 0)
        return pid;
    set(variables);
    snprintf(text, sizeof text, "%u", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", strcmp(getenv("LOCAL_WORLD_SIZE"), "1") == 0 ? "0" : text, 1);
    snprintf(text, sizeof text, "%u", nrank);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%u", job);
    if (getenv("JOB") != NULL) /* the variable that names this job */
        setenv(getenv("JOB"), text, 1);
    assert_non_null(freopen(said, "a", stderr));
    snprintf(name, sizeof name, "%u", job);
    execl(ranks_program, ranks_program, name, NULL);
    _exit(127);
}

struct ends {
    unsigned fine, failed, mixed;
};

static void wait_for(pid_t pid, struct ends *e)
{
    const int end = child_end(pid);

    e->fine += end == 0;
    e->failed += end == 1;
    e->mixed += end == 3;
}

static struct ends run_two_jobs(unsigned nrank, const char *variables)
{
    struct ends all = { 0 };
    pid_t pids[2][4];

    for (unsigned job = 0; job < 2; job++)
        for (unsigned r = 0; r < nrank; r++)
            pids[job][r] = start_rank(job, r, nrank, variables);
    for (unsigned job = 0; job < 2; job++)
        for (unsigned r = 0; r < nrank; r++)
            wait_for(pids[job][r], &all);
    return all;
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

/* No name of a job, and one port. */
#define ON_PORT(port) "MASTER_ADDR=127.0.0.1 MASTER_PORT=" port " LOCAL_WORLD_SIZE=1 PLAIT_IFNAME==lo"
#define NAMELESS      ON_PORT("29763")

static void jobs_that_differ_in_any_name_do_not_meet(void **state)
{
    static const char *const names[] = { "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID",
                                         "SLURM_STEP_ID",       "PMIX_NAMESPACE",
                                         "PBS_JOBID",           "LSB_JOBID",
                                         "FLUX_JOB_ID",         "OMPI_MCA_ess_base_jobid" };
    char variables[256];

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(variables, sizeof variables, NAMELESS " PLAIT_TIMEOUT=60 JOB=%s", names[i]);
        const struct ends e = run_two_jobs(3, variables);
        if (e.fine != 6)
            fail_msg("jobs with another %s: %u ranks fine, %u failed, %u in a comm of both", names[i], e.fine, e.failed,
                     e.mixed);
    }
    unlink(said);
}

/* Nothing tells them apart until a rank is there twice. A comm that was made before then fails. */
static void ranks_of_two_jobs_do_not_train_together_for_long(void **state)
{
    static const char *const variables[] = { NAMELESS " PLAIT_TIMEOUT=4 TRAIN=3",
                                             NAMELESS " PLAIT_TIMEOUT=4 TRAIN=3 TORCHELASTIC_RUN_ID=none" };

    for (unsigned i = 0; i < (full() ? 40 : 4); i++) {
        const unsigned nrank = 2 + i % 2;
        const struct ends e = run_two_jobs(nrank, variables[i / 2 % 2]);
        if (e.mixed > 0 || e.fine + e.failed != 2 * nrank)
            fail_msg("start %u of two jobs of %u ranks: %u ranks fine, %u failed, %u trained with the other job's", i,
                     nrank, e.fine, e.failed, e.mixed);
    }
    assert_true(was_said("port used by another job: set MASTER_PORT or TORCHELASTIC_RUN_ID"));
    unlink(said);
}

/* 0: it does. `end`: the file that ends its training. */
static int outlive(const char *variables, const char *end)
{
    struct ends healthy = { 0 }, second = { 0 };
    char training[256];
    pid_t pids[2];

    snprintf(training, sizeof training, "%s TRAIN=%s", variables, end);
    for (unsigned r = 0; r < 2; r++)
        pids[r] = start_rank(0, r, 2, training);
    sleep(10); /* twice PLAIT_TIMEOUT: the comm takes one at most to be created, and is young for another */
    for (unsigned k = 0; k < 2; k++)
        for (unsigned r = 0; r < 2; r++)
            wait_for(start_rank(1, r, 2, variables), &second);
    FILE *f = fopen(end, "w");
    if (f == NULL || fclose(f) != 0)
        return 1;
    for (unsigned r = 0; r < 2; r++)
        wait_for(pids[r], &healthy);
    const bool right = second.failed == 4 && healthy.fine == 2 && was_said("two ranks have rank");
    if (!right)
        fprintf(stderr, "%s: %u ranks of the second job failed, %u of the first were fine\n", variables, second.failed,
                healthy.fine);
    unlink(end);
    unlink(said);
    return right ? 0 : 1;
}

/*
 * A comm that is no longer young goes on, however often another job comes to its port; on this machine and over TCP. The
 * first job trains until the other one has gone: then it creates a comm again, which is young.
 */
static void a_job_outlives_another_that_takes_its_port(void **state)
{
    static const char *const variables[] = { NAMELESS " PLAIT_TIMEOUT=5 LOCAL_WORLD_SIZE=2",
                                             ON_PORT("29764") " PLAIT_TIMEOUT=5" };
    pid_t pids[2];

    for (unsigned i = 0; i < 2; i++)
        if ((pids[i] = child_fork()) == 0) {
            char end[sizeof said + 8];
            snprintf(said + strlen(said), sizeof said - strlen(said), ".%u", i);
            snprintf(end, sizeof end, "%s.end", said);
            _exit(outlive(variables[i], end));
        }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(child_end(pids[i]), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_that_differ_in_any_name_do_not_meet),
        cmocka_unit_test(ranks_of_two_jobs_do_not_train_together_for_long),
        cmocka_unit_test(a_job_outlives_another_that_takes_its_port),
    };

    if (argc != 2)
        return 1;
    ranks_program = argv[1];
    snprintf(said, sizeof said, "/tmp/plait-two-jobs-%ld.said", (long)getpid());
    return cmocka_run_group_tests_name("two jobs", tests, NULL, NULL);
}
