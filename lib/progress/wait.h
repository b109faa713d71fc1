/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for other ranks: spin, then yield, then sleep. A failure detector finds why a wait does not end.
 *
 * The spin reads no clock and makes no system call. After the spin, every few turns probe the other ranks: has the comm
 * failed, did a rank call with other arguments, has one left or died? Only then check the clock, for the stall warning
 * and the deadline. doorbells.h wakes sleepers. Pending operations of other comms go on meanwhile (progress.h).
 */
#ifndef PLAIT_LIB_PROGRESS_WAIT_H
#define PLAIT_LIB_PROGRESS_WAIT_H

#include "base/clock.h"
#include "progress.h"

#include <sched.h>

#define PLAIT_SPINS 4000 /* turns, each with a pause: tens of microseconds on any processor */

/* With more ranks than processors the awaited rank may need this one. */
#define PLAIT_SPINS_SHARED 4

/*
 * Seconds of competitive spinning. Where two ranks share a processor, ranks on other processors run, or soon will. For
 * a few bytes of theirs, spin about as long as a yield and the return from it take: the cost is at most twice that of
 * the better choice (Karlin et al., SOSP 1991). Not while the other rank of this processor waits and has yielded.
 */
#define PLAIT_APART_SECONDS 3.5e-6

/*
 * Over a network, where a turn is a system call, operations of at most BYTES spin NETWORK turns more, some 20 us: a
 * yield takes as long as a poll and delays arrivals. Longer operations yield, as a kernel thread does part of their
 * work. A yield that returns late shows that others want this processor, perhaps ranks of a (virtual) host that this
 * rank does not know. The long spin then pauses for CROWDED_YIELDS yields.
 */
#define PLAIT_SPINS_BYTES    4096
#define PLAIT_SPINS_NETWORK  60
#define PLAIT_CROWDED_YIELDS 256

/*
 * Another rank's copy ends soon, so spin one turn more per A_SPIN bytes of the operation, up to some 10 ms. A yield on
 * a busy processor costs a time slice of 4 ms, several times the copy; on an idle one it costs nothing.
 */
#define PLAIT_BYTES_A_SPIN 64
#define PLAIT_MORE_SPINS   (1 << 18)

/* A wait for something else than a collective: for messages, or for this rank's own tensors. */
struct plait_wait_kind {
    /* Is this rank needed to end the wait? */
    bool (*needs)(const void *context, uint32_t rank);
    /* The culprit of a stall (rank + 1; 0: none), and a text that names it. */
    uint32_t (*blame)(const void *context, char *text, size_t room);
    /* Write into the ring that the wait is long (`now` in ns) or over (0). */
    void (*note)(const void *context, uint64_t now);
};

/*
 * A deadline of servers, which wait for workers without a limit. The wait still fails if a needed rank of another host
 * is unheard for the comm's own deadline.
 */
#define PLAIT_FOREVER 1e9

struct plait_wait {
    uint32_t turns;        /* without progress */
    uint32_t more;         /* turns to spin beyond those of the comm */
    uint32_t suspect;      /* rank + 1 found gone by the last probe; its data may still arrive */
    double suspected;      /* clock of the first probe that found it gone */
    uint32_t away;         /* 1: this wait has yielded */
    double start, check;   /* clock of the wait's first probe; of the next probe for deaths */
    double last;           /* clock of the last probe */
    double seen, silence;  /* the awaited rank's last probe; seconds since, see COUNTED (wait.c) */
    double cut;            /* clock of the first probe that found the link to a needed rank broken; 0: none is */
    uint32_t last_awaited; /* rank + 1, at the last probe; 0: none */
    bool timed, warned, sleepy, announced;
    /* The awaited ranks, at most `most`; for sleeps and texts. */
    uint32_t (*awaited)(const void *context, uint32_t *ranks, uint32_t most);
    uint64_t (*steps)(const void *context, uint64_t *of); /* steps done; *of: in all. NULL: not known */
    const void *context;
    const struct plait_wait_kind *kind; /* NULL: a collective is awaited */
    double limit;                       /* deadline if kind is not NULL; 0: the comm's */
    struct plait_doorbells doorbells;   /* of the last announcement */
};

