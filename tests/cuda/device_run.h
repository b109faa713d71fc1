/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of tests on the stand-in's devices, which all their processes share. */
#ifndef PLAIT_TESTS_DEVICE_RUN_H
#define PLAIT_TESTS_DEVICE_RUN_H

#include "../ranks.h"

/* ranks_run(), with devices of its own. */
unsigned device_ranks_run(const struct ranks *r);

/* As many ranks, none of which may fail. */
void device_run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **comm, uint32_t rank, void *arg),
                void *arg);

/* For device.stream_call(): what comes behind it on the stream waits until the gate of this process is not 0. */
extern _Atomic int gate;
void wait_at_gate(void *context);

#endif
