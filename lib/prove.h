/* SPDX-License-Identifier: BSD-3-Clause */
/* What binding one rank's plan must know of all ranks' plans together. */
#ifndef PLAIT_LIB_PROVE_H
#define PLAIT_LIB_PROVE_H

#include "prog.h"

#define PLAIT_MOST_PROVED 64 /* ranks up to which the whole fused graph is proved at bind: 2 ms there */

/*
 * Number a plan's messages, from 0 per peer and direction.
 *
 * nsend, nrecv  [nrank] zeroed; get how many there are
 * number        [nstep] of each SEND and RECV
 */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number);

/* Fuse as much as cannot deadlock. Above PLAIT_MOST_PROVED ranks what is safe when sends wait for their receives only.
 */
enum plait_status plait_prove_fusing(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                     bool hop, enum plait_fusing *out);

/* What all ranks together are going to do: equal on all, unless their libraries or algorithms differ. */
enum plait_status plait_prove_hash(const struct plait_alg *alg, const struct plait_shape *shape, uint64_t *out);

/*
 * Which of this rank's steps move or make partial sums; a step that also handles a result cannot be wide.
 *
 * kinds  [nstep] PLAIT_VALUE_*
 */
enum plait_status plait_prove_kinds(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, unsigned char *kinds);

#endif
