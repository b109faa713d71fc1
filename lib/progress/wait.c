/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "failure/failure.h"

#include <errno.h>
#include <sched.h>

#define PROBE_EVERY 8 /* turns after the spin between probes */

/* Sleep on the doorbells of the awaited ranks, and of the process's other pending operations. */
static void doze(struct plait_comm *comm, struct plait_wait *w)
{
    struct plait_spinner *s = &w->spinner;
    uint32_t ranks[PLAIT_DOORBELLS];

    comm->stats.sleeps += s->announced;
    plait_spinner_sleep(s, PLAIT_SLEEP_NS);
    plait_doorbells_announce(&s->doorbells, comm, ranks,
                             w->detector.awaited(w->detector.context, ranks, PLAIT_DOORBELLS));
    plait_progress_announce(&s->doorbells);
}

static enum plait_status long_turn(struct plait_comm *comm, struct plait_wait *w)
{
    struct plait_spinner *s = &w->spinner;
    bool moved = plait_progress(); /* the awaited rank may wait for another comm of this process */

    if (s->turns < plait_spins(comm)) {
        s->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    if (s->turns++ % PROBE_EVERY == 0 || s->sleepy) {
        const double now = plait_clock();
        const enum plait_status status = plait_detector_probe(comm, &w->detector, now);
        if (status != PLAIT_OK)
            return status;
        if (plait_interrupted())
            return plait_comm_fail(comm, PLAIT_ERR_FAILED, PLAIT_INTERRUPTED);
        plait_spinner_tick(s, now);
        moved |= plait_idle();
    }
    if (s->sleepy && !moved) {
        doze(comm, w);
    } else {
        comm->stats.yields++;
        sched_yield();
    }
    return PLAIT_OK;
}

enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    const int saved = errno; /* probes must not change the caller's errno */
    const enum plait_status status = long_turn(comm, w);

    errno = saved;
    return status;
}

enum plait_status plait_wait_poll(struct plait_comm *comm, struct plait_wait *w, bool rarely)
{
    const int saved = errno;
    enum plait_status status = PLAIT_OK;

    if (rarely || (w->spinner.turns++ >= plait_spins(comm) && w->spinner.turns % PROBE_EVERY == 0))
        status = plait_detector_probe(comm, &w->detector, plait_clock());
    errno = saved;
    return status;
}
