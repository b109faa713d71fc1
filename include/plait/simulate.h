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
#define PLAIT_MOST_SLOW   16

/*
 * A level of the machine: units that each join several units of the level below. Level 0 joins ranks. For example, a
 * host joins 8 ranks, a rack 16 hosts, a cluster 4 racks. Or level 0 is a shared cache, then package, host, cluster.
 *
 * A message passes the smallest unit that contains both ranks, and on the way there a link of the rank and of each
 * smaller unit to the unit that contains it, up on the sender's side and down on the receiver's. The messages of one
 * rank to another move one after the other; those of different pairs share links fairly (max-min). A message uses one
 * link of each.
 */
struct plait_level {
    char name[24];      /* of one unit: "host" */
    uint32_t children;  /* units of the level below in each; at level 0 ranks */
    uint32_t links;     /* of each child to this unit; 0: the ranks of the unit read each other's memory */
    uint64_t bandwidth; /* bytes per second: of a link in each direction; or of one rank that reads another's memory */

    /* Of a message that this unit joins. */
    uint64_t latency;  /* ns from sender to receiver */
    uint64_t overhead; /* ns of the sender's and of the receiver's processor */
    size_t eager;      /* bytes: the largest message that is sent before the receiver is ready */

    /* Of a unit. */
    uint32_t processors; /* 0: as many as ranks */
    uint64_t memory;     /* bytes per second read and written, by copies and reductions of its ranks; 0: unlimited */

    char about[384]; /* where the numbers come from */
};

/* A slower part: the links of one unit, or one rank. Each part is there once. */
struct plait_slow {
    bool rank;        /* the copies, reductions and overheads of a rank; else links */
    uint32_t level;   /* links: whose children they join */
    uint32_t child;   /* links: the child, counted over the machine; else the rank's place */
    uint32_t percent; /* of the usual speed: 1 .. 100 */
};

struct plait_machine {
    char name[96];
    uint32_t nlevel; /* 1 .. PLAIT_MOST_LEVELS; level[nlevel - 1] has one unit, which contains the others */
    struct plait_level level[PLAIT_MOST_LEVELS]; /* the smallest first; those without links before those with links */
    /*
     * Bytes per second of a copy, and of the sum of two vectors; 0: no time. A sum of n vectors reads n and writes one,
     * and takes (n + 1) / 3 times as long as that of two.
     */
    uint64_t copy, reduce;
    size_t cache; /* bytes of a processor's cache; a slice fills half of it; 0: 1 MiB */
    uint32_t nslow;
    struct plait_slow slow[PLAIT_MOST_SLOW];
    char about[384];
};

/* Where the time of the longest chain of dependent events goes, in picoseconds. */
struct plait_path {
    uint64_t latency; /* of messages, and their overhead on processors */
    uint64_t transfer;
    uint64_t compute; /* copies and reductions, also those for which a step waits until its processor is free */
    uint64_t waiting; /* for room in the window of a pair of ranks, or for an earlier slice */
};

struct plait_prediction {
    uint64_t time;             /* picoseconds, until the last rank is done */
    uint64_t bound;            /* picoseconds that the busiest link, memory or processor needs for this plan alone */
    char busiest[64];          /* its name: "rack 3, up" */
    uint32_t busiest_resource; /* its number: plait_machine_resource() */
    struct plait_path path;    /* their sum is `time` */
    uint64_t messages;         /* of all ranks */
    uint64_t bytes;            /* of all messages */
    uint64_t slices;           /* into which the operation is cut */
    uint32_t simulated;        /* ranks: equal ranks are simulated once; all, if events or uses are asked for */
};

/*
 * Events of a simulation, reported in the order of their ends. Times are in picoseconds from the operation's start.
 */
enum plait_sim_kind {
    PLAIT_SIM_SEND, /* a processor's overhead of a message */
    PLAIT_SIM_RECV, /* likewise, of the receiver; through memory, a copy from the sender */
    PLAIT_SIM_COPY,
    PLAIT_SIM_REDUCE,
    PLAIT_SIM_TRANSFER, /* a message: from its start to its arrival */
    PLAIT_SIM_NKIND
};

struct plait_sim_event {
    enum plait_sim_kind kind;
    uint32_t rank, peer; /* of messages, rank is the sender in SEND and TRANSFER, the receiver in RECV */
    uint32_t step;       /* of the rank's program; messages: of the sender's */
    uint64_t slice;
    uint64_t start, end;
    uint64_t bytes;
};

