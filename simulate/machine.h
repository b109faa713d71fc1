/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predictions from a machine's description. <plait/simulate.h> is the manual.
 *
 * machine.c checks a description and finds the resources that a message, a copy or a reduction uses. share.c lets
 * activities share resources. simulate.c, steps.c and messages.c run the bound plans of all ranks over them.
 *
 * The room promises: the same inputs give the same results, on every processor. It computes in integers, reads no
 * clock, and measures nothing. A prediction is never below its bound, and the parts of the longest path add up to it.
 *
 * It does not know communicators, transports, devices or the hardware of this host.
 */
#ifndef PLAIT_SIMULATE_MACHINE_H
#define PLAIT_SIMULATE_MACHINE_H

#include <plait/simulate.h>

#include "share.h"

/* What an activity uses. */
struct plait_uses_of {
    uint32_t n;
    uint64_t speed; /* the most, in bytes per second */
    struct plait_use use[PLAIT_MOST_USES];
};

/* Resources of a machine, as far as `nrank` ranks use it. */
struct plait_hardware {
    const struct plait_machine *machine;
    const uint32_t *place; /* [nrank] */
    uint32_t nrank;
    uint64_t ranks_in[PLAIT_MOST_LEVELS]; /* of one unit of each level */
    uint32_t first[PLAIT_MOST_LEVELS];    /* resources: up and down of each child of this level's units */
    uint32_t memory, processors;          /* of each unit of level 0; UINT32_MAX: unlimited */
    uint32_t nresource;
    struct plait_resource *resources;
};

/* *h is to be destroyed after an error, too. */
enum plait_status plait_hardware_create(struct plait_hardware *h, const struct plait_machine *machine, uint32_t nrank,
                                        const uint32_t *place);
void plait_hardware_destroy(struct plait_hardware *h);

/* The level of the smallest unit that contains both ranks. */
uint32_t plait_hardware_level(const struct plait_hardware *h, uint32_t a, uint32_t b);

/* The links of a message. */
void plait_hardware_route(const struct plait_hardware *h, uint32_t from, uint32_t to, struct plait_uses_of *out);

/* A rank's processor, busy at `speed` bytes per second, which reads or writes `touched` bytes of memory for each. */
void plait_hardware_work(const struct plait_hardware *h, uint32_t rank, uint64_t speed, uint32_t touched,
                         struct plait_uses_of *out);

/* The name of a resource. */
void plait_hardware_name(const struct plait_hardware *h, uint32_t resource, char *out, size_t room);

#endif
