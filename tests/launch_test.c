/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers say is understood, or refused by name; the secret is for its owner alone; ranks meet as they were told. */
#include "child.h"
#include "unit.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/id.h"
#include "launch/launcher.h"

#include <plait/launch.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;
static const char *ranks_program;
static char home[64], said[80]; /* said: what ranks print as their error */

static int clear(void **state)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *empty[2] = { path, NULL };

    environ = empty;
    setenv("HOME", home, 1);
    setenv("PLAIT_LOG_FILE", "/dev/null", 1);
    return 0;
}

static enum plait_status look(const char *launcher, struct plait_launcher_says *out)
{
    return plait_launcher_read(launcher, out);
}

/* "A=1 B=2" */
static void set(const char *variables)
{
    char copy[1024], *save = NULL;

    clear(NULL);
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *v = strtok_r(copy, " ", &save); v != NULL; v = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(v, '=');
        *equals = '\0';
        setenv(v, equals + 1, 1);
    }
}

static void assert_refused(const char *variables, const char *says)
{
    struct plait_launch launch;

    set(variables);
    assert_int_equal(plait_launch_find(&launch), PLAIT_ERR_CONFIG);
    if (strstr(plait_last_error(), says) == NULL)
        fail_msg("'%s' does not say '%s'", plait_last_error(), says);
}

/* ---- What launchers say ------------------------------------------------------------------------------------------ */

#define TORCHRUN                                                                                   \
    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 " \
    "TORCHELASTIC_RUN_ID=job7 TORCHELASTIC_RESTART_COUNT=0"
#define SLURM                                                                                                  \
    "SLURM_PROCID=3 SLURM_NTASKS=6 SLURM_LOCALID=1 SLURM_STEP_NUM_NODES=3 SLURM_STEP_NODELIST=node[07-09,12] " \
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=2"
#define OPENMPI                                                                                                \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3 " \
    "PMIX_NAMESPACE=1234"

static void launchers_are_found_by_their_variables(void **state)
{
    struct plait_launcher_says s;

    set("X=1");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "none");
    assert_true(s.rank == 0 && s.nrank == 1);
    set(TORCHRUN);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "torchrun");
    assert_true(s.rank == 5 && s.nrank == 8 && s.local_rank == 1 && s.local_nrank == 4 && s.port == 29500);
    assert_string_equal(s.host, "127.0.0.1");
    set(SLURM);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "slurm");
    assert_true(s.rank == 3 && s.nrank == 6 && s.local_rank == 1 && s.local_nrank == 0 && s.port == 0);
    assert_string_equal(s.host, "node07");
    set(OPENMPI);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "openmpi");
    assert_true(s.rank == 2 && s.nrank == 3 && s.local_nrank == 3);
    assert_string_equal(s.host, "");
    set("MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_RANK=3 PMI_SIZE=4 " SLURM);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "mpich");
    assert_true(s.rank == 3 && s.nrank == 4 && s.local_rank == 1 && s.local_nrank == 2);
    /* Inside a Slurm job, by mpirun; by choice; and a batch script, which is no step. */
    set(SLURM " " OPENMPI);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "openmpi");
    assert_int_equal(look("slurm", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "slurm");
    assert_int_equal(look("none", &s), PLAIT_OK);
    assert_true(s.nrank == 1);
    set("SLURM_PROCID=0 SLURM_NTASKS=6 SLURM_JOB_ID=4711");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "none");
    /* WORLD_SIZE without RANK: of one; of a launcher that says which rank this is; of nobody, by choice. */
    set("WORLD_SIZE=1 PMI_SIZE=1 OMPI_COMM_WORLD_SIZE=1");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_true(s.nrank == 1);
    set(SLURM " WORLD_SIZE=6");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "slurm");
    set("WORLD_SIZE=2");
    assert_int_equal(look("none", &s), PLAIT_OK);
    assert_true(s.nrank == 1);
}

static void ranks_at_a_loopback_address_share_this_host(void **state)
{
    static const char *const here[] = { "127.0.0.1", "127.1.2.3", "::1", "localhost" };
    struct plait_launcher_says s;

    for (size_t i = 0; i < 4; i++) {
        set("RANK=1 WORLD_SIZE=2 MASTER_PORT=29500");
        setenv("MASTER_ADDR", here[i], 1);
        assert_int_equal(look("", &s), PLAIT_OK);
        assert_true(s.local_nrank == 2 && s.local_rank == 1);
    }
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("LOCAL_RANK", "0", 1);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_true(s.local_nrank == 1 && s.local_rank == 0);
    set("RANK=1 WORLD_SIZE=2 MASTER_ADDR=1127.0.0.1");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_int_equal(s.local_nrank, 0);
}