static inline void plait_wait_init(struct plait_wait *w, const struct plait_wait_kind *kind,
                                   uint32_t (*awaited)(const void *, uint32_t *, uint32_t), const void *context)
{
    w->turns = w->more = w->suspect = w->away = 0;
    w->timed = w->warned = w->sleepy = w->announced = false;
    w->cut = w->seen = w->silence = 0;
    w->awaited = awaited;
    w->steps = NULL;
    w->context = context;
    w->kind = kind;
    if (kind != NULL)
        w->limit = 0;
}

static inline bool plait_wait_is_for_all(const struct plait_wait *w)
{
    return w->kind == NULL;
}

static inline uint32_t plait_spins(const struct plait_comm *comm)
{
    return comm->oversubscribed || comm->port != NULL ? PLAIT_SPINS_SHARED : PLAIT_SPINS;
}

static inline uint32_t plait_wait_spins(const struct plait_comm *comm, const struct plait_wait *w)
{
    return plait_spins(comm) + w->more;
}

/* Turns of the spin in so many seconds, at most PLAIT_SPINS. */
uint32_t plait_spins_in(double seconds);

/* At the start of an operation: publish this rank's processor. */
void plait_tell_processor(struct plait_comm *comm);

/* Does `rank` run on this host, on another processor than this rank, by their last published values? */
static inline bool plait_is_apart(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_peer *peer = &comm->peers[rank];
    const uint32_t there =
        peer->process != NULL ? atomic_load_explicit(&peer->control->processor, memory_order_relaxed) : 0;

    return there != 0 && there != atomic_load_explicit(&comm->own->processor, memory_order_relaxed);
}

/* Has another rank of this processor yielded? Its data may be there already. Waits for requests do not publish this. */
bool plait_neighbour_waits(const struct plait_comm *comm);

/* Yield. Ranks on the same processor see `away` until plait_is_back(). */
static inline void plait_give_way(struct plait_comm *comm)
{
    if (comm->apart > 0)
        atomic_store_explicit(&comm->own->away, 1, memory_order_relaxed);
    sched_yield();
}

static inline void plait_is_back(struct plait_comm *comm)
{
    if (comm->apart > 0)
        atomic_store_explicit(&comm->own->away, 0, memory_order_relaxed);
}

/* So few that sending takes no time. apart: all senders run on other processors than this rank. */
void plait_wait_for_few_bytes(const struct plait_comm *comm, struct plait_wait *w, bool apart);

/* Set the spin for an operation in which some rank moves so many bytes. */
static inline void plait_wait_for_bytes(const struct plait_comm *comm, struct plait_wait *w, size_t bytes)
{
    const size_t more = bytes / PLAIT_BYTES_A_SPIN;

    if (comm->port != NULL && !comm->oversubscribed)
        w->more = bytes <= PLAIT_SPINS_BYTES && comm->crowded == 0 ? PLAIT_SPINS_NETWORK : 0;
    else if (plait_spins(comm) == PLAIT_SPINS)
        w->more = more < PLAIT_MORE_SPINS ? (uint32_t)more : PLAIT_MORE_SPINS;
}

/* A long wait is over: clear the wait in this rank's ring. */
void plait_wait_over(struct plait_comm *comm, const struct plait_wait *w);

/* The part after the spin. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w);

/*
 * For a caller that polls: probe every few calls, or at each call if it polls rarely. On an error the comm has failed.
 */
enum plait_status plait_wait_glance(struct plait_comm *comm, struct plait_wait *w, bool rarely);

/* One turn without progress. On an error the comm has failed and the operation ends. */
static inline enum plait_status plait_wait_turn(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->turns < plait_wait_spins(comm, w) && atomic_load_explicit(&plait_nactive, memory_order_relaxed) == 0) {
        w->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    return plait_wait_long(comm, w);
}

/* There was progress: reset for the next wait. */
static inline void plait_wait_progress(struct plait_comm *comm, struct plait_wait *w)
{
    w->turns = 0;
    if (w->timed)
        plait_wait_over(comm, w);
    if (w->away)
        plait_is_back(comm);
    w->away = 0;
    w->timed = false;
    if (w->announced)
        plait_awake(comm);
    w->announced = w->sleepy = false;
}

#endif
