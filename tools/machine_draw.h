/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine as a tree of text: its units, their links, the ranks' places. */
#ifndef PLAIT_TOOLS_MACHINE_DRAW_H
#define PLAIT_TOOLS_MACHINE_DRAW_H

#include <plait/simulate.h>

#include <stdio.h>

void machine_draw(FILE *f, const struct plait_machine *machine);

#endif
