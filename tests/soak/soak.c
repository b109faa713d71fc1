/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Soak: processes that make comms over random ranks or of other comms, run random collectives on them in every form and
 * type, alone or many at once beside messages, and destroy them, for as long as asked; every result is checked, and now
 * and then that nothing has grown.
 *
 * Usage: soak [--seconds N] [--seed N] [--ranks N]          900 s (10 s from meson), a random seed, 8 ranks
 *
 * All processes draw the same random numbers, so they agree on what comes next without talking. At a *checkpoint* no
 * comm is alive: then heap, arena, descriptors and mappings are as they were at the first one.
 */
#include "soak.h"
#include "../child.h"

#include "../usage.h"
#include "../values.h"
#include "base/clock.h"

#include <plait/memory.h>

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FLAT_HEAP (256 << 10) /* bytes that the heap may differ at checkpoints: what the C library keeps for later */
#ifdef __SANITIZE_ADDRESS__
#define FLAT_MEMORY (260 << 20) /* address sanitizer keeps the last 256 MiB of what is freed */
#else
#define FLAT_MEMORY (4 << 20) /* as much of resident memory that is not shared */
#endif

static char statics[2][MOST_BYTES];

bool complain(struct soak *s, const char *what)
{
    fprintf(stderr, "soak: process %u, operation %llu: %s: %s\n", s->me, (unsigned long long)s->shared->operations,
            what, plait_last_error());
    s->shared->failed = true;
    return false;
}

static bool work(struct soak *s, uint32_t p)
{
    const uint32_t what = below(s, 3), q = below(s, NCOMM);

    if (below(s, 50) == 0)
        return suspend_comm(s, &s->places[p]);
    if (what == 0)
        return operate(s, &s->places[p]);
    return what == 1 ? move(s, &s->places[p]) : mix(s, &s->places[p], &s->places[s->places[q].alive ? q : p]);
}

/* ---- Checkpoints ------------------------------------------------------------------------------------- */

static bool meet(struct soak *s)
{
    pthread_barrier_wait(&s->shared->all);
    return !s->shared->failed;
}

static bool checkpoint(struct soak *s, struct usage *first)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;

    for (uint32_t p = 0; p < NCOMM; p++)
        if (s->places[p].alive && !end_comm(s, p))
            return false;
    if (!meet(s))
        return false;
    o.nrank = 1; /* what is left of comms that all have left goes with the next call */
    if (plait_comm_create(&o, &comm) != PLAIT_OK || plait_comm_destroy(comm) != PLAIT_OK)
        return complain(s, "checkpoint");
    if (!meet(s))
        return false;
    malloc_trim(0); /* what the C library keeps for later is no growth */
    const struct usage u = usage_now(mallinfo2().uordblks);
    const size_t vectors = 2 * MOST_BYTES;
    if (first->mappings == 0)
        *first = u;
    /* A peer's last look at a block that is gone brings one page of zeros back, until the place is used again. */
    if (u.descriptors != first->descriptors || u.mappings > first->mappings + 4 || u.heap > first->heap + FLAT_HEAP ||
        u.resident > first->resident + FLAT_MEMORY || u.arena > vectors + 4096 * (NCOMM + 1) * (size_t)MOST_RANKS) {
        fprintf(stderr,
                "soak: process %u has grown: heap %zu, first %zu; resident %zu, first %zu; arena %zu of %zu; "
                "descriptors %d, first %d; mappings %d, first %d\n",
                s->me, u.heap, first->heap, u.resident, first->resident, u.arena, vectors, u.descriptors,
                first->descriptors, u.mappings, first->mappings);
        return complain(s, "not flat");
    }
    if (s->me == 0) {
        struct shared *h = s->shared;
        h->checkpoints++;
        h->heap = u.heap;
        h->resident = u.resident;
        h->arena = u.arena;
        h->descriptors = u.descriptors;
        h->mappings = u.mappings;
    }
    return true;
}

/* ---- One process --------------------------------------------------------------------------------------- */

static bool prepare(struct soak *s)
{
    for (uint32_t n = 1; n <= s->nrank; n++)
        specs_init(&s->specs[n], PLAIT_ALLREDUCE, n, false);
    for (unsigned type = 0; type < PLAIT_NDTYPE; type++) /* results that are kept */
        for (unsigned op = 0; op < PLAIT_PREMULSUM; op++)
            values_want(statics[0], (enum plait_dtype)type, (enum plait_op)op, s->nrank, MOST_BYTES / 8);
    for (unsigned k = 0; k < 2; k++) {
        void *library;
        if (plait_mem_alloc(MOST_BYTES, &library) != PLAIT_OK)
            return complain(s, "memory");
        s->scratch[k] = malloc(MOST_BYTES);
        if (s->scratch[k] == NULL)
            return complain(s, "memory");
        memset(s->scratch[k], 1, MOST_BYTES); /* resident before the first checkpoint; zeros would be calloc() */
        s->memory[k][0] = malloc(MOST_BYTES);
        s->memory[k][1] = library;
        s->memory[k][2] = malloc(MOST_BYTES);
        s->memory[k][3] = statics[k];
        for (unsigned i = 0; i < MEMORIES; i++) {
            if (s->memory[k][i] == NULL)
                return complain(s, "memory");
            memset(s->memory[k][i], 1, MOST_BYTES);
        }
    }
    return true;
}

