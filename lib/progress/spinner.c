/* SPDX-License-Identifier: BSD-3-Clause */
#include "spinner.h"

#include "base/clock.h"
#include "progress.h"

#define YIELD_FOR 2e-3 /* seconds of yields before the first sleep */
#define PAUSES    50   /* pauses that are timed together */

uint32_t plait_spins_in(double seconds)
{
    double least = 1;

    for (int try = 0; try < 5; try++) { /* the least of five: others may run during one */
        const double before = plait_clock();
        for (int i = 0; i < PAUSES; i++)
            plait_pause();
        const double took = plait_clock() - before;
        least = took < least ? took : least;
    }
    return seconds < least * PLAIT_SPINS / PAUSES ? (uint32_t)(seconds / least * PAUSES) : PLAIT_SPINS;
}

void plait_spinner_tick(struct plait_spinner *s, double now)
{
    if (s->since == 0)
        s->since = now;
    s->sleepy = now - s->since > YIELD_FOR;
}

void plait_spinner_sleep(struct plait_spinner *s, long ns)
{
    if (s->announced) {
        plait_progress_sleep(&s->doorbells, plait_doorbells_hear(&s->doorbells) ? ns : PLAIT_SLEEP_NS);
        s->sleeps++;
    }
    s->announced = true;
    plait_doorbells_init(&s->doorbells);
}
