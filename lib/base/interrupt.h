/* SPDX-License-Identifier: BSD-3-Clause */
/* Ending a thread's waits from outside: plait_interrupt_set(). */
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

/* For a helper thread: this thread's waits end when the flag is set, instead of by the callback. NULL: no longer. */
void plait_interrupt_follow(const atomic_bool *flag);

#endif