/* From `time` on, a link, memory or processor is used at this rate. */
struct plait_sim_use {
    uint32_t resource; /* plait_machine_resource() has its name */
    uint64_t time;
    uint64_t rate, capacity; /* bytes per second; processors: share and all */
};

/* How to simulate. All zero: as usual. */
struct plait_sim_options {
    const uint32_t *place; /* [nrank] each rank's place in the machine, from 0; NULL: rank r has place r */
    void (*event)(void *arg, const struct plait_sim_event *e);
    void (*use)(void *arg, const struct plait_sim_use *u);
    void *arg;
    const struct plait_alg *const *algorithms; /* of which spec names one; NULL: plait_alg_list() */
};

/** Is the machine valid? Errors: PLAIT_ERR_ARG, with the level, the field and the remedy. */
PLAIT_API enum plait_status plait_machine_check(const struct plait_machine *machine);

/**
 * Change a machine, as plait-plan simulate --what-if does.
 *
 * changes  with commas between: "rack.uplink=/4,copy=20 GB/s,rank 5=/2". LEVEL.FIELD and `copy`, `reduce`, `cache`
 *          take a number, text with a unit ("100 Gbit/s", "2 us", "8 KiB"), /FACTOR or *FACTOR. Fields are those of
 *          struct plait_level; `uplink` and `uplinks`, which are bandwidth and links of the level above; and
 *          `oversubscription`, which sets links. "rank N", "LEVEL N" (the links of one unit) and "rank N links" take a
 *          factor, which slows them down
 * machine  changed only on success. It may be one that plait_machine_check() refuses
 * Errors:  PLAIT_ERR_ARG, with the change and the remedy
 */
PLAIT_API enum plait_status plait_machine_change(struct plait_machine *machine, const char *changes);

/**
 * Read a machine file, such as plait-info --export writes; docs/predict.md describes it.
 *
 * out      a machine that plait_machine_check() takes; written only on success
 * Errors:  PLAIT_ERR_ARG (file, line, field and remedy), PLAIT_ERR_SYSTEM (the file cannot be read),
 *          PLAIT_ERR_UNSUPPORTED (this build has no plait-json.so), PLAIT_ERR_CONFIG (a PLAIT_ variable),
 *          PLAIT_ERR_NOMEM
 */
PLAIT_API enum plait_status plait_machine_load(const char *path, struct plait_machine *out);

/** The same from the text of such a file, which ends with a zero. Errors: likewise, with `name` as the file's. */
PLAIT_API enum plait_status plait_machine_parse(const char *name, const char *text, struct plait_machine *out);

/**
 * Write a machine file. It is loaded as the same machine.
 *
 * path     "-": standard output
 * Errors:  as plait_machine_check() and plait_machine_load(); PLAIT_ERR_ARG also for a name that is not UTF-8
 */
PLAIT_API enum plait_status plait_machine_save(const struct plait_machine *machine, const char *path);

/** The ranks for which the machine has room. */
PLAIT_API uint64_t plait_machine_ranks(const struct plait_machine *machine);

/** Resources that ranks share: links, memory, processors. Behind them in number is each rank's own processor. */
PLAIT_API uint32_t plait_machine_resources(const struct plait_machine *machine);

/** The name of a resource: "rack 3, up"; "rank 5, processor". "" above their number. */
PLAIT_API void plait_machine_resource(const struct plait_machine *machine, uint32_t resource, char *out, size_t room);

/**
 * Simulate one operation.
 *
 * spec     algorithm, e.g. "torus:4x8"
 * shape    coll, nrank, root and inplace. Without node and level: nodes are the machine's largest units without links,
 *          or those of level 0; levels are its units that have some of the ranks
 * count    elements, as in the collective's function
 * options  NULL: as usual
 * Errors: PLAIT_ERR_ARG (more ranks than the machine has room for, a place twice), PLAIT_ERR_CONFIG (no such algorithm,
 *         or not for this shape), PLAIT_ERR_UNSUPPORTED (so many messages that it would take minutes), PLAIT_ERR_PLAN,
 *         PLAIT_ERR_NOMEM.
 * Cost:   memory for the bound plans of all ranks; time for the messages of all slices.
 */
PLAIT_API enum plait_status plait_simulate(const struct plait_machine *machine, const char *spec,
                                           const struct plait_shape *shape, enum plait_dtype type, size_t count,
                                           const struct plait_sim_options *options, struct plait_prediction *out);

#ifdef __cplusplus
}
#endif
#endif
