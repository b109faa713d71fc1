/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlock proof over all ranks' plans: their messages, and whether the plans run to the end together. */
#ifndef PLAIT_LIB_ENGINE_WAITS_H
#define PLAIT_LIB_ENGINE_WAITS_H

#include <plait/plan.h>

#include <stdbool.h>

/*
 * Number a plan's messages, from 0 per peer and direction.
 *
 * nsend, nrecv  [nrank] zeroed by the caller; receive the counts
 * number        [nstep] written for each SEND and RECV
 */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number);

/*
 * Do these plans run to the end if every send waits for its receive, at most PLAIT_WINDOW messages are in flight from
 * one rank to another, and steps of a rank with the same number in nodes[rank] run at once?
 *
 * others  others[r] is a plan that rank r may run instead of plans[r], with the same messages, or NULL. NULL: none
 * nodes   nodes[r]: of the steps of plans[r], then of those of others[r]; overwritten if others[r] exists
 */
enum plait_status plait_prove_waits(struct plait_plan *const *plans, struct plait_plan *const *others,
                                    uint32_t *const *nodes, const char *spec, uint32_t nrank, bool *out);

#endif
