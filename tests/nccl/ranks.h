/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a function as every rank of a comm, in processes, threads or both, through NCCL's interface alone. The comm is made
 * with ncclCommInitRank() from an id that was made before, unless the body makes it.
 */
#ifndef PLAIT_TESTS_NCCL_RANKS_H
#define PLAIT_TESTS_NCCL_RANKS_H

#include "nccl.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Bodies have the same parameters, whatever they need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct ranks {
    int nprocess, nthread; /* nthread ranks in each process */
    /* One rank. 0 is success; anything else has printed why. *comm is destroyed afterwards unless it is NULL. */
    int (*body)(ncclComm_t *comm, int rank, int nrank);
    int no_comm;                    /* 1: body makes it */
    int careless;                   /* 1: what ncclCommDestroy() answers is no matter */
    int fresh;                      /* 1: in new processes always (tests/kept.h) */
    const char *const *environment; /* "NAME=value", ..., NULL: of these ranks; or NULL */
};

/* Number of ranks that failed, were killed by a signal or by the limit of a minute. */
int ranks_run(const struct ranks *r);

/* Of this run; ids for further comms. */
#define MOST_IDS 4
extern ncclUniqueId ranks_id[MOST_IDS];

/* Until the comm is no longer in progress: its state. */
ncclResult_t settle(ncclComm_t comm);

/* Bytes of each type; write a 1 of it. */
extern const size_t type_sizes[];
void put_one(void *to, int type);

/* Are the ranks as if on several hosts (PLAIT_HOSTS)? */
#define ON_HOSTS (getenv("PLAIT_HOSTS") != NULL)

/* In a body: print the condition and the last error, and fail the rank. */
#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: rank %d: %s is false (%s)\n", __FILE__, __LINE__, rank, #condition, \
                    ncclGetLastError(NULL));                                                            \
            return 1;                                                                                   \
        }                                                                                               \
    } while (0)
#define OK(call) CHECK((call) == ncclSuccess)

#endif
