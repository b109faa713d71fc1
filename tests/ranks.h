/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a function as every rank of a comm, in processes, threads or both, with a time limit. With PLAIT_TEST_THREADS=1
 * all ranks are threads of one process, which is what a thread sanitizer can see, except where a rank dies, or
 * ranks share static memory: such a test sets `processes`. With PLAIT_FOR_TESTS=1 and PLAIT_HOSTS=n they are on n hosts
 * as far as the library can tell.
 */
#ifndef PLAIT_TESTS_RANKS_H
#define PLAIT_TESTS_RANKS_H

#include <plait/comm.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Bodies have the same parameters, whatever they need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct ranks {
    uint32_t nprocess, nthread;        /* nthread ranks in each process */
    double limit;                      /* seconds until everything is killed; 0: 120 */
    struct plait_comm_options options; /* size, nrank, rank and id are filled in; 0 is the default of the rest */
    /* One rank. 0 is success; anything else has printed why. It may destroy the comm and set *comm to NULL. */
    int (*body)(struct plait_comm **comm, uint32_t rank, void *arg);
    void *arg;
    bool processes; /* they stay processes although PLAIT_TEST_THREADS is 1 */
    bool no_comm;   /* body makes the comm itself: *comm is NULL, options are in ranks_options() */
    bool tied;      /* ranks wait for each other: a process that fails ends all */
};

/* Called with every comm that ranks_run() has made, before the body; NULL: nothing. 0 is success. */
extern int (*ranks_prepare)(struct plait_comm *comm, uint32_t rank);

/* Number of ranks that failed, were killed by a signal or by the limit. */
unsigned ranks_run(const struct ranks *r);

/* The same as processes, and then as threads of one process; once where processes become threads. */
unsigned ranks_run_both(const struct ranks *r);

/* In a body: wait for all ranks of the run, by means that are not the library's: when an operation has ended on one rank it may
 * still take long on another. Every rank calls it equally often. */
void ranks_meet(void);

/* The options of this rank of the run (for no_comm). */
struct plait_comm_options ranks_options(uint32_t rank);

/* Do the ranks of a test behave as if on several hosts, for what only shared memory promises? */
#define RANKS_ON_HOSTS (getenv("PLAIT_HOSTS") != NULL)

/* In a body: are two ranks as if on different hosts? */
bool ranks_apart(uint32_t a, uint32_t b);

/* Allocations between two looks at calls that go on and on, with one peer: none; over a network there are rooms for what comes
 * before it is asked for, kept, at most a window of 16 messages for each of two channels. */
#define RANKS_KEEP_MEMORY(before, after) ((after) - (before) <= (RANKS_ON_HOSTS ? 32 : 0))

/* Of ranks that a test starts itself. */
static inline struct plait_comm_options options_of_rank(uint32_t nrank, uint32_t rank, const struct plait_unique_id *id)
{
    return (
        struct plait_comm_options){ .size = sizeof(struct plait_comm_options), .nrank = nrank, .rank = rank, .id = id };
}

static inline struct plait_comm_stats stats_of(const struct plait_comm *comm)
{
    struct plait_comm_stats s;

    plait_comm_stats(comm, &s);
    return s;
}

/* Is the text in the last error? Prints both if not. */
bool says(const char *text);

/* In a body: print the condition and the library's last error, and fail the rank. */
#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: rank %u: %s is false (%s)\n", __FILE__, __LINE__, rank, #condition, \
                    plait_last_error());                                                                \
            return 1;                                                                                   \
        }                                                                                               \
    } while (0)

#endif
