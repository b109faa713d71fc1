/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: options and ranks. */
#include "tune.h"

#include "child.h"
#include "file.h"
#include "message.h"
#include "option.h"
#include "program.h"

#include <plait/comm.h>
#include <plait/config.h>
#include <plait/launch.h>
#include <plait/topology.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS 256 /* that it starts */
#define MOST_RUNS  12
#define ONE_HOST   50.0 /* seconds */
#define HOSTS      150.0
#define CHECK      300.0
#define FAILED     1
#define USAGE      2

static uint32_t nrank;
static double seconds;
static const char *output;
static bool checking;

static const struct option options[] = {
    OPTION_TO(COUNT, "ranks", "N", &nrank,
              "ranks to start (default: the processors, then 2, 4, 8 and so on, and 2 per processor)", .least = 2,
              .most = MOST_RANKS),
    OPTION_TO(REAL, "seconds", "S", &seconds, "time to take (default: 50, on several hosts 150)", .least = 1,
              .most = 3600),
    OPTION_TO(TEXT, "output", "FILE", &output, "file to write (default: tuning.json in ~/.config/plait)"),
    OPTION_TO(FLAG, "check", NULL, &checking,
              "write nothing; compare the choices with every algorithm, on ranks and sizes that are not tuned (300 s)"),
    OPTION_TO(HELP, "help", NULL, NULL, "show this"),
};

static const struct option_table table = {
    "Usage: plait-tune [options]\n"
    "\n"
    "Measures this machine, once: links, ways to copy, and collectives for which the model's predictions are close.\n"
    "The file that it writes decides afterwards which algorithms run. Under a launcher it measures the hosts of the\n"
    "launcher's ranks. Leave the machine to it meanwhile: other work changes the result.\n"
    "\n"
    "  $ plait-tune\n"
    "  $ mpirun -H node0:4,node1:4 plait-tune --output tuning.json\n\n"
    "Options:\n",
    "\ndocs/tuning.md says what is measured, and how to look at the choices and to override them.\n", options,
    sizeof options / sizeof *options, sizeof *options
};

/* ---- Ranks ------------------------------------------------------------------------------------- */

static void keep_error(struct tune_results *r)
{
    if (!atomic_flag_test_and_set(&r->failed))
        snprintf(r->error, sizeof r->error, "%s", plait_last_error());
}

/* With the comm, which it destroys, if its creation succeeded. */
static bool measure(enum plait_status status, struct plait_comm *comm, double time, enum tune_task task,
                    struct tune_results *r)
{
    if (status == PLAIT_OK)
        status = tune_calibrate(&comm);
    if (status == PLAIT_OK)
        status = tune_ranks(comm, time, task, r);
    if (status != PLAIT_OK)
        keep_error(r);
    plait_comm_destroy(comm);
    return status == PLAIT_OK;
}

static bool be_rank(const struct plait_comm_options *o, double time, enum tune_task task, struct tune_results *r)
{
    struct plait_comm *comm = NULL;
    const enum plait_status status = plait_comm_create(o, &comm);

    return measure(status, comm, time, task, r);
}

static void end_ranks(const pid_t *child, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (child[i] > 0)
            kill(child[i], SIGKILL);
}

/* n: it is not one of them. */
static uint32_t rank_of(const pid_t *child, uint32_t n, pid_t pid)
{
    uint32_t i = 0;

    while (i < n && child[i] != pid)
        i++;
    return i;
}

/*
 * Wait for all. The first one that was killed is named, and the others are ended. After an error that a rank returns,
 * the others return one, too.
 */
static bool await(pid_t *child, uint32_t n, const struct tune_results *r)
{
    bool ok = true, killed = false;
    char how[128];

    for (uint32_t left = n; left > 0;) {
        int status;
        const pid_t pid = wait(&status);
        if (pid < 0 && errno != EINTR)
            return complain("cannot wait for the ranks: %s", strerror(errno));
        const uint32_t i = pid < 0 ? n : rank_of(child, n, pid);
        if (i == n)
            continue;
        child[i] = 0;
        left--;
        ok &= status == 0;
        if (!WIFSIGNALED(status) || killed)
            continue;
        child_end(status, how, sizeof how);
        killed = !complain("rank %u of %u ended unexpectedly: %s", i, n, how);
        end_ranks(child, n);
    }
    return ok || killed ? ok : complain("%s", r->error);
}

static bool start_ranks(uint32_t n, double time, enum tune_task task, struct tune_results *r)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_unique_id id;
    pid_t child[MOST_RANKS];

    o.nrank = n;
    o.id = &id;
    o.name = "plait-tune";
    if (plait_unique_id_create(&id) != PLAIT_OK)
        return complain("%s", plait_last_error());
    for (o.rank = 0; o.rank < n; o.rank++) {
        child[o.rank] = child_fork(SIGKILL);
        if (child[o.rank] < 0) {
            complain("cannot start rank %u of %u: %s", o.rank, n, strerror(errno));
            end_ranks(child, o.rank);
            return false;
        }
        if (child[o.rank] == 0) {
            const bool ok = be_rank(&o, time, task, r);
            fflush(NULL);
            _exit(!ok);
        }
    }
    return await(child, n, r);
}

