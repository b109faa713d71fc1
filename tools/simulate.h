/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate: predicts algorithms on a machine, and prints them in the order of their times. */
#ifndef PLAIT_TOOLS_SIMULATE_H
#define PLAIT_TOOLS_SIMULATE_H

#include <plait/simulate.h>

#include <stdbool.h>

/*
 * spec   NULL: all algorithms that apply and are not too large to wait for
 * count  float32 elements
 * json   print one JSON object instead of the table
 * report write this HTML page, too; NULL: none
 * Returns the exit status.
 */
int simulate(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count,
             bool json, const char *report);

#endif
