/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A spinner is how one thread waits: it pauses, then yields, then sleeps on doorbells. It knows nothing of why the wait
 * lasts. The thread counts a turn for every poll without progress; the spin reads no clock and makes no system call.
 */
#ifndef PLAIT_LIB_PROGRESS_SPINNER_H
#define PLAIT_LIB_PROGRESS_SPINNER_H

#include "base/clock.h"
#include "comm/doorbells.h"

#define PLAIT_SPINS    4000     /* turns, each with a pause: tens of microseconds on any processor */
#define PLAIT_SLEEP_NS 1000000L /* longest sleep: some events ring no doorbell */

struct plait_spinner {
    uint32_t turns;  /* without progress */
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

/* Turns of the spin in so many seconds, at most PLAIT_SPINS. */
uint32_t plait_spins_in(double seconds);

/* After the spin, with the clock read: decide between yields and sleeps. */
void plait_spinner_tick(struct plait_spinner *s, double now);

/*
 * Sleep for at most `ns` nanoseconds, unless no doorbells are announced. Then begin a new announcement. The caller adds
 * its doorbells and polls once more before the next call, so that no wake-up is lost.
 */
void plait_spinner_sleep(struct plait_spinner *s, long ns);

#endif
