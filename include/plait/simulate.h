/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predict how long a collective takes on a machine, which may be one that does not exist yet.
 *
 * The simulator runs the bound plans of all ranks, as the engine does: fused steps, slices in flight, a window of
 * messages for each pair of ranks. It reads no clock, has no randomness and computes in integers, so its results are
 * equal everywhere.
 *
 *     struct plait_machine m = { .name = "two hosts", .nlevel = 2, .copy = 10e9, .reduce = 8e9 };
 *     m.level[0] = (struct plait_level){ .name = "host", .children = 4, .bandwidth = 10e9, .latency = 200 };
 *     m.level[1] = (struct plait_level){ .name = "cluster", .children = 2, .links = 1, .bandwidth = 12.5e9,
 *                                        .latency = 2000 };
 *     struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 8 };
 *     struct plait_prediction p;
 *     plait_simulate(&m, "ring", &shape, PLAIT_FLOAT32, 1 << 20, NULL, &p);
 *
 * Thread: any.
 */
#ifndef PLAIT_SIMULATE_H
#define PLAIT_SIMULATE_H

#include <plait/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLAIT_MOST_LEVELS 8

/*
 * A level of the machine: units that each join several units of the level below. Level 0 joins ranks. For example, a
 * host joins 8 ranks, a rack 16 hosts, a cluster 4 racks.
 *
 * A message passes the lowest unit that contains both ranks, and on the way there the links of each smaller unit to the
 * one that contains it, up on the sender's side and down on the receiver's. Messages at the same time share the links
 * fairly (max-min). A message uses one link.
 */
struct plait_level {
    char name[24];      /* of one unit: "host" */
    uint32_t children;  /* units of the level below in each; at level 0 ranks */
    uint32_t links;     /* of each child to this unit; 0: the children read each other's memory */
    uint64_t bandwidth; /* bytes per second: of a link in each direction; or of one rank that reads another's memory */
    uint64_t latency;   /* ns from sender to receiver, of a message that this unit joins */
};

struct plait_machine {
    char name[96];
    uint32_t nlevel; /* 1 .. PLAIT_MOST_LEVELS; level[nlevel - 1] has one unit, which contains the others */
    struct plait_level level[PLAIT_MOST_LEVELS]; /* from the smallest to the largest */

    /* A rank: bytes per second that it copies, and that it adds (operands without the first); 0: takes no time. */
    uint64_t copy, reduce;
    uint64_t overhead; /* ns of the sender's and of the receiver's processor for each message */
    size_t eager;      /* messages of at most this many bytes do not wait for the receiver */
    size_t cache;      /* bytes of a processor's cache; a slice fills half of it; 0: 1 MiB */

    /* A unit of level 0. */
    uint32_t processors; /* 0: as many as ranks */
    uint64_t memory;     /* bytes per second read and written, by copies and reductions; 0: unlimited */
};

/* Where the time of the longest chain of dependent events goes, in picoseconds. */
struct plait_path {
    uint64_t latency; /* of messages, and their overhead on processors */
    uint64_t transfer;
    uint64_t compute; /* copies and reductions */
    uint64_t waiting; /* for a processor that is busy with another step, or for room in the window */
};

struct plait_prediction {
    uint64_t time;          /* picoseconds, until the last rank is done */
    uint64_t bound;         /* picoseconds that the busiest link, memory or processor needs for this plan alone */
    char busiest[64];       /* its name: "rack 3, up" */
    struct plait_path path; /* their sum is `time` */
    uint64_t messages;      /* of all ranks */
    uint64_t bytes;         /* of all messages */
    uint64_t slices;        /* into which the operation is cut */
};

/** Is the machine valid? Errors: PLAIT_ERR_ARG, with the level, the field and the remedy. */
PLAIT_API enum plait_status plait_machine_check(const struct plait_machine *machine);

/** The ranks for which the machine has room. */
PLAIT_API uint64_t plait_machine_ranks(const struct plait_machine *machine);

/**
 * Simulate one operation.
 *
 * spec   algorithm, e.g. "torus:4x8"
 * shape  coll, nrank, root and inplace; node NULL: the machine's units of level 0 are the nodes
 * count  elements, as in the collective's function
 * place  [nrank] each rank's place in the machine, from 0; NULL: rank r has place r
 * Errors: PLAIT_ERR_ARG (more ranks than the machine has room for, a place twice), PLAIT_ERR_CONFIG (no such algorithm,
 *         or not for this shape), PLAIT_ERR_PLAN, PLAIT_ERR_NOMEM.
 * Cost:   memory for the bound plans of all ranks; time for the messages of all slices.
 */
PLAIT_API enum plait_status plait_simulate(const struct plait_machine *machine, const char *spec,
                                           const struct plait_shape *shape, enum plait_dtype type, size_t count,
                                           const uint32_t *place, struct plait_prediction *out);

#ifdef __cplusplus
}
#endif
#endif
