/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of soak know of each other. */
#ifndef PLAIT_TESTS_SOAK_H
#define PLAIT_TESTS_SOAK_H

#include "../random.h"
#include "../specs.h"

#include <plait/comm.h>
#include <plait/plan.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MOST_RANKS 16
#define NCOMM      6                 /* alive at most */
#define MOST_BYTES ((size_t)8 << 20) /* of a vector */
#define MEMORIES   4
#define NMIX       7   /* operations at once */
#define BATCH      200 /* operations between checkpoints */

struct shared {
    pthread_barrier_t all;
    _Atomic bool stop, failed;
    _Atomic uint64_t moment; /* last operation begun by any rank; for the watching parent */
    /* Of the last comms of each place: processes that are in few comms run ahead, until the checkpoint. */
    struct plait_unique_id id[NCOMM][BATCH];
    _Atomic uint64_t made[NCOMM][BATCH]; /* number of the comm that the id is for */
    _Atomic uint64_t operations, comms, checkpoints, bytes;
    size_t heap, resident, arena;
    int descriptors, mappings;
};

struct place { /* of a comm that is alive, or not */
    struct plait_comm *comm;
    bool alive;
    uint32_t nrank, rank; /* of this process in it; UINT32_MAX: it is not */
    bool reproducible, shrunk;
    uint64_t made;
};

struct soak {
    struct shared *shared;
    uint32_t me, nrank;
    uint64_t state; /* of the random numbers; equal in all processes */
    struct place places[NCOMM];
    struct specs specs[MOST_RANKS + 1]; /* by ranks */
    char *memory[2][MEMORIES];          /* [in, out] heap, library, heap but for one element, static */
    char *scratch[2];                   /* what must come out */
};

static inline uint64_t draw(struct soak *s)
{
    return random_next(&s->state);
}

static inline uint32_t below(struct soak *s, uint32_t n)
{
    return (uint32_t)(draw(s) % n);
}

/* All processes end. Returns false. */
bool complain(struct soak *s, const char *what);

/* comms.c: a comm at this place, of random ranks, or of those of another; and its end. */
bool make_comm(struct soak *s, uint32_t p);
bool suspend_comm(struct soak *s, struct place *place); /* and resume it */
bool end_comm(struct soak *s, uint32_t p);

/* one.c: a collective, all-reduce among them or not; an operation, right or not. */
enum plait_coll draw_collective(struct soak *s, bool allreduce);
bool operate(struct soak *s, struct place *place);
bool move(struct soak *s, struct place *place);

/* Small ones more often than large ones. */
size_t draw_count(struct soak *s, size_t size);

/* Of pre-multiplied sums every factor is 2: an element of the type; what has come out, without it. */
const void *two(enum plait_dtype type);
void halve(void *vector, enum plait_dtype type, size_t count);

/* many.c: operations of two comms at once, with messages between. */
bool mix(struct soak *s, struct place *a, struct place *b);

#endif
