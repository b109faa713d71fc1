/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network between the threads of one process (lib/plugin/net.h) that treats messages badly: they arrive late and in any
 * order, as drawn from fake_net_seed, and every completion takes its time.
 */
#ifndef PLAIT_TESTS_FAKE_NET_H
#define PLAIT_TESTS_FAKE_NET_H

#include "plugin/net.h"

#define FAKE_EAGER 1000 /* bytes of data that are sent at once; more waits to be fetched */

struct fake_net_counts {
    unsigned nsend, nempty, nfetch, nheld; /* messages; those without data; fetches; arrivals not yet let go */
};

extern const struct plait_net_plugin fake_net;
extern struct fake_net_counts fake_net_counts; /* of all networks */
extern bool fake_net_prompt;                   /* nothing is late, and everything in order */

#endif
