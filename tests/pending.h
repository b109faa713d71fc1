/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of pending operations share: bodies run as processes and as threads, memory for them, a pending sum. */
#ifndef PLAIT_TESTS_PENDING_H
#define PLAIT_TESTS_PENDING_H

#include "ranks.h"

#include <stddef.h>
#include <stdint.h>

extern struct ranks ranks; /* of the latest run, for ranks_options() */

/* All ranks succeed within two minutes; what body takes: ranks.h. Ends the cmocka test otherwise. */
void run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), void *arg);

/* As processes, and then as threads. */
void run_both(uint32_t nrank, int (*body)(struct plait_comm **, uint32_t, void *), void *arg);

/* [rank][in, out] for three ranks: threads have little room of their own. */
#define LONG 200000
#define MANY 12
extern int32_t memory[3][2][MANY * 50000];

enum plait_status begin_sum(struct plait_comm *comm, const int32_t *in, int32_t *out, size_t n,
                            struct plait_request **r);

#endif
