/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room progress: waiting, and what goes on meanwhile.
 *
 * Pending operations of all communicators of this process go on whenever a thread waits, tests or is the progress
 * thread. A communicator with pending operations is on the list of active ones; whoever progresses it holds its lock.
 * One without any is not on the list, and only the thread that calls it touches it: blocking calls then take no lock.
 *
 * wait.h spins, then yields, then sleeps. After the spin it looks for the reason of a long wait: look.c finds
 * failures, differing calls and deaths, stall.c silence and deadlines.
 *
 * The room promises: every wait ends, in success or in an error that names who is missing. The spin reads no clock
 * and makes no system call.
 *
 * It does not know what is pending: a communicator brings that along (struct plait_drive).
 */
#ifndef PLAIT_LIB_PROGRESS_PROGRESS_H
#define PLAIT_LIB_PROGRESS_PROGRESS_H

#include "comm/doorbells.h"

#include <stdbool.h>

extern _Atomic uint32_t plait_nactive; /* comms with pending operations */

/* One turn of every active comm that no other thread is at. Something moved? */
bool plait_progress(void);

/* The comm has something pending, which is counted. The other, with its lock held: unless it has more than these. */
void plait_progress_add(struct plait_comm *comm);
void plait_progress_remove(struct plait_comm *comm, uint32_t n);

/* Say that somebody sleeps who waits for what these comms wait for; and for news of this process's other threads. */
void plait_progress_announce(struct plait_doorbells *doorbells);

/* Sleep on what was announced. */
void plait_progress_sleep(const struct plait_doorbells *doorbells);

/*
 * News at this time (plait_clock_ns()) that no doorbell rings for: who sleeps then wakes. To be said again after every
 * look.
 */
void plait_progress_alarm(uint64_t when);

/* Is such news still to come? */
bool plait_progress_expects(void);

/* News for threads of this process that sleep: an operation has ended, or a new one is pending. */
void plait_progress_news(void);

/*
 * Drive everything until over(self): a thread that waits. Without progress it spins (so many turns), then yields, then
 * sleeps. While there is such a thread the progress thread rests. interrupt(self) makes it be over soon (interrupt.h).
 */
void plait_progress_until(bool (*over)(void *self), void (*interrupt)(void *self), void *self, uint32_t spins);

/* Sleeps of the progress thread before it yields again, once a yield has come back late. */
#define PLAIT_CROWDED_SLEEPS 16

/* A thread that does nothing but progress; counted: as many stops as starts. */
enum plait_status plait_progress_thread_start(void);
void plait_progress_thread_stop(void);

#endif
