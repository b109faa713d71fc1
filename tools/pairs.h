/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every pair of ranks, one after the other, for plait-info --peers: a slow path between two others does not show in what
 * rank 0 measures.
 */
#ifndef PLAIT_TOOLS_PAIRS_H
#define PLAIT_TOOLS_PAIRS_H

#include <plait/comm.h>

#include <stdbool.h>

struct figures {
    double latency, bandwidth; /* seconds one way; bytes per second one way */
};

/* The two ends of a path call it: 5 ms to seconds. `memory`: of PAIRS_BYTES. `brief`: fewer and shorter messages. */
#define PAIRS_BYTES (4 << 20)
bool measure_pair(struct plait_comm *comm, void *memory, uint32_t peer, bool brief, struct figures *out);

/*
 * All ranks call it together; rank 0 prints. Of many ranks the first of each host is measured, of many hosts none.
 *
 * memory  as above
 * hosts   [nrank] names
 */
bool pairs_print(struct plait_comm *comm, void *memory, const char (*hosts)[64]);

#endif
