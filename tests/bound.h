/* SPDX-License-Identifier: BSD-3-Clause */
/* The oracle of binding: does a bound plan do what its plan does? Then what was proved of the plan holds for it. */
#ifndef PLAIT_TESTS_BOUND_H
#define PLAIT_TESTS_BOUND_H

#include "engine/prog.h"

/*
 * prog    of this rank, made from the plan that its algorithm emits for the shape
 * fusing  of the proof with which it was made
 * Errors: PLAIT_ERR_PLAN (it does something else), PLAIT_ERR_NOMEM
 */
enum plait_status bound_check(const struct plait_prog *prog, const struct plait_shape *shape, uint32_t rank,
                              enum plait_fusing fusing);

/* Bind the plans of all ranks, and check each. Errors: also plait_prog_create()'s. */
enum plait_status bound_check_all(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                  enum plait_round round, bool average);

#endif
