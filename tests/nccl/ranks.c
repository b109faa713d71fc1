/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include "../kept.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LIMIT 600
#else
#define LIMIT 200
#endif
#define MOST 16

ncclUniqueId ranks_id[MOST_IDS];

struct thread {
    const struct ranks *ranks;
    int rank, result;
};

static int run_rank(const struct ranks *r, int rank)
{
    const int nrank = r->nprocess * r->nthread;
    ncclComm_t comm = NULL;

    if (!r->no_comm)
        OK(ncclCommInitRank(&comm, nrank, ranks_id[0], rank));
    const int result = r->body(&comm, rank, nrank);
    if (comm != NULL) {
        const ncclResult_t destroyed = ncclCommDestroy(comm);
        CHECK(destroyed == ncclSuccess || r->careless || result != 0);
    }
    return result;
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;

    t->result = run_rank(t->ranks, t->rank);
    return NULL;
}

static int run_process(const struct ranks *r, int process)
{
    struct thread threads[MOST];
    pthread_t ids[MOST];
    int failed = 0;

    alarm(LIMIT);
    for (const char *const *e = r->environment; e != NULL && *e != NULL; e++)
        putenv((char *)(uintptr_t)*e);
    for (int t = 0; t < r->nthread; t++) {
        threads[t] = (struct thread){ r, process * r->nthread + t, 0 };
        if (pthread_create(&ids[t], NULL, run_thread, &threads[t]) != 0)
            abort();
    }
    for (int t = 0; t < r->nthread; t++) {
        pthread_join(ids[t], NULL);
        failed += threads[t].result != 0;
    }
    return failed;
}

static bool make_ids(void *arg)
{
    for (int i = 0; i < MOST_IDS; i++)
        if (ncclGetUniqueId(&ranks_id[i]) != ncclSuccess)
            return false;
    return true;
}

static unsigned run_kept(const void *r, unsigned process)
{
    const int failed = run_process(r, (int)process);

    alarm(0);
    return (unsigned)failed;
}

static unsigned run_new(const void *arg, unsigned unused)
{
    const struct ranks *r = arg;
    pid_t pids[MOST];
    unsigned failed = 0;
    int how;

    if (!make_ids(NULL))
        return 1;
    fflush(NULL);
    for (int p = 0; p < r->nprocess; p++)
        if ((pids[p] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int bad = run_process(r, p);
            fflush(NULL);
            _exit(bad);
        }
    for (int p = 0; p < r->nprocess; p++) {
        if (waitpid(pids[p], &how, 0) != pids[p])
            return 1;
        if (WIFSIGNALED(how))
            fprintf(stderr, "process %d: signal %d\n", p, WTERMSIG(how));
        failed += WIFEXITED(how) ? (unsigned)WEXITSTATUS(how) : 1;
    }
    return failed;
}

int ranks_run(const struct ranks *r)
{
    struct ranks all = *r;
    struct kept_run k = { (unsigned)r->nprocess, LIMIT, false, make_ids, run_kept, &all, ranks_id, sizeof ranks_id };

    if (!kept())
        return (int)run_new(r, 0);
    if (r->fresh) {
        k.nprocess = 0;
        k.body = run_new;
    }
    return (int)kept_run(&k);
}

ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t result = ncclInProgress;

    while (ncclCommGetAsyncError(comm, &result) == ncclSuccess && result == ncclInProgress)
        usleep(200);
    return result;
}

const size_t type_sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

void put_one(void *to, int type)
{
    static const uint16_t half = 0x3c00, bfloat = 0x3f80;
    static const float single = 1;
    static const double twice = 1;
    const uint64_t integer = 1;
    const uint8_t e4m3 = 0x38, e5m2 = 0x3c;
    const void *const ones[] = { &integer, &integer, &integer, &integer, &integer, &integer,
                                 &half,    &single,  &twice,   &bfloat,  &e4m3,    &e5m2 };

    memcpy(to, ones[type], type_sizes[type]);
}
