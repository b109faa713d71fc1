/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room progress: waiting, and driving pending operations meanwhile.
 *
 * Every thread that waits or tests, and the progress thread, drives the pending operations of all communicators of
 * this process. A communicator with pending operations is on the list of active ones; the driving thread holds its
 * lock. Otherwise only the calling thread touches the communicator, and blocking calls take no lock.
 *
 * A wait has two parts that do not know each other: a spinner pauses, then yields, then sleeps; a failure
 * detector (detector.h) finds failures, mismatched calls, deaths, silence and missed deadlines.
 *
 * The room promises: every wait ends, in success or in an error that names the missing rank. The spin reads no clock
 * and makes no system call.
 *
 * It does not know what is pending: each communicator has callbacks for that (struct plait_drive).
 */
#ifndef PLAIT_LIB_PROGRESS_PROGRESS_H
#define PLAIT_LIB_PROGRESS_PROGRESS_H

#include "base/clock.h"
#include "comm/doorbells.h"
#include "detector.h"

#include <stdbool.h>

/* ---- How one thread waits --------------------------------------------------------------------------- */

#define PLAIT_SPINS    4000     /* turns, each with a pause: tens of microseconds on any processor */
#define PLAIT_SLEEP_NS 1000000L /* longest sleep: some events ring no doorbell */

struct plait_spinner {
    uint32_t turns;  /* polls without progress */
    uint32_t sleeps; /* of these turns */
    double since;    /* clock of the first yield; 0: none yet */
    bool sleepy;     /* it has yielded for long, and sleeps from here on */
    bool announced;  /* the doorbells of the next sleep are announced */
    struct plait_doorbells doorbells;
};

/* There was progress, or the wait begins. */
static inline void plait_spinner_reset(struct plait_spinner *s)
{
    s->turns = s->sleeps = 0;
    s->since = 0;
    s->sleepy = s->announced = false;
}

/* ---- What goes on meanwhile ------------------------------------------------------------------------- */

extern _Atomic uint32_t plait_nactive; /* comms with pending operations */

/*
 * One turn of every active comm that no other thread has locked. Returns whether there was progress. rarely: for a
 * caller that does not poll continuously; each turn without progress probes for failures.
 */
bool plait_progress(void);
bool plait_progress_rarely(void);

/* Add a comm whose comm->pending is counted. Remove it, with its lock held, if comm->pending is still n. */
void plait_progress_add(struct plait_comm *comm);
void plait_progress_remove(struct plait_comm *comm, uint32_t n);

/* Set a time (plait_clock_ns()) at which sleepers wake for an event that rings no doorbell. Repeat after each turn. */
void plait_progress_alarm(uint64_t when);

/* Nanoseconds until then; 0: no such event is to come. */
uint64_t plait_progress_until_alarm(void);

/* Wake the sleeping threads of this process: an operation has ended, or a new one is pending. */
void plait_progress_wake(void);

/*
 * Drive all active comms until over(self). Without progress the thread spins (`spins` turns), then yields, then sleeps.
 * The progress thread rests meanwhile. interrupt(self) makes over(self) true soon (interrupt.h).
 */
void plait_progress_until(bool (*over)(void *self), void (*interrupt)(void *self), void *self, uint32_t spins);

/* Sleeps of the progress thread before it yields again, after a yield that returned late. */
#define PLAIT_CROWDED_SLEEPS 16

/* The progress thread. Starts are counted: it ends at the last stop. */
enum plait_status plait_progress_thread_start(void);
void plait_progress_thread_stop(void);

/* ---- Waiting for other ranks: a spinner and a detector; other comms go on meanwhile ------------------------------ */

/*
 * Spins where ranks share processors, as the awaited rank may need this one's; or over a network, where a turn costs a
 * system call.
 */
#define PLAIT_SPINS_SHARED 4

struct plait_wait {
    struct plait_spinner spinner;
    struct plait_detector detector;
};

static inline void plait_wait_init(struct plait_wait *w, const struct plait_wait_kind *kind, const void *context)
{
    plait_spinner_reset(&w->spinner);
    w->detector.timed = false;
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
 * A turn of a caller that polls: without progress (moved) probe every few calls, or at each call if it polls rarely. On
 * an error the comm has failed.
 */
enum plait_status plait_wait_poll(struct plait_comm *comm, struct plait_wait *w, bool moved, bool rarely);

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
