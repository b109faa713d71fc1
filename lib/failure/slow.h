/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow paths that are taken by surprise: each is one warning in a process, with cause and remedy. */
#ifndef PLAIT_LIB_FAILURE_SLOW_H
#define PLAIT_LIB_FAILURE_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_where {  /* hashes; 0: unknown */
    uint64_t machine; /* of what runs on one kernel, containers and virtual hosts too */
    uint64_t host;    /* of what is meant to be one host: virtual hosts of a machine are several */
};

struct plait_where plait_where_am_i(void);

/* Ranks a and b are on one host and share no memory. */
void plait_warn_of_strangers(uint32_t a, uint32_t b);

/* Messages go over `ways`, as a network describes it ("tcp/eth0"). */
void plait_warn_of_device(const char *ways);

/* The process has few descriptors left: anybody who connects to a network's port takes one. Asked once a second. */
void plait_warn_of_full_table(double now);

/*
 * Why a faster device, or another one, is not among the ways; false: nothing speaks against them.
 *
 * sys  /sys, or a test's
 */
bool plait_device_is_missed(const char *sys, const char *ways, char *text, size_t room);

#endif
