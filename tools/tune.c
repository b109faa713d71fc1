/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: options, ranks, and the file. */
#include "tune.h"

#include "child.h"
#include "file.h"
#include "message.h"
#include "option.h"
#include "program.h"
#include "units.h"

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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS 256 /* that it starts */
#define MOST_RUNS  12
#define ONE_HOST   50.0 /* seconds */
#define HOSTS      150.0
#define FAILED     1
#define USAGE      2

static uint32_t nrank;
static double seconds;
static const char *output;
static char path[PLAIT_TUNING_PATH], beside[PLAIT_TUNING_PATH + 16]; /* the file, and what becomes it */

static const struct option options[] = {
    OPTION_TO(COUNT, "ranks", "N", &nrank,
              "ranks to start (default: the processors, then 2, 4, 8 and so on, and 2 per processor)", .least = 2,
              .most = MOST_RANKS),
    OPTION_TO(REAL, "seconds", "S", &seconds, "time to take (default: 50, on several hosts 150)", .least = 1,
              .most = 3600),
    OPTION_TO(TEXT, "output", "FILE", &output, "file to write (default: tuning.json in ~/.config/plait)"),
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

/* ---- The file ---------------------------------------------------------------------------------- */

static bool make_folders(void)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        if (!made)
            complain("--output: cannot make the folder %s: %s", path, strerror(errno));
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

/* Can the file be written? Nothing is left behind. */
static bool prepare_file(const struct tune_results *r)
{
    if (output != NULL && strlen(output) >= sizeof path)
        return complain("--output: a name of at most %zu characters", sizeof path - 1);
    if (output != NULL)
        strcpy(path, output);
    else
        plait_tuning_path(path);
    snprintf(beside, sizeof beside, "%s.new", path);
    if (!make_folders())
        return false;
    const bool ok = plait_tuning_save(&r->tuning, beside) == PLAIT_OK || complain("%s", plait_last_error());
    unlink(beside);
    return ok;
}

/* No signal ends this process between the two steps, so nothing is left beside the file. */
static bool write_file(struct tune_results *r)
{
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    r->tuning.rows = r->row;
    bool ok = plait_tuning_save(&r->tuning, beside) == PLAIT_OK || complain("%s", plait_last_error());
    if (ok && rename(beside, path) != 0)
        ok = complain("%s: %s", path, strerror(errno));
    if (!ok)
        unlink(beside);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static void show_results(const struct tune_results *r)
{
    char size[UNITS_ROOM], a[UNITS_ROOM], b[UNITS_ROOM];

    printf("\n%s: %zu rows from %u measured cells; in %u of them the choice is not the model's%s\n", path,
           r->tuning.nrow, r->ncell, r->nchanged, r->nchanged > 0 ? ":" : "");
    for (int k = 0; k < TUNE_SHOWN && r->gain[k].cell.n > 0; k++) {
        const struct tune_cell *c = &r->gain[k].cell;
        printf("  %-14s %3u ranks %8s: %s takes %s, %s takes %s (%.2f times as long)\n",
               plait_coll_name(r->gain[k].coll), r->gain[k].nrank, units_bytes(size, (double)c->bytes),
               c->algorithm[c->best], units_seconds(a, c->seconds[c->best]), c->algorithm[0],
               units_seconds(b, c->seconds[0]), c->seconds[0] / c->seconds[c->best]);
    }
    printf("\n%s\nLook at a choice: plait-info --explain allreduce 1M --ranks 4. docs/tuning.md: how to override it, "
           "and to ship "
           "the file.\n",
           output != NULL ? "Use it: set PLAIT_TUNING to this file, or copy it to /etc/plait/tuning.json."
                          : "It is used from now on by programs of this user; /etc/plait/tuning.json is all users'.");
}

/* ---- Ranks ------------------------------------------------------------------------------------- */

static void keep_error(struct tune_results *r)
{
    if (!atomic_flag_test_and_set(&r->failed))
        snprintf(r->error, sizeof r->error, "%s", plait_last_error());
}

static bool be_rank(const struct plait_comm_options *o, double time, bool first, struct tune_results *r)
{
    struct plait_comm *comm = NULL;
    enum plait_status status = plait_comm_create(o, &comm);

    if (status == PLAIT_OK)
        status = tune_ranks(comm, time, first, r);
    if (status != PLAIT_OK)
        keep_error(r);
    plait_comm_destroy(comm);
    return status == PLAIT_OK;
}

static void end_ranks(const pid_t *child, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (child[i] > 0)
            kill(child[i], SIGKILL);
}

/* Wait for all. One that was killed is named, and the others are ended; after an error of a rank they end themselves. */
static bool await(pid_t *child, uint32_t n, const struct tune_results *r)
{
    bool ok = true, killed = false;
    char how[128];

    for (uint32_t left = n; left > 0; left--) {
        int status;
        uint32_t i = 0;
        const pid_t pid = wait(&status);
        while (i + 1 < n && child[i] != pid)
            i++;
        child[i] = 0;
        ok &= status == 0;
        if (!WIFSIGNALED(status) || killed)
            continue;
        child_end(status, how, sizeof how);
        killed = !complain("rank %u of %u ended unexpectedly: %s", i, n, how);
        end_ranks(child, n);
    }
    return ok || killed ? ok : complain("%s", r->error);
}

static bool start_ranks(uint32_t n, double time, bool first, struct tune_results *r)
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
            const bool ok = be_rank(&o, time, first, r);
            fflush(NULL);
            _exit(!ok);
        }
    }
    return await(child, n, r);
}