static void a_launcher_of_one_process_gives_way_to_the_one_it_started(void **state)
{
    struct plait_launcher_says s;

    set("RANK=0 WORLD_SIZE=1 " OPENMPI);
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "openmpi");
    set("RANK=0 WORLD_SIZE=1 MASTER_ADDR=x");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.launcher, "torchrun");
}

/* mpirun hands variables on only when told to: ranks that have it and ranks that do not would not meet. */
static void the_port_of_another_launcher_is_nothing_to_mpirun(void **state)
{
    struct plait_launcher_says s;

    set(OPENMPI " MASTER_ADDR=node0 MASTER_PORT=29500");
    assert_int_equal(look("", &s), PLAIT_OK);
    assert_string_equal(s.host, "node0");
    assert_int_equal(s.port, 0);
}

static void a_restart_is_another_job(void **state)
{
    struct plait_launcher_says before, after;

    set(TORCHRUN);
    assert_int_equal(look("", &before), PLAIT_OK);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    assert_int_equal(look("", &after), PLAIT_OK);
    assert_string_not_equal(before.job, after.job);
}

static void nonsense_is_refused_by_name(void **state)
{
    assert_refused("RANK=1", "WORLD_SIZE is not set");
    assert_refused("WORLD_SIZE=2", "RANK is not set, WORLD_SIZE is 2: torchrun started this process");
    assert_refused("WORLD_SIZE=2 SLURM_STEP_ID=0 SLURM_NTASKS=1 SLURM_PROCID=0", "RANK is not set");
    assert_refused("RANK=x WORLD_SIZE=2", "RANK is 'x'; 0 to 1");
    assert_refused("RANK=2 WORLD_SIZE=2", "RANK is '2'; 0 to 1");
    assert_refused("RANK=0 WORLD_SIZE=4097", "WORLD_SIZE is '4097'; 1 to 4096");
    assert_refused("RANK=0 WORLD_SIZE=2 LOCAL_RANK=2", "LOCAL_RANK is '2'");
    assert_refused("RANK=0 WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=65536", "MASTER_PORT is '65536'");
    assert_refused("RANK=1 WORLD_SIZE=2", "start the ranks with torchrun, or set MASTER_ADDR");
    assert_null(strstr(plait_last_error(), "mpirun"));
    assert_refused("PLAIT_TIMEOUT=0.5 RANK=1 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid",
                   "'no.such.host.invalid' has no address here");
    assert_refused("PLAIT_LAUNCHER=slurm", "SLURM_NTASKS is not set");
    assert_refused("SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEP_NODELIST=node[x]", "SLURM_STEP_NODELIST");
    assert_refused("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1",
                   "mpirun -x MASTER_ADDR");
}

static char lines[4096];

static void keep(void *context, enum plait_log_level level, const char *line)
{
    strncat(lines, line, sizeof lines - strlen(lines) - 1);
}

/* Only a launcher sets these. A batch script has Slurm's. */
static void a_number_of_ranks_without_a_rank_is_an_error(void **state)
{
    static const char *const sizes[] = { "PMI_SIZE",      "OMPI_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE",
                                         "MPIRUN_NPROCS", "MV2_COMM_WORLD_SIZE",  "HOROVOD_SIZE" };
    struct plait_launcher_says s;
    char variable[64], says[96];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(variable, sizeof variable, "%s=2", sizes[i]);
        snprintf(says, sizeof says, "is not set, %s is 2: ", sizes[i]);
        assert_refused(variable, says);
    }
    set("SLURM_NTASKS=6 SLURM_JOB_ID=4711");
    plait_log_callback(keep, NULL);
    plait_log_setup(PLAIT_LOG_INFO, "");
    lines[0] = '\0';
    assert_int_equal(look("", &s), PLAIT_OK);
    plait_log_callback(NULL, NULL);
    plait_log_setup(PLAIT_LOG_WARN, "");
    assert_true(s.nrank == 1);
    assert_non_null(
        strstr(lines, "SLURM_NTASKS is set, but this is no step of srun, which starts ranks: this process is alone"));
}

