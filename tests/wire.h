/* SPDX-License-Identifier: BSD-3-Clause */
/* A comm of one machine whose messages go over a network all the same. */
#ifndef PLAIT_TESTS_WIRE_H
#define PLAIT_TESTS_WIRE_H

#include "plugin/net.h"

#include <plait/comm.h>

/* The network; NULL: UCX's plug-in. */
extern const struct plait_net_plugin *wire_plugin;

/* For ranks_prepare: every rank opens a port and is given the others' addresses. 0: done; else it says why not. */
int wire(struct plait_comm *comm, uint32_t rank);

#endif
