/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"
#include "child.h"
#include "kept.h"
#include "tier.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLOWER 10
#else
#define SLOWER 1
#endif

int (*ranks_prepare)(struct plait_comm *comm, uint32_t rank);
static struct plait_unique_id the_id;
static _Atomic uint32_t *arrived; /* shared by all processes: calls of ranks_meet() */
static struct ranks latest;       /* the run */

struct thread {
    const struct ranks *ranks;
    uint32_t rank;
    int result;
};

struct plait_comm_options ranks_options(uint32_t rank)
{
    struct plait_comm_options o = latest.options;

    o.size = sizeof o;
    o.nrank = latest.nprocess * latest.nthread;
    o.rank = rank;
    o.id = &the_id;
    return o;
}

bool ranks_apart(uint32_t a, uint32_t b)
{
    const uint32_t nrank = latest.nprocess * latest.nthread,
                   set = RANKS_ON_HOSTS ? (uint32_t)atoi(getenv("PLAIT_HOSTS")) : 1;
    const uint32_t hosts = set < nrank ? set : nrank;

    return a * hosts / nrank != b * hosts / nrank;
}

void ranks_meet(void)
{
    const uint32_t nrank = latest.nprocess * latest.nthread;
    const uint32_t before = (*arrived)++, all = (before / nrank + 1) * nrank;

    while (*arrived < all)
        usleep(100);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    const struct plait_comm_options o = ranks_options(t->rank);
    struct plait_comm *comm = NULL;

    if (!t->ranks->no_comm && plait_comm_create(&o, &comm) != PLAIT_OK) {
        fprintf(stderr, "rank %u: create: %s\n", t->rank, plait_last_error());
        t->result = 1;
        return NULL;
    }
    t->result = comm != NULL && ranks_prepare != NULL ? ranks_prepare(comm, t->rank) : 0;
    if (t->result == 0)
        t->result = t->ranks->body(&comm, t->rank, t->ranks->arg);
    if (comm != NULL && plait_comm_destroy(comm) != PLAIT_OK && t->result == 0 && !t->ranks->no_comm) {
        fprintf(stderr, "rank %u: destroy: %s\n", t->rank, plait_last_error());
        t->result = 1;
    }
    return NULL;
}

static int run_process(const struct ranks *r, uint32_t process)
{
    struct thread *threads = calloc(r->nthread, sizeof *threads);
    pthread_t *ids = calloc(r->nthread, sizeof *ids);
    int failed = 0;

    if (threads == NULL || ids == NULL)
        return 1;
    for (uint32_t t = 0; t < r->nthread; t++) {
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 512 << 10);
        threads[t] = (struct thread){ r, process * r->nthread + t, 0 };
        if (pthread_create(&ids[t], &attr, run_thread, &threads[t]) != 0)
            abort();
        pthread_attr_destroy(&attr);
    }
    for (uint32_t t = 0; t < r->nthread; t++) {
        pthread_join(ids[t], NULL);
        failed += threads[t].result != 0;
    }
    free(threads);
    free(ids);
    return failed;
}

static void end_all(const struct ranks *r, const pid_t *pids)
{
    for (uint32_t p = 0; p < r->nprocess; p++)
        if (pids[p] > 0)
            kill(pids[p], SIGKILL);
}

static bool begin_kept(void *arg)
{
    *arrived = 0;
    return plait_unique_id_create(&the_id) == PLAIT_OK;
}

static unsigned run_kept(const void *r, unsigned process)
{
    return (unsigned)run_process(r, process);
}

static unsigned run_all(struct ranks *r)
{
    const double until = plait_clock() + SLOWER * (r->limit > 0 ? r->limit : 120);
    pid_t *pids = calloc(r->nprocess, sizeof *pids);
    unsigned failed = 0, left = r->nprocess;

    if (arrived == NULL)
        arrived = shared_memory(sizeof *arrived);
    latest = *r;
    if (kept()) {
        free(pids);
        return kept_run(&(struct kept_run){ r->nprocess, SLOWER * (r->limit > 0 ? r->limit : 120), r->tied, begin_kept,
                                            run_kept, r, &the_id, sizeof the_id });
    }
    if (pids == NULL || plait_unique_id_create(&the_id) != PLAIT_OK)
        return 1;
    *arrived = 0;
    for (uint32_t p = 0; p < r->nprocess; p++)
        if ((pids[p] = child_fork()) == 0) {
            const int bad = run_process(r, p);
            fflush(NULL);
            _exit(bad > 100 ? 100 : bad);
        }
    while (left > 0) {
        for (uint32_t p = 0; p < r->nprocess; p++) {
            int how;
            if (pids[p] <= 0 || waitpid(pids[p], &how, WNOHANG) != pids[p])
                continue;
            pids[p] = 0;
            left--;
            failed += WIFEXITED(how) ? (unsigned)WEXITSTATUS(how) : 1;
            if (WIFSIGNALED(how) && WTERMSIG(how) != SIGKILL)
                fprintf(stderr, "process %u: signal %d\n", p, WTERMSIG(how));
            if (r->tied && failed > 0)
                end_all(r, pids);
        }
        if (plait_clock() > until) {
            fprintf(stderr, "time limit: %u processes killed\n", left);
            end_all(r, pids);
        }
        usleep(500);
    }
    free(pids);
    return failed;
}

/*
 * In the short tiers runs begin quickly. There are no calibrations, of tens of ms each, but in cma_test.c. UCX takes the
 * transports of PLAIT_TEST_TLS, as each costs it some ms.
 */
static void begin_quickly(void)
{
    const char *transports = getenv("PLAIT_TEST_TLS");

    if (full())
        return;
    setenv("PLAIT_CALIBRATE", "0", 0);
    setenv("PLAIT_TUNING", "none", 0);
    if (transports != NULL)
        setenv("UCX_TLS", transports, 0);
}

static struct ranks as_threads(const struct ranks *r)
{
    struct ranks all = *r;

    all.nthread *= r->nprocess;
    all.nprocess = 1;
    return all;
}

static bool become_threads(const struct ranks *r)
{
    const char *threads = getenv("PLAIT_TEST_THREADS");

    return threads != NULL && strcmp(threads, "1") == 0 && !r->processes;
}

unsigned ranks_run(const struct ranks *r)
{
    struct ranks all = become_threads(r) ? as_threads(r) : *r;

    begin_quickly();
    return run_all(&all);
}

unsigned ranks_run_both(const struct ranks *r)
{
    const struct ranks all = as_threads(r);

    return (become_threads(r) ? 0 : ranks_run(r)) + ranks_run(&all);
}

bool says(const char *text)
{
    if (strstr(plait_last_error(), text) != NULL)
        return true;
    fprintf(stderr, "'%s' is not in '%s'\n", text, plait_last_error());
    return false;
}
