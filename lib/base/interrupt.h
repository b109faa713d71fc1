/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends the waits of a thread from outside: plait_interrupt_set(). */
#ifndef PLAIT_LIB_BASE_INTERRUPT_H
#define PLAIT_LIB_BASE_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

#define PLAIT_INTERRUPTED "interrupted on this rank (plait_interrupt_set)"

/*
 * Is this thread's wait to end? Asked as often as a wait likes; the caller's function is called some ten times a
 * second. True is said once: the wait makes its comm fail, which all that waits for it sees.
 */
bool plait_interrupted(void);

/* This thread works for another one, which waits for it: its waits end when the flag is set. NULL: no longer. */
void plait_interrupt_follow(const atomic_bool *flag);

#endif