/* Each of their processes worked alone, as rank 0 of 1. */
static void launchers_that_are_not_followed_are_named(void **state)
{
    struct plait_launch launch;

    assert_refused("PMI_RANK=1 PMI_SIZE=2", "PMI_RANK is 1, PMI_SIZE is 2: a launcher with PMI");
    assert_refused("PMI_RANK=0 PMI_SIZE=2", "set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT");
    assert_refused("PMI_ID=1", "PMI 2");
    assert_refused("PALS_RANKID=3", "PALS");
    assert_refused("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=4", "Flux");
    assert_refused("JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=4", "jsrun");
    assert_refused("PMIX_RANK=0 PMIX_NAMESPACE=x", "PMIx");
    assert_refused("PMIX_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                   "PLAIT_PLUGINS=/nowhere",
                   "there is no /nowhere/plait-pmix.so");
    assert_refused("SLURM_PROCID=1 SLURM_NTASKS=2",
                   "SLURM_PROCID is 1, SLURM_NTASKS is 2: Slurm without SLURM_STEP_ID");
    assert_refused("SLURM_PROCID=1", "Start it with torchrun, srun");
    assert_refused("MPIRUN_RANK=0 MPIRUN_NPROCS=2", "MPIRUN_RANK is 0, MPIRUN_NPROCS is 2: mpirun_rsh");
    assert_refused("LSF_PM_TASKID=2", "LSF_PM_TASKID is 2, the number of ranks is not set: LSF");
    assert_refused("PMI_RANK=1", "PMI_RANK is 1, PMI_SIZE is not set: a launcher with PMI");
    assert_refused("FLUX_TASK_RANK=1", "FLUX_TASK_RANK is 1, FLUX_JOB_SIZE is not set: Flux");
    assert_refused("JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_RANK is 1, JSM_NAMESPACE_SIZE is not set: jsrun");
    assert_refused("RANK=0 WORLD_SIZE=1 PMI_RANK=1 PMI_SIZE=2", "PLAIT_LAUNCHER=none");
    set("RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 LSF_PM_TASKID=2");
    assert_int_equal(plait_launch_find(&launch), PLAIT_OK);
    set("PMI_RANK=0 PMI_SIZE=1");
    assert_int_equal(plait_launch_find(&launch), PLAIT_OK);
    set("PMI_RANK=1 PMI_SIZE=2 PLAIT_LAUNCHER=none");
    assert_int_equal(plait_launch_find(&launch), PLAIT_OK);
    assert_int_equal(launch.nrank, 1);
    set("RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2"); /* the remedy */
    assert_int_equal(plait_launch_find(&launch), PLAIT_OK);
    assert_int_equal(launch.nrank, 2);
}

static void the_first_host_of_a_list(void **state)
{
    static const struct {
        const char *list, *first; /* NULL: refused */
    } cases[] = {
        { "node7", "node7" },
        { "a,b", "a" },
        { "node[07-09,12],x", "node07" },
        { "node[5]", "node5" },
        { "rack[1-2]n[003,4]-ib.local", "rack1n003-ib.local" },
        { "", NULL },
        { ",a", NULL },
        { "node[", NULL },
        { "node[]", NULL },
        { "node[-3]", NULL },
        { "node[1", NULL },
        { "node]", NULL },
        { "node[1[2]]", NULL },
        { "a b", NULL },
        { "a-name-of-forty-characters-is-too-long-for-it", NULL },
    };
    char out[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool taken = plait_nodelist_first(cases[i].list, out, sizeof out);
        if (taken != (cases[i].first != NULL) || (taken && strcmp(out, cases[i].first) != 0))
            fail_msg("'%s': %s '%s'", cases[i].list, taken ? "taken as" : "refused", taken ? out : "");
    }
}

/* ---- The secret ------------------------------------------------------------------------------------------------------ */

#define TWO_HOSTS "RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 PLAIT_IFNAME==lo"

static struct plait_tcp_id find_id(void)
{
    struct plait_launch launch;
    struct plait_tcp_id id;

