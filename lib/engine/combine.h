/* SPDX-License-Identifier: BSD-3-Clause */
/* The REDUCE step: combines what this rank has with what others sent, read where they have it or where it landed. */
#ifndef PLAIT_LIB_ENGINE_COMBINE_H
#define PLAIT_LIB_ENGINE_COMBINE_H

#include "flight.h"

/* Step i of the plan. Messages that it reads where their senders have them are released. */
void plait_combine(struct plait_run *run, struct plait_flight *f, uint32_t i);

/* Where what a REDUCE reads is put if its sender lends it; NULL: it does not. */
char *plait_combine_landing(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in);

/* Is message i there? Then its sender is free. */
bool plait_combine_landed(const struct plait_run *run, const struct plait_flight *f, uint32_t i);

#endif
