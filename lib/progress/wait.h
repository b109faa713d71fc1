/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for other ranks: a spinner (progress.h) and a failure detector (detector.h). Other comms go on meanwhile. */
#ifndef PLAIT_LIB_PROGRESS_WAIT_H
#define PLAIT_LIB_PROGRESS_WAIT_H

#include "detector.h"
#include "progress.h"

/*
 * Spins where ranks share processors, as the awaited rank may need this one's; or over a network, where a turn costs a
 * system call.
 */
#define PLAIT_SPINS_SHARED 4

struct plait_wait {
    struct plait_spinner spinner;
    struct plait_detector detector;
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
}

static inline uint32_t plait_spins(const struct plait_comm *comm)
{
    return comm->processors > 0 || comm->port != NULL ? PLAIT_SPINS_SHARED : PLAIT_SPINS;
}

/* The part after the spin. */
enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w);

/*
 * For a caller that polls: probe every few calls, or at each call if it polls rarely. On an error the comm has failed.
 */
enum plait_status plait_wait_poll(struct plait_comm *comm, struct plait_wait *w, bool rarely);

/* One turn of the spin; false: it is over, or other comms have to go on. */
static inline bool plait_wait_spin(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->spinner.turns >= plait_spins(comm) || atomic_load_explicit(&plait_nactive, memory_order_relaxed) > 0)
        return false;
    w->spinner.turns++;
    plait_pause();
    return true;
}

/* One turn without progress. On an error the comm has failed and the operation ends. */
static inline enum plait_status plait_wait_turn(struct plait_comm *comm, struct plait_wait *w)
{
    return plait_wait_spin(comm, w) ? PLAIT_OK : plait_wait_long(comm, w);
}

/* There was progress: reset for the next wait. */
static inline void plait_wait_progress(struct plait_comm *comm, struct plait_wait *w)
{
    if (w->detector.timed)
        plait_detector_end(comm, &w->detector);
    if (w->spinner.announced)
        plait_awake(comm);
    plait_spinner_reset(&w->spinner);
}

#endif