/* The numbers of ranks to measure with. */
static uint32_t plan_runs(uint32_t n[MOST_RUNS])
{
    static const uint32_t untuned[] = { 3, 5, 6, 7 };
    struct plait_topology host;
    uint32_t k = 0;

    plait_topology_get(&host);
    if (nrank > 0) {
        n[0] = nrank;
        return 1;
    }
    if (checking) {
        memcpy(n, untuned, sizeof untuned);
        return sizeof untuned / sizeof *untuned;
    }
    const uint32_t all = host.ncpu < 2 ? 2 : host.ncpu > MOST_RANKS / 2 ? MOST_RANKS / 2 : host.ncpu;
    n[k++] = all;
    for (uint32_t some = 2; some < all; some *= 2)
        n[k++] = some;
    if (host.ncpu > 1)
        n[k++] = 2 * all;
    return k;
}

/* Other programs' turns on the processors would be measured, too. */
static void look_at_load(void)
{
    struct plait_topology host;
    double load;

    plait_topology_get(&host);
    if (getloadavg(&load, 1) == 1 && load > 0.5 * host.ncpu)
        remark("this machine is or was busy (a load of %.1f on %u processors); tune again when it is idle", load,
               host.ncpu);
}

static bool run_here(struct tune_results *r)
{
    uint32_t n[MOST_RUNS];
    const uint32_t runs = plan_runs(n);

    look_at_load();
    for (uint32_t k = 0; k < runs; k++)
        if (!start_ranks(n[k], seconds / runs, checking ? TUNE_CHECK : k == 0 ? TUNE_LINKS_TOO : TUNE_CHOICES, r))
            return false;
    return true;
}

/* ---- The program ------------------------------------------------------------------------------- */

/*
 * Tune without what was tuned or forced before; check what was tuned. libplait is a part of this program, which would
 * look for plug-ins beside itself.
 */
static void set_settings(void)
{
    static const char *const forced[] = { "PLAIT_ALGO", "PLAIT_CALIBRATE",    "PLAIT_CHECK",
                                          "PLAIT_CMA",  "PLAIT_REPRODUCIBLE", "PLAIT_SLICE" };
    char own[1024], folder[1200];

    for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
        unsetenv(forced[i]);
        plait_config_set(forced[i], "", "plait-tune"); /* the default, whatever PLAIT_CONFIG's file has */
    }
    if (!checking) {
        unsetenv("PLAIT_TUNING");
        plait_config_set("PLAIT_TUNING", "none", "plait-tune");
    }
    own_folder(own, sizeof own);
    snprintf(folder, sizeof folder, "%s/../plait", own);
    if (access(folder, F_OK) != 0)
        snprintf(folder, sizeof folder, "%s/../" PLAIT_LIBDIR "/plait", own);
    plait_config_set("PLAIT_PLUGINS", folder, "plait-tune");
}

/* As one of a launcher's ranks. */
static int run_launched(const struct plait_launch *l, struct tune_results *r)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;
    enum plait_status status;

    message_hide(l->rank > 0);
    if (nrank > 0 && nrank != l->nrank)
        return complain("--ranks %u: %s has started %u; leave it out", nrank, l->launcher, l->nrank), USAGE;
    o.rank = l->rank;
    o.nrank = l->nrank;
    o.id = &l->id;
    o.name = "plait-tune";
    message_hide(l->rank > 1); /* rank 1 speaks, too, since rank 0 may have died */
    status = plait_comm_create(&o, &comm);
    double refused = status == PLAIT_OK && !checking && l->rank == 0 && !tune_prepare(output, r);
    if (status == PLAIT_OK)
        status = plait_allreduce(comm, &refused, &refused, 1, PLAIT_FLOAT64, PLAIT_MAX, NULL);
    if (status == PLAIT_OK && refused != 0) /* rank 0 has said why */
        return plait_comm_destroy(comm), USAGE;
    if (!measure(status, comm,
                 seconds > 0 ? seconds
                 : checking  ? CHECK
                             : HOSTS,
                 checking ? TUNE_CHECK : TUNE_LINKS_TOO, r))
        return complain("%s", r->error), FAILED;
    return l->rank > 0 || checking || tune_write(r) ? 0 : FAILED;
}

static int run(struct tune_results *r)
{
    struct plait_launch launch;
    int status;

    if (plait_launch_find(&launch) != PLAIT_OK)
        return complain("%s", plait_last_error()), USAGE;
    plait_tuning_describe(&r->tuning);
    if (launch.nrank > 1) {
        status = run_launched(&launch, r);
    } else {
        seconds = seconds > 0 ? seconds : checking ? CHECK : ONE_HOST;
        if (!checking && !tune_prepare(output, r))
            return USAGE;
        status = run_here(r) && (checking || tune_write(r)) ? 0 : FAILED;
    }
    if (status == 0 && launch.rank == 0)
        checking ? tune_show_check(r) : tune_show(r);
    return status;
}

int main(int argc, char **argv)
{
    int nrest;
    struct tune_results *r;

    program_begin("plait-tune");
    if (!option_parse(&table, NULL, NULL, argc, argv, &nrest))
        return USAGE;
    if (nrest > 0)
        option_misuse("unexpected argument '%s'; plait-tune has only options", argv[1]);
    if (checking && output != NULL)
        option_misuse("--output has no effect with --check, which writes no file; leave it out");
    set_settings();
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        give_up(FAILED, "out of memory for the results");
    return program_end(run(r));
}