    if (plait_launch_find(&launch) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    assert_true(plait_tcp_id_of(&launch.id, &id));
    return id;
}

/* First: the warning comes once in a process. */
static void without_a_secret_one_warning_names_the_remedy(void **state)
{
    set(TWO_HOSTS);
    plait_log_callback(keep, NULL);
    const struct plait_tcp_id a = find_id(), b = find_id();
    plait_log_callback(NULL, NULL);
    assert_memory_equal(a.secret, b.secret, sizeof a.secret);
    const char *line = strstr(lines, "no secret");
    assert_non_null(line);
    assert_non_null(strstr(line, "plait-info --make-secret"));
    assert_null(strstr(line + 1, "no secret"));
    assert_refused(TWO_HOSTS " PLAIT_REQUIRE_SECRET=1", "PLAIT_REQUIRE_SECRET is 1");
}

static void write_secret(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void the_secret_comes_from_the_variable_or_the_file(void **state)
{
    char path[512];

    set(TWO_HOSTS);
    snprintf(path, sizeof path, "%s/.plait-secret", getenv("HOME"));
    const struct plait_tcp_id none = find_id();
    setenv("PLAIT_SECRET", "a secret of this test", 1);
    setenv("PLAIT_REQUIRE_SECRET", "1", 1);
    const struct plait_tcp_id one = find_id();
    setenv("PLAIT_SECRET", "another secret of this", 1);
    const struct plait_tcp_id other = find_id();
    assert_true(memcmp(none.secret, one.secret, 32) != 0 && memcmp(one.secret, other.secret, 32) != 0);
    unsetenv("PLAIT_SECRET");
    write_secret(path, "0123456789abcdef of a test\n");
    assert_int_equal(chmod(path, 0600), 0);
    const struct plait_tcp_id file = find_id();
    assert_true(memcmp(file.secret, none.secret, 32) != 0);
    /* Neither the key nor the text is in the id. */
    assert_int_equal(chmod(path, 0640), 0);
    assert_refused(TWO_HOSTS, "has mode 0640");
    assert_int_equal(chmod(path, 0600), 0);
    write_secret(path, "short\n");
    assert_refused(TWO_HOSTS, "holds no secret");
    unlink(path);
}

/* ---- Rendezvous ------------------------------------------------------------------------------------------------------- */

/* Rank 0's port is torchrun's own, so the others find rank 0 at one of the next. */
static int listen_at(uint16_t *port)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    socklen_t length = sizeof any;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    any.sin_port = htons(*port);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &length) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(any.sin_port);
    return fd;
}

/* All ranks as torchrun would start them, each said to be on a host of its own; how many failed. */
static unsigned run_as_torchrun(uint16_t port, unsigned nrank, const char *const *secrets)
{
    pid_t pids[8];
    unsigned failed = 0;
    char text[16];

    for (unsigned r = 0; r < nrank; r++) {
        pids[r] = child_fork();
        if (pids[r] > 0)
            continue;
        set(TORCHRUN " LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 PLAIT_IFNAME==lo PLAIT_TIMEOUT=20");
        snprintf(text, sizeof text, "%u", r);
        setenv("RANK", text, 1);
        snprintf(text, sizeof text, "%u", nrank);
        setenv("WORLD_SIZE", text, 1);
        snprintf(text, sizeof text, "%u", port);
        setenv("MASTER_PORT", text, 1);
        if (secrets != NULL) {
            setenv("PLAIT_SECRET", secrets[r], 1);
            setenv("PLAIT_TIMEOUT", "2", 1);
            assert_non_null(freopen(said, "a", stderr));
        }
        execl(ranks_program, ranks_program, NULL);
        _exit(127);
    }
    for (unsigned r = 0; r < nrank; r++)
        failed += child_end(pids[r]) != 0;
    return failed;
}

static void ranks_meet_beside_torchruns_store(void **state)
{
    uint16_t port = 0, next;
    const int store = listen_at(&port);
    int others[8];
    unsigned nother = 0;

    assert_true(store >= 0);
    assert_int_equal(run_as_torchrun(port, 4, NULL), 0);
    for (unsigned i = 1; i < 8; i++) { /* all but one of the ports are others' */
        next = (uint16_t)(port + i);
        others[nother] = listen_at(&next);
        nother += others[nother] >= 0;
    }
    assert_int_equal(run_as_torchrun(port, 4, NULL), 0);
    while (nother > 0)
        close(others[--nother]);
    close(store);
}

static void ranks_with_different_secrets_do_not_meet(void **state)
{
    static const char *const secrets[] = { "the secret of three", "the secret of three", "the secret of none" };
    uint16_t port = 0;
    const int store = listen_at(&port);

    assert_int_equal(run_as_torchrun(port, 3, secrets), 3);
    close(store);
    FILE *f = fopen(said, "r");
    assert_non_null(f);
    char line[1024];
    unsigned n = 0;
    while (fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "rank 0 did not answer") != NULL && strstr(line, "or with another secret") != NULL;
    fclose(f);
    unlink(said);
    assert_int_equal(n, 1); /* rank 2 */
}

