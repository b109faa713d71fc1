/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices in flight: room for an operation's, and how one begins. */
#ifndef PLAIT_LIB_ENGINE_FLIGHT_H
#define PLAIT_LIB_ENGINE_FLIGHT_H

#include "operation/slices.h"
#include "prog.h"

/* Library memory of this operation's largest slice. */
size_t plait_flight_need(const struct plait_run *run);

/* A staged message with this number was offered. */
void plait_read_later(struct plait_late *late, uint32_t number);

/* Have the peers read everything this flight staged for them the last time? */
bool plait_flight_idle(const struct plait_comm *comm, struct plait_flight *f);

/* Start the next slice in an idle flight: its first steps are ready. */
void plait_flight_launch(struct plait_run *run, struct plait_flight *f);

/* Make room in all flights of the comm for this operation: may allocate. *fits: done; false: peers still read old
 * memory, ask again. */
enum plait_status plait_flights_fit(const struct plait_run *run, bool *fits);

#endif
