/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predictions from a machine's description. <plait/simulate.h> is the manual.
 *
 * machine.c checks a description and finds the resources that a message, a copy or a reduction uses. levels.c finds the
 * levels of a shape. share.c lets activities share resources. simulate.c, steps.c and messages.c run the bound plans of
 * all ranks over them.
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

/* Capacity of a processor: what the fastest activity alone takes is still precise. */
#define PLAIT_PROCESSOR ((uint64_t)1 << 52)

/* What an activity uses. */
struct plait_uses_of {
    uint32_t n, nmemory; /* memory comes first */
    uint64_t speed;      /* the most, in bytes per second */
    struct plait_use use[PLAIT_MOST_USES];
};

/* Resources of a machine. */
struct plait_hardware {
    const struct plait_machine *machine;
    const uint32_t *place; /* [nrank]; NULL: rank r has place r */
    uint32_t nrank;
    uint32_t node;                        /* the level whose units are the nodes */
    uint64_t ranks_in[PLAIT_MOST_LEVELS]; /* of one unit of each level */
    /* The first resource of each level, or UINT32_MAX: up and down of each child; memory, processors of each unit. */
    uint32_t links[PLAIT_MOST_LEVELS], memory[PLAIT_MOST_LEVELS], processors[PLAIT_MOST_LEVELS];
    uint32_t nresource;
    struct plait_resource *resources;
};

/* *h is to be destroyed after an error, too. */
enum plait_status plait_hardware_create(struct plait_hardware *h, const struct plait_machine *machine, uint32_t nrank,
                                        const uint32_t *place);
void plait_hardware_destroy(struct plait_hardware *h);

/* The unit of a level, counted over the machine, that contains this rank. */
uint32_t plait_hardware_unit(const struct plait_hardware *h, uint32_t rank, uint32_t level);

/*
 * Give a shape without nodes and levels those of the machine, where levels are as in a communicator: smaller than the
 * machine, larger than a rank. *memory: free it after the shape, also after an error.
 */
enum plait_status plait_hardware_shape(const struct plait_hardware *h, struct plait_shape *shape, uint32_t **memory);

/* The level of the smallest unit that contains both ranks. */
uint32_t plait_hardware_level(const struct plait_hardware *h, uint32_t a, uint32_t b);

/* The number of a rank's own processor, after the shared resources. */
uint32_t plait_hardware_processor(const struct plait_hardware *h, uint32_t rank);

/* In percent of the usual one, the speed of a rank's processor. */
uint32_t plait_hardware_speed(const struct plait_hardware *h, uint32_t rank);

/* The links of a message. */
void plait_hardware_route(const struct plait_hardware *h, uint32_t from, uint32_t to, struct plait_uses_of *out);

/* The memory and the processors of a rank, with weight 1, as far as other ranks can be in its way. */
void plait_hardware_own(const struct plait_hardware *h, uint32_t rank, struct plait_uses_of *out);

#endif