/* ---- mpirun --------------------------------------------------------------------------------------------------------- */

/* A job on one host, by the real launcher. */
static void ranks_of_mpirun_meet(void **state)
{
    char command[512], line[128];
    unsigned n = 0;

    clear(NULL);
    if (system("mpirun --version >/dev/null 2>&1") != 0) {
        print_message("no mpirun here\n");
        skip();
    }
    snprintf(command, sizeof command, "mpirun --allow-run-as-root --oversubscribe -n 3 %s", ranks_program);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        n += strncmp(line, "openmpi: rank ", 14) == 0 && strstr(line, "of 3 here") != NULL;
    assert_int_equal(pclose(f), 0);
    assert_int_equal(n, 3);
}

/* ---- By the caller's means ------------------------------------------------------------------------------------------- */

struct table { /* an allgather of two ranks, one after the other: rank 0's bytes are kept for rank 1 */
    char bytes[2][1024];
    uint32_t rank;
    enum plait_status status;
};

static enum plait_status gather(void *context, const void *mine, size_t bytes, void *all)
{
    struct table *t = context;

    assert_true(bytes <= sizeof t->bytes[0]);
    memcpy(t->bytes[t->rank], mine, bytes);
    for (unsigned r = 0; r < 2; r++)
        memcpy((char *)all + r * bytes, t->bytes[r], bytes);
    return t->status;
}

static void an_id_travels_by_the_callers_means(void **state)
{
    struct plait_unique_id a, b;
    struct table t = { .rank = 0 };

    clear(NULL);
    assert_int_equal(plait_unique_id_exchange(0, 2, gather, &t, &a), PLAIT_OK);
    t.rank = 1;
    assert_int_equal(plait_unique_id_exchange(1, 2, gather, &t, &b), PLAIT_OK);
    assert_memory_equal(&a, &b, sizeof a);
    t.status = PLAIT_ERR_PEER;
    assert_int_equal(plait_unique_id_exchange(1, 2, gather, &t, &b), PLAIT_ERR_PEER);
    assert_int_equal(plait_unique_id_exchange(2, 2, gather, &t, &b), PLAIT_ERR_ARG);
    t.status = PLAIT_OK;
    setenv("PLAIT_IFNAME", "no-such-interface", 1); /* rank 0's error is rank 1's */
    t.rank = 0;
    assert_int_equal(plait_unique_id_exchange(0, 2, gather, &t, &a), PLAIT_ERR_CONFIG);
    t.rank = 1;
    assert_int_equal(plait_unique_id_exchange(1, 2, gather, &t, &b), PLAIT_ERR_CONFIG);
    assert_non_null(strstr(plait_last_error(), "rank 0: no interface"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_secret_one_warning_names_the_remedy, clear),
        cmocka_unit_test_setup(launchers_are_found_by_their_variables, clear),
        cmocka_unit_test_setup(ranks_at_a_loopback_address_share_this_host, clear),
        cmocka_unit_test_setup(the_port_of_another_launcher_is_nothing_to_mpirun, clear),
        cmocka_unit_test_setup(a_launcher_of_one_process_gives_way_to_the_one_it_started, clear),
        cmocka_unit_test_setup(a_restart_is_another_job, clear),
        cmocka_unit_test_setup(nonsense_is_refused_by_name, clear),
        cmocka_unit_test_setup(the_first_host_of_a_list, clear),
        cmocka_unit_test_setup(the_secret_comes_from_the_variable_or_the_file, clear),
        cmocka_unit_test_setup(ranks_meet_beside_torchruns_store, clear),
        cmocka_unit_test_setup(ranks_with_different_secrets_do_not_meet, clear),
        cmocka_unit_test_setup(a_number_of_ranks_without_a_rank_is_an_error, clear),
        cmocka_unit_test_setup(launchers_that_are_not_followed_are_named, clear),
        cmocka_unit_test_setup(ranks_of_mpirun_meet, clear),
        cmocka_unit_test_setup(an_id_travels_by_the_callers_means, clear),
    };

    strcpy(home, "/tmp/plait-home-XXXXXX");
    if (argc != 2 || mkdtemp(home) == NULL)
        return 1;
    ranks_program = argv[1];
    snprintf(said, sizeof said, "%s.said", home);
    const int failed = cmocka_run_group_tests_name("launch", tests, NULL, NULL);
    rmdir(home);
    return failed;
}
