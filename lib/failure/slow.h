/* SPDX-License-Identifier: BSD-3-Clause */
/* Warnings of unexpected slow paths, each once per process, with cause and remedy. */
#ifndef PLAIT_LIB_FAILURE_SLOW_H
#define PLAIT_LIB_FAILURE_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_where {  /* hashes; 0: unknown */
    uint64_t machine; /* one per kernel, over all its containers and virtual hosts */
    uint64_t host;    /* one per host; virtual hosts of one machine differ */
};

struct plait_where plait_where_am_i(void);

/* Warn that ranks a and b are on one host but share no memory. */
void plait_warn_of_strangers(uint32_t a, uint32_t b);

/* Warn if plait_device_is_missed(). ways: the path of messages, as a network describes it ("tcp/eth0"). */
void plait_warn_of_device(const char *ways);

/* Warn if few descriptors are left: each connection to a network's port takes one. Checked once a second. */
void plait_warn_of_full_table(double now);

/*
 * Is a faster device, or an interface with an address, not in use? The text says why.
 *
 * sys  /sys, or a test's copy
 */
bool plait_device_is_missed(const char *sys, const char *ways, char *text, size_t room);

#endif
