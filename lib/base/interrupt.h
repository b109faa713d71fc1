/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's callbacks in a wait: plait_interrupt_set()'s ends it, plait_idle_set()'s does other work meanwhile. */
#ifndef PLAIT_LIB_BASE_INTERRUPT_H
#define PLAIT_LIB_BASE_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

#define PLAIT_INTERRUPTED "interrupted on this rank (plait_interrupt_set)"

/*
 * Should this thread's wait end? Cheap to poll: the program's callback runs at most ten times a second. After the first
 * true the wait makes the comm fail, which ends all other waits for that comm.
 */
bool plait_interrupted(void);

/*
 * Called by waits after the spin: runs the program's other work, if it has some. The wait then yields instead of
 * sleeping, as that work may take many calls. Keeps errno.
 */
bool plait_idle(void);

/* For a helper thread: this thread's waits end when the flag is set, instead of by the callback. NULL: no longer. */
void plait_interrupt_follow(const atomic_bool *flag);

#endif
