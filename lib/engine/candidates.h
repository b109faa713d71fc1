/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms that may run a collective, and how long the simulator says that each takes. */
#ifndef PLAIT_LIB_ENGINE_CANDIDATES_H
#define PLAIT_LIB_ENGINE_CANDIDATES_H

#include "model.h"

/*
 * Find an algorithm by its spec, as plait_alg_find() does, if the library may choose it by itself.
 *
 * shape      vform: only if each of its messages is a whole block. It is out of place
 * canonical  only if it combines in the canonical order
 * Errors: PLAIT_ERR_NOMEM; others: it may not, or there is none
 */
enum plait_status plait_candidate_find(const struct plait_alg *const *algorithms, const char *spec,
                                       struct plait_shape *shape, bool canonical, const struct plait_alg **out);

/* May blocks differ in size? Errors: PLAIT_ERR_CONFIG (no), PLAIT_ERR_NOMEM. */
enum plait_status plait_moves_whole_blocks(const struct plait_alg *alg, const struct plait_shape *shape);

/*
 * Time the candidates for out->bytes, those first that may be the fastest. Claims leave out what cannot be, and price
 * what has too many messages to simulate.
 *
 * options    place and algorithms
 * canonical  only those that combine in the canonical order
 * out        gets the candidates, the best first
 * Errors: PLAIT_ERR_NOMEM, PLAIT_ERR_CONFIG (none fits)
 */
enum plait_status plait_candidates_time(const struct plait_machine *machine, const struct plait_sim_options *options,
                                        const struct plait_shape *shape, bool canonical, struct plait_pick *out);

#endif
