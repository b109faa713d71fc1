/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for other ranks: spin, then yield, then sleep; and finding out why a wait does not end.
 *
 * The spin reads no clock and makes no system call. After it, every few turns look at what the others
 * say: has a rank's comm failed, did one call with other arguments, has one left or died, and only
 * then at the clock, for the stall warning and the deadline. A sleeper waits on the bells of the ranks
 * it awaits; a rank that has news for a sleeper rings. Sleeps are at most a millisecond long, so a
 * ring that is missed in the race between the two costs no more than that.
 */
#ifndef PLAIT_LIB_WAIT_H
#define PLAIT_LIB_WAIT_H

#include "comm.h"

#define PLAIT_SPINS        4000 /* turns with a pause each: tens of microseconds on any processor */
#define PLAIT_SPINS_SHARED 4    /* when there are more ranks than processors, the awaited rank may need this one */

#define PLAIT_BELLS 16 /* ranks whose bells a sleeper waits on */

struct plait_wait {
    uint32_t turns;      /* without progress */
    uint32_t suspect;    /* rank + 1 seen gone one look ago: what it sent before may still arrive */
    double start, check; /* clock when the waiting was first timed; of the next look for deaths */
    double last;         /* clock at the last look */
    bool timed, warned, sleepy, announced;
    /* The ranks waited for, at most `most`; for sleeping and for messages. */
    uint32_t (*awaited)(const void *context, uint32_t *ranks, uint32_t most);
    uint64_t (*steps)(const void *context); /* how many of the operation are done; NULL: not told */
    const void *context;
    uint32_t nbell, ranks[PLAIT_BELLS], bells[PLAIT_BELLS]; /* of the last announcement */
};

static inline void plait_wait_init(struct plait_wait *w, uint32_t (*awaited)(const void *, uint32_t *, uint32_t),
                                   const void *context)
{
    w->turns = w->suspect = 0;
    w->timed = w->warned = w->sleepy = w->announced = false;
    w->awaited = awaited;
    w->steps = NULL;
    w->context = context;
}

static inline void plait_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* This rank no longer waits long: its ring says so, if it said otherwise. */
void plait_wait_over(struct plait_comm *comm);

/* The part after the spin. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w);

/* One turn without progress. An error ends the operation and has failed the comm. */
static inline enum plait_status plait_wait_turn(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->turns < (comm->oversubscribed ? PLAIT_SPINS_SHARED : PLAIT_SPINS)) {
        w->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    return plait_wait_long(comm, w);
}

/* There was progress: the next wait starts afresh. */
static inline void plait_wait_progress(struct plait_comm *comm, struct plait_wait *w)
{
    w->turns = 0;
    if (w->timed)
        plait_wait_over(comm);
    w->timed = false;
    if (w->announced)
        atomic_store_explicit(&comm->own->asleep, 0, memory_order_relaxed);
    w->announced = w->sleepy = false;
}

/*
 * Has any rank failed? Asked before a success is reported: an operation that failed on one rank should not succeed
 * on a later one, and a rank that failed and left may since have changed the memory that this rank read.
 */
enum plait_status plait_look_for_failures(struct plait_comm *comm);

/*
 * Did a rank call one of the operations since comm->unheard with other arguments? Where ranks do not hear of each other
 * (rooted collectives) and messages are small, all may have returned from it.
 */
enum plait_status plait_look_at_past_calls(struct plait_comm *comm);

/* Wake `peer` if it sleeps; after news for it was written. */
void plait_ring(struct plait_comm *comm);

/* Mark the comm as failed for all ranks, unless it is already. Any thread. culprit: rank + 1, or 0. */
void plait_announce_failure(struct plait_comm *comm, enum plait_status status, const char *text, uint32_t culprit);

static inline void plait_wake(struct plait_comm *comm, uint32_t peer)
{
    if (__builtin_expect(atomic_load_explicit(&comm->peers[peer].control->asleep, memory_order_relaxed), 0))
        plait_ring(comm);
}

/*
 * Fail the comm on this rank and, through its control block, on all others. The text becomes
 * plait_last_error() everywhere; "OPERATION: " of the operation in progress is put before it.
 */
enum plait_status plait_comm_fail(struct plait_comm *comm, enum plait_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same where another rank is the cause: the log shows its last operations, too. */
enum plait_status plait_comm_blame(struct plait_comm *comm, enum plait_status status, uint32_t culprit,
                                   const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
