/* SPDX-License-Identifier: BSD-3-Clause */
#include "elastic.h"

#include "base/clock.h"
#include "child.h"
#include "message.h"
#include "stats.h"
#include "worker.h"

#include <plait/elastic.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct line { /* of the table */
    enum plait_elastic_mode mode;
    double round;     /* seconds: median of the turns */
    double exchanges; /* percentage of it that is not computation */
    double behind;    /* mean over the workers */
    uint64_t behind_max;
    size_t slots;
    double lost, allreduce;
};

/* ---- Processes --------------------------------------------------------------------------------------------- */

static void end_all(const pid_t *child, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (child[r] > 0)
            kill(child[r], SIGKILL);
}

/* Wait for all processes; after -T seconds without a round kill them. Returns whether all ended well. */
static bool await_all(pid_t *child, uint32_t n, double timeout, const struct elastic_figures *f)
{
    double end = plait_clock() + timeout;
    uint64_t before = 0;
    bool good = true;

    for (uint32_t left = n; left > 0;) {
        int status;
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno != EINTR)
            break;
        if (pid > 0)
            for (uint32_t r = 0; r < n; r++)
                if (child[r] == pid) {
                    child[r] = 0;
                    left--;
                    good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
                }
        if (pid <= 0)
            usleep(2000);
        if (f->done != before)
            end = plait_clock() + timeout;
        before = f->done;
        if (plait_clock() > end) {
            good = complain("elastic: no round has ended for %g s; if no rank hangs, raise -T", timeout);
            end_all(child, n);
            end = INFINITY;
        }
    }
    return good;
}

static bool run_ranks(const struct options *o, enum plait_elastic_mode mode, struct elastic_figures *f)
{
    const uint32_t n = f->nworker + f->nserver;
    pid_t child[MAX_RANKS] = { 0 };

    for (uint32_t r = 0; r < n; r++) {
        child[r] = child_fork(SIGKILL);
        if (child[r] == 0) {
            signal(SIGINT, SIG_DFL);
            signal(SIGTERM, SIG_DFL);
            _exit(elastic_rank(o, mode, r, NULL, f));
        }
        if (child[r] < 0) {
            complain("elastic: cannot start rank %u of %u: %s", r, n, strerror(errno));
            end_all(child, r);
            await_all(child, r, o->timeout, f);
            return false;
        }
    }
    const bool good = await_all(child, n, o->timeout, f);
    for (uint32_t r = 0; r < n && !good; r++)
        if (f->error[r][0] != '\0')
            return complain("%s: rank %u: %s", plait_elastic_name(mode), r, f->error[r]);
    return good || complain("%s: a rank was ended by a signal", plait_elastic_name(mode));
}

/* ---- Ranks of a launcher ----------------------------------------------------------------------------------- */

static struct plait_comm *meet_all(const struct options *o)
{
    struct plait_comm_options c = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *all = NULL;

    c.nrank = o->launch.nrank;
    c.rank = o->launch.rank;
    c.id = &o->launch.id;
    c.timeout = o->timeout / 2;
    if (plait_comm_create(&c, &all) != PLAIT_OK)
        fprintf(stderr, "plait-perf: rank %u: %s\n", c.rank, plait_last_error());
    return all;
}

/* Gather the figures, of which each rank knows its own. */
static bool gather(struct plait_comm *all, uint32_t rank, struct elastic_figures *f)
{
    enum { N = 4 };
    const double own[N] = { f->behind[rank], (double)f->behind_max[rank], (double)f->slots[rank], f->lost[rank] };
    double each[MAX_RANKS * N];

    if (plait_allgather(all, own, each, N, PLAIT_FLOAT64, NULL) != PLAIT_OK)
        return false;
    for (uint32_t r = 0; r < f->nworker + f->nserver; r++) {
        f->behind[r] = each[N * r];
        f->behind_max[r] = (uint64_t)each[N * r + 1];
        f->slots[r] = (size_t)each[N * r + 2];
        f->lost[r] = each[N * r + 3];
    }
    return true;
}

static bool run_own_rank(const struct options *o, enum plait_elastic_mode mode, struct plait_comm *all,
                         struct elastic_figures *f)
{
    const uint32_t rank = o->launch.rank;
    const bool good = elastic_rank(o, mode, rank, all, f) == 0;

    if (!good) /* every rank prints its error: rank 0 may only know that another failed */
        fprintf(stderr, "plait-perf: %s: rank %u: %s\n", plait_elastic_name(mode), rank, f->error[rank]);
    return good && gather(all, rank, f);
}

/* ---- Figures ----------------------------------------------------------------------------------------------- */

static bool measure(const struct options *o, enum plait_elastic_mode mode, struct plait_comm *all, struct line *l)
{
    struct elastic_figures *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (f == MAP_FAILED)
        return complain("elastic: %s", strerror(errno));
    f->nworker = (uint32_t)o->nrank;
    f->nserver = mode >= PLAIT_ELASTIC_SYNC1 ? 0 : mode == PLAIT_ELASTIC_ORIGINAL ? 1 : (uint32_t)o->nserver;
    bool good =
        all != NULL || plait_unique_id_create(&f->id) == PLAIT_OK || complain("elastic: %s", plait_last_error());
    good = good && (all != NULL ? run_own_rank(o, mode, all, f) : run_ranks(o, mode, f));
    *l = (struct line){ .mode = mode, .round = median_of(f->turn, o->rounds), .allreduce = f->allreduce };
    l->exchanges = l->round > 0 ? 100 * (l->round - o->compute) / l->round : 0;
    for (uint32_t r = 0; r < f->nworker + f->nserver; r++) {
        l->behind += r < f->nworker ? f->behind[r] / f->nworker : 0;
        l->behind_max = f->behind_max[r] > l->behind_max ? f->behind_max[r] : l->behind_max;
        l->slots += f->slots[r];
        l->lost += f->lost[r];
    }
    munmap(f, sizeof *f);
    return good;
}

