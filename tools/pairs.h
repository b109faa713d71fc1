/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures every pair of ranks, one after the other, for plait-info --peers. A slow path between two other ranks does
 * not show in rank 0's measurements.
 */
#ifndef PLAIT_TOOLS_PAIRS_H
#define PLAIT_TOOLS_PAIRS_H

#include <plait/comm.h>

#include <stdbool.h>

struct figures {
    double latency, bandwidth; /* seconds one way; bytes per second one way */
};

/*
 * Both ends of a path call it; it takes 5 ms to seconds.
 *
 * memory  [PAIRS_BYTES]
 * brief   fewer and shorter messages
 */
#define PAIRS_BYTES (4 << 20)
bool measure_pair(struct plait_comm *comm, void *memory, uint32_t peer, bool brief, struct figures *out);

/*
 * All ranks call it together; rank 0 prints. With many ranks, the first of each host is measured; with too many hosts,
 * none.
 *
 * memory  [PAIRS_BYTES]
 * hosts   [nrank] names
 */
bool pairs_print(struct plait_comm *comm, void *memory, const char (*hosts)[64]);

#endif