/* The numbers of ranks to measure with. */
static uint32_t plan_runs(uint32_t n[MOST_RUNS])
{
    struct plait_topology host;
    uint32_t k = 0;

    plait_topology_get(&host);
    if (nrank > 0) {
        n[0] = nrank;
        return 1;
    }
    const uint32_t all = host.ncpu < 2 ? 2 : host.ncpu > MOST_RANKS / 2 ? MOST_RANKS / 2 : host.ncpu;
    n[k++] = all;
    for (uint32_t some = 2; some < all; some *= 2)
        n[k++] = some;
    if (host.ncpu > 1)
        n[k++] = 2 * all;
    return k;
}

static bool run_here(struct tune_results *r)
{
    uint32_t n[MOST_RUNS];
    const uint32_t runs = plan_runs(n);

    for (uint32_t k = 0; k < runs; k++)
        if (!start_ranks(n[k], seconds / runs, k == 0, r))
            return false;
    return true;
}

/* ---- The program ------------------------------------------------------------------------------- */

/* Measure without what was measured or forced before. Plug-ins lie as beside libplait, which is part of this program. */
static void set_settings(void)
{
    char own[1024], folder[1200];

    unsetenv("PLAIT_TUNING");
    unsetenv("PLAIT_ALGO");
    plait_config_set("PLAIT_TUNING", "none", "plait-tune");
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

    if (nrank > 0 && nrank != l->nrank)
        return complain("--ranks %u: %s has started %u; leave it out", nrank, l->launcher, l->nrank), USAGE;
    if (l->rank == 0 && !prepare_file(r))
        return USAGE;
    o.rank = l->rank;
    o.nrank = l->nrank;
    o.id = &l->id;
    o.name = "plait-tune";
    message_hide(l->rank > 1); /* rank 1 speaks, too, since rank 0 may have died */
    if (!be_rank(&o, seconds > 0 ? seconds : HOSTS, true, r))
        return complain("%s", r->error), FAILED;
    return l->rank > 0 || write_file(r) ? 0 : FAILED;
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
        seconds = seconds > 0 ? seconds : ONE_HOST;
        status = !prepare_file(r) ? USAGE : run_here(r) && write_file(r) ? 0 : FAILED;
    }
    if (status == 0 && launch.rank == 0)
        show_results(r);
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
    set_settings();
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        give_up(FAILED, "out of memory for the results");
    return program_end(run(r));
}
