/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for other ranks: a loop that calls a spinner (progress.h), which passes the time, and a failure detector
 * (detector.h), which finds why the wait does not end. Pending operations of other comms go on meanwhile.
 */
#ifndef PLAIT_LIB_PROGRESS_WAIT_H
#define PLAIT_LIB_PROGRESS_WAIT_H

#include "detector.h"
#include "progress.h"

/* With more ranks than processors the awaited rank may need this one. Over a network a turn is a system call. */
#define PLAIT_SPINS_SHARED 4

/*
 * Seconds of competitive spinning. Where two ranks share a processor, ranks on other processors run, or soon will. For
 * a few bytes of theirs, spin about as long as a yield and the return from it take: the cost is at most twice that of
 * the better choice (Karlin et al., SOSP 1991). Not while the other rank of this processor waits and has yielded.
 */
#define PLAIT_APART_SECONDS 3.5e-6

/*
 * Another rank's copy ends soon, so spin one turn more per A_SPIN bytes of the operation, up to some 10 ms. A yield on
 * a busy processor costs a time slice of 4 ms, several times the copy; on an idle one it costs nothing.
 */
#define PLAIT_BYTES_A_SPIN 64
#define PLAIT_MORE_SPINS   (1 << 18)

struct plait_wait {
    struct plait_spinner spinner;
    struct plait_detector detector;
    uint32_t more; /* turns to spin beyond those of the comm */
    bool away;     /* this wait has yielded */
};

static inline void plait_wait_init(struct plait_wait *w, const struct plait_wait_kind *kind,
                                   uint32_t (*awaited)(const void *, uint32_t *, uint32_t), const void *context)
{
    plait_spinner_reset(&w->spinner);
    w->detector.timed = false;
    w->detector.awaited = awaited;
    w->detector.steps = NULL;
    w->detector.context = context;
    w->detector.kind = kind;
    w->detector.limit = 0;
    w->more = 0;
    w->away = false;
}

static inline uint32_t plait_spins(const struct plait_comm *comm)
{
    return comm->oversubscribed || comm->port != NULL ? PLAIT_SPINS_SHARED : PLAIT_SPINS;
}

static inline uint32_t plait_wait_spins(const struct plait_comm *comm, const struct plait_wait *w)
{
    return plait_spins(comm) + w->more;
}

/* So few that sending takes no time. apart: all senders run on other processors than this rank. */
void plait_wait_for_few_bytes(const struct plait_comm *comm, struct plait_wait *w, bool apart);

/* Set the spin for an operation in which some rank moves so many bytes. */
static inline void plait_wait_for_bytes(const struct plait_comm *comm, struct plait_wait *w, size_t bytes)
{
    const size_t more = bytes / PLAIT_BYTES_A_SPIN;

    if (plait_spins(comm) == PLAIT_SPINS)
        w->more = more < PLAIT_MORE_SPINS ? (uint32_t)more : PLAIT_MORE_SPINS;
}

/* ---- Ranks that share a processor: where one has two, and none has more (comm->apart > 0) ----------- */

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

/* Ranks on the same processor see `away` from this rank's yield until plait_is_back(). */
static inline void plait_is_back(struct plait_comm *comm)
{
    if (comm->apart > 0)
        atomic_store_explicit(&comm->own->away, 0, memory_order_relaxed);
}

/* ---- Turns ------------------------------------------------------------------------------------------ */

/* The part after the spin. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w);

/*
 * For a caller that polls: probe every few calls, or at each call if it polls rarely. On an error the comm has failed.
 */
enum plait_status plait_wait_poll(struct plait_comm *comm, struct plait_wait *w, bool rarely);

/* One turn without progress. On an error the comm has failed and the operation ends. */
static inline enum plait_status plait_wait_turn(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->spinner.turns < plait_wait_spins(comm, w) &&
        atomic_load_explicit(&plait_nactive, memory_order_relaxed) == 0) {
        w->spinner.turns++;
        plait_pause();
        return PLAIT_OK;
    }
    return plait_wait_long(comm, w);
}

/* There was progress: reset for the next wait. */
static inline void plait_wait_progress(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->detector.timed)
        plait_detector_end(comm, &w->detector);
    if (w->away)
        plait_is_back(comm);
    if (w->spinner.announced)
        plait_awake(comm);
    w->away = false;
    plait_spinner_reset(&w->spinner);
}

#endif
