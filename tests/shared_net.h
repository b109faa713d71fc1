/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One network of UCX's for all ranks of a process, which are threads: messages go from it to itself. That is the only
 * use of UCX's transport `self`, as every rank otherwise has a network of its own.
 */
#ifndef PLAIT_TESTS_SHARED_NET_H
#define PLAIT_TESTS_SHARED_NET_H

#include "plugin/net.h"

extern const struct plait_net_plugin shared_net;

#endif