/*
 * Vectors that each rank of a machine must move between caches and memory. An all-reduce reads the weights and writes
 * the sum. sync2 reads and writes weights and centre, and uses the sum while it is in the cache (docs/elastic.md).
 */
enum { ALLREDUCE = 2, SYNC2 = 4 };

static void print_head(const struct options *o)
{
    const char *pace = getenv("PLAIT_PACE");

    printf("# plait-perf elastic: rounds of %llu updates, one of each worker\n", (unsigned long long)o->nrank);
    printf("# Weights              : %.6g MiB as %s, in library memory\n", (double)o->bytes / (1 << 20),
           o->payload[0] == PLAIT_FLOAT32 ? "float" : dtype_label(o->payload[0]));
    printf("# Computing            : a timed sleep of %g ms in each round of each worker; nothing is computed\n",
           1e3 * o->compute);
    printf("# Links                : %s\n", pace != NULL ? pace : o->launched ? "the hosts'" : "shared memory");
    printf("# Overlap              : original, sync1 and sync2 exchange after the sleep, the others during it\n");
    printf("# Servers              : 1 of original, %llu of the other modes that have servers; ranks of their own\n#\n",
           (unsigned long long)o->nserver);
    printf("# %-15s %10s %10s %10s %10s %10s %10s %12s\n", "mode", "round(ms)", "exchange%", "speed-up", "step",
           "behind", "most", "slots(MiB)");
}

/* For sync1, sync2 and sync3: the mode before it in the paper's chain. */
static const struct line *before(const struct line *all, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (all[k].mode == (all[i].mode == PLAIT_ELASTIC_SYNC1 ? PLAIT_ELASTIC_ORIGINAL : all[i].mode - 1) &&
            all[i].mode >= PLAIT_ELASTIC_SYNC1)
            return &all[k];
    return NULL;
}

static void print_ratio(double over, double under)
{
    if (over > 0 && under > 0)
        printf(" %10.2f", over / under);
    else
        printf(" %10s", "-");
}

static void print_line(const struct line *all, size_t i)
{
    const struct line *l = &all[i], *last = before(all, i);

    printf("  %-15s %10.3f %10.1f", plait_elastic_name(l->mode), 1e3 * l->round, l->exchanges);
    print_ratio(all[0].mode == PLAIT_ELASTIC_ORIGINAL ? all[0].round : 0, l->round);
    print_ratio(last != NULL ? last->round : 0, l->round);
    printf(" %10.2f %10llu %12.1f\n", l->behind, (unsigned long long)l->behind_max, (double)l->slots / (1 << 20));
    fflush(stdout);
}

static void print_tail(const struct options *o, const struct line *all, size_t n)
{
    printf(
        "#\n"
        "# speed-up: original's round time over this mode's. step: the previous mode's over this one's, in the chain\n"
        "# original, sync1, sync2, sync3 (You et al.: 3.7, 1.3, 1.1). behind, most: updates by others between two "
        "exchanges of a worker.\n");
    for (size_t i = 0; i < n; i++) {
        const struct line *l = &all[i];
        if (l->mode == PLAIT_ELASTIC_HOGWILD)
            printf("# hogwild              : %g of the centre's movement was lost or rounded off\n", l->lost);
        if (l->allreduce <= 0)
            continue;
        printf("# All-reduce           : %.3f ms for the same number of bytes, of float\n", 1e3 * l->allreduce);
        const double bound = l->allreduce / ALLREDUCE * SYNC2, took = l->round - o->compute;
        if (o->payload[0] == PLAIT_FLOAT32 && getenv("PLAIT_PACE") == NULL && !o->launched)
            printf("# Compulsory bytes     : at that bandwidth sync2 would take %.3f ms; it took %.3f ms, %.2f times "
                   "as long\n",
                   1e3 * bound, 1e3 * took, took / bound);
    }
}

/* ---- Run --------------------------------------------------------------------------------------------------- */

int elastic_run(const struct options *o)
{
    /* The paper's chain first, then the other modes with servers. */
    static const enum plait_elastic_mode order[PLAIT_NELASTIC] = {
        PLAIT_ELASTIC_ORIGINAL, PLAIT_ELASTIC_SYNC1,          PLAIT_ELASTIC_SYNC2,   PLAIT_ELASTIC_SYNC3,
        PLAIT_ELASTIC_ASYNC,    PLAIT_ELASTIC_ASYNC_MOMENTUM, PLAIT_ELASTIC_HOGWILD,
    };
    struct line all[PLAIT_NELASTIC];
    size_t n = 0;
    const bool speaks = o->launch.rank == 0;
    struct plait_comm *comm = NULL;
    bool good = !o->launched || (comm = meet_all(o)) != NULL;

    if (speaks && good)
        print_head(o);
    for (size_t i = 0; i < PLAIT_NELASTIC && good; i++) {
        if ((o->modes >> order[i] & 1) == 0)
            continue;
        good = measure(o, order[i], comm, &all[n]);
        if (speaks && good)
            print_line(all, n++);
    }
    plait_comm_destroy(comm);
    if (!good)
        return EXIT_RANKS;
    if (speaks)
        print_tail(o, all, n);
    return 0;
}
