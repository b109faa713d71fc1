/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms that may run a collective, and how long the simulator says that each takes. */
#ifndef PLAIT_LIB_ENGINE_CANDIDATES_H
#define PLAIT_LIB_ENGINE_CANDIDATES_H

#include "model.h"

/*
 * Time the candidates for out->bytes, those first that may be the fastest. Claims leave out what cannot be, and price
 * what has too many messages to simulate.
 *
 * place      [shape->nrank] each rank's place in the machine
 * canonical  only those that combine in the canonical order
 * out        gets the candidates, the best first
 * Errors: PLAIT_ERR_NOMEM, PLAIT_ERR_CONFIG (none fits)
 */
enum plait_status plait_candidates_time(const struct plait_machine *machine, const uint32_t *place,
                                        const struct plait_shape *shape, bool canonical, struct plait_pick *out);

#endif
