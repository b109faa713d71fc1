/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: nccl-tests' flags with nccl-tests' meaning, and Plait's own long options. */
#ifndef PLAIT_BENCH_OPTIONS_H
#define PLAIT_BENCH_OPTIONS_H

#include "collectives.h"
#include "compute.h"
#include "option.h"
#include "step.h"

#include <plait/elastic.h>
#include <plait/launch.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_PEERS    8
#define MAX_RANKS    1024
#define MAX_LAYOUTS  16
#define MAX_PAYLOADS 3
#define MAX_OPTIONS  80

enum place { OUT_OF_PLACE, IN_PLACE, NPLACE };

#define NO_BYTES SIZE_MAX /* --bytes was not given */

struct options {
    struct option_given given[MAX_OPTIONS]; /* by their place in the table */
    /* Sizes, in bytes; step_factor 1 means step_bytes. */
    size_t min_bytes, max_bytes, step_bytes;
    uint64_t step_factor;
    uint32_t ncoll, ndtype, nop;
    const struct collective *coll[NCOLLECTIVE];
    enum plait_dtype dtype[PLAIT_NDTYPE];
    enum plait_op op[PLAIT_NOP];
    uint64_t root;
    bool every_root;
    /* Iterations; 0: as many as fit into cell_seconds. */
    uint64_t iterations, aggregate, warmup, cycles, check;
    double cell_seconds; /* for each backend in each cell */
    uint64_t rounds;     /* rounds of a cell; each backend takes a turn in each */
    uint64_t starts;     /* how often the ranks of all backends are started */
    uint64_t average;    /* -a */
    uint64_t per_iter, per_iter_skip, cputime, timestamps, unalign;
    double timeout; /* -T, seconds */
    bool place[NPLACE], inplace;
    bool overlap, computation[NCOMPUTATION]; /* --overlap: with which computations */
    uint64_t overlap_tests;
    /* plait-perf fusion: */
    bool fusion;
    uint32_t nlayout, npayload;
    struct layout layout[MAX_LAYOUTS];
    enum plait_dtype payload[MAX_PAYLOADS];
    bool gradients[2]; /* [0]: gradients in buckets; [1]: in memory of their own */
    double compute;    /* seconds */
    uint64_t min_elements, max_elements;
    const char *timeline;
    /* plait-perf elastic; payload[0] and compute, too: */
    bool elastic;
    size_t bytes;   /* of weights */
    uint32_t modes; /* one bit per mode */
    uint64_t nserver;
    /* Ranks. */
    bool launched;              /* a launcher started the ranks, of which this process is one */
    struct plait_launch launch; /* launched: its ranks */
    uint64_t nrank;
    int threads; /* true or false */
    int guard;   /* the same; negative: as verbose says */
    bool verbose;
    bool library_memory, same_memory;
    const char *algorithm;
    int algorithm_coll; /* the collective that it is for; -1: each */
    size_t slice;
    enum plait_round round;
    bool reproducible;
    uint32_t *node; /* [nrank] or NULL */
    const char *nodes;
    /* Peers: indices into openmpi_configs, each once. */
    uint32_t npeer, peer[MAX_PEERS];
    bool gloo, ddp; /* PyTorch's Gloo is a peer, too; in fusion, its DDP over Gloo */
    /* Files; NULL: none. */
    const char *json, *csv, *plot, *report, *tensors;
};

/*
 * Ask the launcher, if one started this process, then parse the command line.
 *
 * out  free with options_finish() in either case
 * Returns false after a message that names flag, value and remedy.
 */
bool options_parse(int argc, char **argv, struct options *out);
void options_finish(struct options *o);

/* The last step of options_parse(): check that the options go together, and make `node` from `nodes`. */
bool options_check(struct options *o);

/* For messages: an option as the user wrote it. */
const char *options_flag(const struct options *o, const char *name);

/* The algorithm that is asked for in a collective, or NULL. */
const char *options_algorithm(const struct options *o, enum plait_coll coll);

/* nccl-tests' names: "float", "half", ... */
const char *dtype_label(enum plait_dtype type);

/* "out", "in" */
const char *place_name(enum place place);

/* The operator's name; "none" for PLAIT_NOP. */
const char *op_label(enum plait_op op);

#endif