static int process(struct shared *shared, uint32_t me, uint32_t nrank, uint64_t seed)
{
    static struct soak s;
    struct usage first = { 0 };
    bool ok;

    s.shared = shared;
    s.me = me;
    s.nrank = nrank;
    s.state = seed;
    ok = prepare(&s);
    for (unsigned batch = 0; ok; batch++) {
        for (unsigned k = 0; k < BATCH && ok && !shared->failed; k++) {
            const uint32_t p = below(&s, NCOMM);
            if (!s.places[p].alive)
                ok = make_comm(&s, p);
            else if (below(&s, 25) == 0)
                ok = end_comm(&s, p);
            else
                ok = work(&s, p);
            shared->moment++;
        }
        ok = ok && checkpoint(&s, &first);
        if (batch == 0) /* it warmed up */
            first.mappings = 0;
        if (!ok || !meet(&s) || (shared->stop && batch > 1))
            break;
        if (!meet(&s)) /* all have looked at `stop` */
            break;
    }
    fflush(NULL);
    return ok && !shared->failed ? 0 : 1;
}

/* ---- The watching parent ------------------------------------------------------------------------------- */

static void show(const struct shared *s, double seconds)
{
    printf("[%4.0f s] %llu operations, %.1f GiB, %llu comms, %llu checkpoints; process 0: heap %zu KiB, resident %zu "
           "KiB, arena %zu KiB, %d descriptors, %d mappings\n",
           seconds, (unsigned long long)s->operations, (double)s->bytes / (1 << 30), (unsigned long long)s->comms,
           (unsigned long long)s->checkpoints, s->heap >> 10, s->resident >> 10, s->arena >> 10, s->descriptors,
           s->mappings);
    fflush(stdout);
}

/* Until all have ended. One that fails ends all: the others may wait for it. */
static int watch(struct shared *s, const pid_t *pids, uint32_t nrank, double seconds)
{
    const double start = plait_clock();
    double shown = start, moved = start;
    uint64_t moment = 0;
    int failed = 0;

    for (uint32_t left = nrank; left > 0;) {
        int how;
        const pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid > 0) {
            left--;
            failed += how != 0;
        }
        if (s->moment != moment) {
            moment = s->moment;
            moved = plait_clock();
        }
        if (failed == 0 && plait_clock() - moved > 180) {
            fprintf(stderr, "soak: nothing moves for 180 s\n");
            failed = 1;
        }
        for (uint32_t r = 0; r < nrank && failed > 0; r++)
            kill(pids[r], SIGKILL);
        s->stop = plait_clock() - start > seconds;
        if (plait_clock() - shown > 10) {
            show(s, plait_clock() - start);
            shown = plait_clock();
        }
        usleep(20000);
    }
    show(s, plait_clock() - start);
    return failed;
}

int main(int argc, char **argv)
{
    double seconds = 900;
    uint64_t seed = 0;
    uint32_t nrank = 8;
    pid_t pids[MOST_RANKS];
    struct shared *s = shared_memory(sizeof *s);

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--ranks") == 0)
            nrank = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            seconds = 0;
    }
    if (argc % 2 == 0 || seconds <= 0 || nrank < 1 || nrank > MOST_RANKS) {
        fprintf(stderr, "usage: soak [--seconds N] [--seed N] [--ranks 1..%d]\n", MOST_RANKS);
        return 2;
    }
    if (seed == 0 && getrandom(&seed, 4, 0) != 4)
        seed = 1;
    printf("soak: %u processes, %g s, --seed %llu\n", nrank, seconds, (unsigned long long)seed);
    shared_barrier_init(&s->all, nrank);
    for (uint32_t r = 0; r < nrank; r++) {
        pids[r] = child_fork();
        if (pids[r] == 0)
            _exit(process(s, r, nrank, seed));
    }
    const int failed = watch(s, pids, nrank, seconds);
    printf("soak: %s; %u processes, --seed %llu: %llu operations, %.1f GiB, %llu comms\n", failed ? "FAILED" : "passed",
           nrank, (unsigned long long)seed, (unsigned long long)s->operations, (double)s->bytes / (1 << 30),
           (unsigned long long)s->comms);
    return failed != 0;
}
