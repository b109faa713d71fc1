/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info --peers: how ranks reach each other, and how fast. */
#ifndef PLAIT_TOOLS_PEERS_H
#define PLAIT_TOOLS_PEERS_H

#include <stdbool.h>

/* As a rank of the launcher that has started this process. Rank 0 prints; false: stderr says why. */
bool peers_print(void);

#endif
