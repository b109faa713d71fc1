/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for other ranks: spin, then yield, then sleep; and finding out why a wait does not end.
 *
 * The spin reads no clock and makes no system call. After it, every few turns look at what the others
 * say: has a rank's comm failed, did one call with other arguments, has one left or died, and only
 * then at the clock, for the stall warning and the deadline. How a sleeper is woken: doorbells.h. Pending operations of
 * other comms go on meanwhile (progress.h).
 */
#ifndef PLAIT_LIB_PROGRESS_WAIT_H
#define PLAIT_LIB_PROGRESS_WAIT_H

#include "progress.h"

#include <sched.h>

#define PLAIT_SPINS 4000 /* turns with a pause each: tens of microseconds on any processor */

/* With more ranks than processors the awaited rank may need this one. */
#define PLAIT_SPINS_SHARED 4

/*
 * But where two ranks share a processor those on others run, or are about to: for a few bytes of theirs it spins about
 * as long as it would take to give the processor up and have it back, which is at most twice what the best of both
 * would have taken (Karlin et al., SOSP 1991). It does not while the other rank of its processor waits for that.
 */
#define PLAIT_APART_SECONDS 3.5e-6

/*
 * Over a network, where a turn is a system call: some 20 us more for a short operation. A yield between two looks takes
 * as long as the look, so that what comes is seen later; of long ones the kernel's own thread does a part. But where a
 * yield came back late, others want this processor, other ranks perhaps, of which a rank knows those of its own host
 * only: so many yields later it spins so long again.
 */
#define PLAIT_SPINS_BYTES    4096
#define PLAIT_SPINS_NETWORK  60
#define PLAIT_CROWDED_YIELDS 256

/*
 * Who waits while another rank copies does not wait long: a turn more for every so many bytes of the operation, up to
 * some 10 ms. A yield costs nothing where nobody else runs, and else a time slice of 4 ms, several times the copy.
 */
#define PLAIT_BYTES_A_SPIN 64
#define PLAIT_MORE_SPINS   (1 << 18)

/* What a wait is for that is not for a collective of all ranks: a message, or this rank's own tensors. */
struct plait_wait_kind {
    /* Can it not end without this rank? */
    bool (*needs)(const void *context, uint32_t rank);
    /* Of a stall: who is at fault (rank + 1), in words. */
    uint32_t (*blame)(const void *context, char *text, size_t room);
    /* Write into the ring that it is long (`now` in ns) or over (0). */
    void (*note)(const void *context, uint64_t now);
};

/*
 * A deadline: who serves waits for whoever comes, for any time. It ends when a rank of another host that is waited for
 * is not heard of for as long as the comm's own deadline.
 */
#define PLAIT_FOREVER 1e9

struct plait_wait {
    uint32_t turns;        /* without progress */
    uint32_t more;         /* turns to spin beyond those of the comm */
    uint32_t suspect;      /* rank + 1 seen gone one look ago: what it sent before may still arrive; */
    double suspected;      /* clock of the first such look */
    uint32_t away;         /* 1: it has given up its processor */
    double start, check;   /* clock when the waiting was first timed; of the next look for deaths */
    double last;           /* clock at the last look */
    double seen, silence;  /* last look of the rank that is waited for; seconds since, see COUNTED (wait.c) */
    double cut;            /* clock of the first look at which a rank that is needed could not be reached; 0: all can */
    uint32_t last_awaited; /* rank + 1, of the last look; 0: nobody */
    bool timed, warned, sleepy, announced;
    /* The ranks waited for, at most `most`; for sleeping and for messages. */
    uint32_t (*awaited)(const void *context, uint32_t *ranks, uint32_t most);
    uint64_t (*steps)(const void *context, uint64_t *of); /* how many of the operation are done; NULL: not told */
    const void *context;
    const struct plait_wait_kind *kind; /* NULL: a collective of all ranks is awaited */
    double limit;                       /* of another kind, its deadline; 0: the comm's */
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

static inline void plait_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static inline uint32_t plait_spins(const struct plait_comm *comm)
{
    return comm->oversubscribed || comm->port != NULL ? PLAIT_SPINS_SHARED : PLAIT_SPINS;
}

static inline uint32_t plait_wait_spins(const struct plait_comm *comm, const struct plait_wait *w)
{
    return plait_spins(comm) + w->more;
}

/* How many turns take so long? */
uint32_t plait_spins_in(double seconds);

/* At the beginning of an operation: the others see where this rank is. */
void plait_tell_processor(struct plait_comm *comm);

/* As they last told: does it run on another processor of this machine than this rank? */
static inline bool plait_is_apart(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_peer *peer = &comm->peers[rank];
    const uint32_t there =
        peer->process != NULL ? atomic_load_explicit(&peer->control->processor, memory_order_relaxed) : 0;

    return there != 0 && there != atomic_load_explicit(&comm->own->processor, memory_order_relaxed);
}

/*
 * Has another rank of this processor yielded, with what it waits for perhaps at hand? Not told of waits for requests.
 */
bool plait_neighbour_waits(const struct plait_comm *comm);

/* Yield; who shares the processor sees that this rank waits, until it is back. */
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

/* So few that whoever sends them needs no time to. apart: all who do run on other processors than this rank. */
void plait_wait_for_few_bytes(const struct plait_comm *comm, struct plait_wait *w, bool apart);

/* The operation moves so many bytes at some rank. */
static inline void plait_wait_for_bytes(const struct plait_comm *comm, struct plait_wait *w, size_t bytes)
{
    const size_t more = bytes / PLAIT_BYTES_A_SPIN;

    if (comm->port != NULL && !comm->oversubscribed)
        w->more = bytes <= PLAIT_SPINS_BYTES && comm->crowded == 0 ? PLAIT_SPINS_NETWORK : 0;
    else if (plait_spins(comm) == PLAIT_SPINS)
        w->more = more < PLAIT_MORE_SPINS ? (uint32_t)more : PLAIT_MORE_SPINS;
}

/* This rank no longer waits long: its ring says so, if it said otherwise. */
void plait_wait_over(struct plait_comm *comm, const struct plait_wait *w);

/* The part after the spin. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w);

/*
 * Not a wait, but a look around by somebody who polls: every few times, or at once if it polls rarely. An error has
 * failed the comm.
 */
enum plait_status plait_wait_glance(struct plait_comm *comm, struct plait_wait *w, bool rarely);

/* One turn without progress. An error ends the operation and has failed the comm. */
static inline enum plait_status plait_wait_turn(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->turns < plait_wait_spins(comm, w) && atomic_load_explicit(&plait_nactive, memory_order_relaxed) == 0) {
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
