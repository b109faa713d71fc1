/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "base/bytes.h"
#include "base/nearest.h"
#include "message.h"
#include "options_values.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    SWITCH,  /* no argument; sets a bool */
    NUMBER,  /* uint64_t, least .. most */
    SIZE,    /* size_t with K, M or G */
    SECONDS, /* double */
    TEXT,    /* const char * */
    PARSED,  /* by its own function */
    REFUSED, /* flags of nccl-tests that mean nothing here: 0 is accepted, anything else is an error */
};

struct row {
    char letter; /* 0: long only */
    const char *name, *argument;
    enum kind kind;
    size_t offset;
    uint64_t least, most;
    parse_value *parse;
    const char *text; /* for --help; REFUSED: why */
};

/* ---- the table --------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct options, member)

static const struct row rows[] = {
    { 'b', "minbytes", "SIZE", SIZE, AT(min_bytes), 0, 0, NULL, "smallest size (4)" },
    { 'e', "maxbytes", "SIZE", SIZE, AT(max_bytes), 0, 0, NULL, "largest size (64M)" },
    { 'i', "stepbytes", "SIZE", SIZE, AT(step_bytes), 0, 0, NULL, "add this to get the next size" },
    { 'f', "stepfactor", "N", NUMBER, AT(step_factor), 2, 1024, NULL, "multiply by this to get the next size (4)" },
    { 'n', "iters", "N", NUMBER, AT(iterations), 1, 1000000, NULL,
      "timed iterations per cell and backend (as many as fit into --cell-time)" },
    { 'm', "agg_iters", "N", NUMBER, AT(aggregate), 1, 1000000, NULL, "operations per timed iteration (1)" },
    { 'w', "warmup_iters", "N", NUMBER, AT(warmup), 0, 1000000, NULL, "iterations before timing (for about 2 ms)" },
    { 'N', "run_cycles", "N", NUMBER, AT(cycles), 0, 1000000, NULL, "repeat the whole run; 0: until interrupted (1)" },
    { 'c', "check", "N", NUMBER, AT(check), 0, 1000, NULL, "verified operations per cell; 0: none (1)" },
    { 'o', "op", "OP", PARSED, 0, 0, 0, parse_op, "sum, prod, min, max, avg, mulsum or all (sum)" },
    { 'd', "datatype", "TYPE", PARSED, 0, 0, 0, parse_dtype, DTYPE_LABELS " or all (float)" },
    { 'a', "average", "N", NUMBER, AT(average), 0, 3, NULL,
      "time column over ranks: 0 rank 0, 1 mean, 2 least, 3 most (1)" },
    { 'C', "report_cputime", "0|1", NUMBER, AT(cputime), 0, 1, NULL,
      "processor time of a rank instead of elapsed time (0)" },
    { 'I', "per_iter_timing", "0|1", NUMBER, AT(per_iter), 0, 1, NULL,
      "add min, max, p99 and variation of iterations (0)" },
    { 'K', "per_iter_skip", "N", NUMBER, AT(per_iter_skip), 0, 100000, NULL,
      "leave out the first iterations in -I (0)" },
    { 'S', "report_timestamps", "0|1", NUMBER, AT(timestamps), 0, 1, NULL, "add the time of day to each row (0)" },
    { 'J', "output_file", "FILE", TEXT, AT(json), 0, 0, NULL, "write results as JSON too" },
    { 'u', "unalign", "N", NUMBER, AT(unalign), 0, 4096, NULL, "move the buffers N elements off their alignment (0)" },
    { 'T', "timeout", "SECONDS", SECONDS, AT(timeout), 0, 0, NULL, "give up on a rank (120), on a stall after half" },
    { 't', "nthreads", "N", PARSED, 0, 0, 0, parse_threads, "same as --ranks N --as threads" },
    { 'r', "root", "N", PARSED, 0, 0, 0, parse_root, "root of broadcast, reduce, gather, scatter, or all (0)" },
    { 'z', "blocking", "0|1", NUMBER, AT(blocking), 0, 1, NULL, "accepted; every operation here blocks" },
    { 'p', "parallel_init", "0|1", NUMBER, AT(parallel_init), 0, 1, NULL, "accepted; ranks always start together" },
    { 'h', "help", NULL, SWITCH, AT(help), 0, 0, NULL, "this text" },
    { 0, "coll", "LIST", PARSED, 0, 0, 0, parse_coll,
      "allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter, alltoall, sendrecv, "
      "reduce_scatterv, allgatherv, gatherv, scatterv, alltoallv, barrier or all; commas (allreduce)" },
    { 0, "ranks", "N", NUMBER, AT(nrank), 1, MAX_RANKS, NULL, "ranks to start (2); under a launcher all of its own" },
    { 0, "as", "KIND", PARSED, 0, 0, 0, parse_as, "ranks are processes or threads (processes)" },
    { 0, "memory", "KIND", PARSED, 0, 0, 0, parse_memory,
      "buffers: plait (library memory), malloc, or same: like malloc's, in pages that all backends share (malloc)" },
    { 0, "place", "WHICH", PARSED, 0, 0, 0, parse_place, "out of place, in place: out, in or both (both)" },
    { 0, "overlap", "KIND", PARSED, 0, 0, 0, parse_overlap,
      "measure overlap with a computation: busy (all processors), sleep or both" },
    { 0, "overlap-tests", "N", NUMBER, AT(overlap_tests), 1, 10000, NULL, "tests in it, where tests drive (10)" },
    { 0, "tensors", "FILE", TEXT, AT(tensors), 0, 0, NULL,
      "all-reduce, broadcast or reduce these tensors one by one; CSV: id,name,elements,kind" },
    { 0, "min-elements", "N", NUMBER, AT(min_elements), 0, UINT64_MAX / 8, NULL, "leave out smaller tensors (0)" },
    { 0, "max-elements", "N", NUMBER, AT(max_elements), 1, UINT64_MAX / 8, NULL, "leave out larger tensors" },
    { 0, "compute-ms", "T", PARSED, 0, 0, 0, parse_compute,
      "fusion: gradients appear during a sleep of so many milliseconds; elastic: computing is one (0)" },
    { 0, "bytes", "SIZE", SIZE, AT(bytes), 0, 0, NULL, "elastic: weights of each worker (16M)" },
    { 0, "mode", "LIST", PARSED, 0, 0, 0, parse_modes,
      "elastic: original, async, async-momentum, hogwild, sync1, sync2, sync3 or all; commas (all)" },
    { 0, "servers", "N", NUMBER, AT(nserver), 1, MAX_RANKS / 2, NULL,
      "elastic: servers of the asynchronous modes, besides --ranks (1)" },
    { 0, "sharded", NULL, SWITCH, AT(sharded), 0, 0, NULL, "elastic: sync2 and sync3 with a sharded centre" },
    { 0, "timeline", "FILE", TEXT, AT(timeline), 0, 0, NULL,
      "fusion: write what happens in one step, for ui.perfetto.dev" },
    { 0, "layouts", "LIST", PARSED, 0, 0, 0, parse_layouts,
      "fusion: threshold:SIZE, threshold:all, segments, cubic, ddp, horovod; commas" },
    { 0, "payload", "TYPE", PARSED, 0, 0, 0, parse_payload, "fusion: float, bfloat16, half or both (float, bfloat16)" },
    { 0, "gradients", "WHERE", PARSED, 0, 0, 0, parse_gradients,
      "fusion: they live in buckets, have their own memory, or both (both)" },
    { 0, "peer", "LIST", PARSED, 0, 0, 0, parse_peer,
      "measure beside openmpi:ob1, :ucx, :sm, :nocma, :tuned or :best (all of them); fusion: ddp, PyTorch's; commas" },
    { 0, "rounds", "N", NUMBER, AT(rounds), 1, 100, NULL, "turns each backend takes in a cell (5)" },
    { 0, "starts", "N", NUMBER, AT(starts), 1, 100, NULL,
      "start all ranks so many times, and at the end report medians over starts (1)" },
    { 0, "cell-time", "SECONDS", SECONDS, AT(cell_seconds), 0, 0, NULL, "time per cell and backend (0.1)" },
    { 0, "guard", "on|off", PARSED, 0, 0, 0, parse_guard,
      "calibrate the machine around each cell, measure its limits (on)" },
    { 0, "plot", "FILE", PARSED, 0, 0, 0, parse_plot, "draw time and bandwidth against size; .png or .svg" },
    { 0, "algo", "SPEC", TEXT, AT(algorithm), 0, 0, NULL, "algorithm, e.g. ring or torus:2x2 (chosen by size)" },
    { 0, "slice", "SIZE", SIZE, AT(slice), 0, 0, NULL, "bytes of a pipeline slice (chosen)" },
    { 0, "nodes", "MAP", TEXT, AT(nodes), 0, 0, NULL, "node map as algorithms see it: 4x2, or 3+1+2 (found)" },
    { 0, "reproducible", NULL, SWITCH, AT(reproducible), 0, 0, NULL, "only algorithms with the canonical order" },
    { 0, "round", "KIND", PARSED, 0, 0, 0, parse_round, "rounding of 16-bit types: once or hop" },
    { 'g', "ngpus", "N", REFUSED, 0, 0, 0, NULL, "there are no GPUs here; start ranks with --ranks" },
    { 'y', "stream_null", "0", REFUSED, 0, 0, 0, NULL, "there are no CUDA streams here" },
    { 'G', "cudagraph", "0", REFUSED, 0, 0, 0, NULL, "there are no CUDA graphs here" },
    { 'R', "local_register", "0", REFUSED, 0, 0, 0, NULL, "nothing is registered here; use --memory plait" },
    { 'x', "cta_policy", "0", REFUSED, 0, 0, 0, NULL, "there are no thread blocks on a CPU" },
    { 'D', "device_implementation", "0", REFUSED, 0, 0, 0, NULL, "there are no device kernels here; use --algo" },
    { 'V', "device_cta_count", "0", REFUSED, 0, 0, 0, NULL, "there are no thread blocks on a CPU" },
    { 'M', NULL, "0", REFUSED, 0, 0, 0, NULL, "there is no GPU memory to report" },
};
#define NROW (sizeof rows / sizeof *rows)
#undef AT

void options_help(void)
{
    printf("Usage: plait-perf [options]\n  or:  plait-perf fusion --tensors FILE [options]\n"
           "  or:  plait-perf elastic [options]\n\n"
           "Measures and verifies collectives between ranks that it starts on this machine; with fusion, steps that\n"
           "exchange the gradients of a list of tensors in several ways; with elastic, rounds of elastic averaging\n"
           "(see docs/benchmark.md).\n"
           "Flags, sizes, columns and bandwidths are those of nccl-tests; sizes accept K, M and G.\n\nOptions:\n");
    for (size_t i = 0; i < NROW; i++) {
        const struct row *r = &rows[i];
        char flag[64];
        if (r->kind == REFUSED)
            continue;
        snprintf(flag, sizeof flag, "%c%c%s --%s %s", r->letter ? '-' : ' ', r->letter ? r->letter : ' ',
                 r->letter ? "," : " ", r->name, r->argument != NULL ? r->argument : "");
        printf("  %-32s %s\n", flag, r->text);
    }
    printf("\ntime is the mean of operations back to back, as in nccl-tests. midmean (the mean of the middle half) and "
           "-I are of\n"
           "single operations that begin together. A ratio is plait's midmean over the peer's in the same round; below "
           "1 plait\n"
           "is faster.\n"
           "near and far are the two speeds at which some virtual machines connect their processors.\n");
}

static bool apply(struct options *o, const struct row *r, const char *flag, const char *value)
{
    void *at = (char *)o + r->offset;
    size_t zero;

    switch (r->kind) {
    case SWITCH:
        *(bool *)at = true;
        return true;
    case NUMBER:
        return parse_number(flag, value, r->least, r->most, at);
    case SIZE:
        return plait_parse_bytes(value, at) ||
               complain("%s %s: expected bytes, as 1048576, 64K, 1M or 2G", flag, value);
    case SECONDS:
        return parse_seconds(flag, value, at);
    case TEXT:
        *(const char **)at = value;
        return *value != '\0' || complain("%s needs a value", flag);
    case PARSED:
        return r->parse(o, flag, value);
    case REFUSED:
        return (plait_parse_bytes(value, &zero) && zero == 0) || complain("%s %s: %s", flag, value, r->text);
    }
    return false;
}

static const char *nearest_option(const char *name)
{
    const char *best = "help";
    unsigned least = 4; /* farther is no misspelling */

    for (size_t i = 0; i < NROW; i++) {
        const unsigned d = rows[i].name != NULL ? plait_distance(name, rows[i].name) : UINT32_MAX;
        if (d < least) {
            least = d;
            best = rows[i].name;
        }
    }
    return best;
}

/* ---- parsing ----------------------------------------------------------------------------------- */

static void set_defaults(struct options *o)
{
    *o = (struct options){
        .min_bytes = 4,
        .bytes = NO_BYTES,
        .max_bytes = 64 << 20,
        .step_bytes = 0,
        .step_factor = 0,
        .ncoll = 1,
        .coll = { &collectives[0] },
        .ndtype = 1,
        .dtype = { PLAIT_FLOAT32 },
        .nop = 1,
        .op = { PLAIT_SUM },
        .aggregate = 1,
        .warmup = UINT64_MAX,
        .cycles = 1,
        .check = 1,
        .cell_seconds = 0.1,
        .rounds = 5,
        .starts = 1,
        .average = 1,
        .timeout = 120,
        .place = { true, true },
        .overlap_tests = 10,
        .nrank = 2,
        .guard = true,
        .npayload = 2,
        .payload = { PLAIT_FLOAT32, PLAIT_BFLOAT16 },
        .gradients = { true, true },
        .nlayout = 7,
        .layout = { { RULE_THRESHOLD, 1 << 20 },
                    { RULE_THRESHOLD, 4 << 20 },
                    { RULE_THRESHOLD, SIZE_MAX },
                    { RULE_SEGMENTS, 0 },
                    { RULE_CUBIC, 0 },
                    { RULE_DDP, 0 },
                    { RULE_HOROVOD, 0 } },
    };
}

/* -f wins over -i, as in nccl-tests; with neither sizes grow fourfold. Every round has an iteration. */
static void settle(struct options *o)
{
    if (o->step_factor == 0)
        o->step_factor = o->step_bytes > 0 ? 1 : 4;
    if (o->iterations > 0 && o->iterations < o->rounds)
        o->rounds = o->iterations;
}

/* The ranks are the launcher's, and the processors not this process's alone: no calibrations of this machine. */
static bool ask_launcher(struct options *o)
{
    if (plait_launch_find(&o->launch) != PLAIT_OK)
        return complain("%s", plait_last_error());
    o->launched = o->launch.nrank > 1;
    if (!o->launched)
        return true;
    o->nrank = o->launch.nrank;
    o->guard = false;
    message_hide(o->launch.rank > 0); /* rank 0 says it */
    return o->nrank <= MAX_RANKS ||
           complain("%s started %u ranks; at most %d here", o->launch.launcher, o->launch.nrank, MAX_RANKS);
}

bool options_parse(int argc, char **argv, struct options *out)
{
    struct option names[NROW + 1] = { 0 };
    char letters[2 * NROW + 2] = ":", flag[64];
    size_t at = 1, nname = 0;
    int c;

    set_defaults(out);
    if (!ask_launcher(out))
        return false;
    out->fusion = argc > 1 && strcmp(argv[1], "fusion") == 0;
    out->elastic = argc > 1 && strcmp(argv[1], "elastic") == 0;
    if (out->fusion || out->elastic) {
        argv++;
        argc--;
    }
    for (size_t i = 0; i < NROW; i++) {
        if (rows[i].letter != 0) {
            letters[at++] = rows[i].letter;
            if (rows[i].kind != SWITCH)
                letters[at++] = ':';
        }
        if (rows[i].name != NULL)
            names[nname++] = (struct option){ rows[i].name, rows[i].kind != SWITCH, NULL, 256 + (int)i };
    }
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        const char *word = argv[optind - 1];
        if (c == ':')
            return complain("%s needs a value; see --help", word);
        if (c == '?' && optopt != 0 && optopt < 256)
            return complain("unknown flag -%c; see --help", optopt);
        if (c == '?')
            return complain("unknown option %s; the nearest is --%s", word, nearest_option(word + 2));
        for (size_t i = 0; i < NROW; i++)
            if (c == rows[i].letter || c == 256 + (int)i) {
                snprintf(flag, sizeof flag, c < 256 ? "-%c" : "--", c);
                if (c >= 256)
                    snprintf(flag, sizeof flag, "--%s", rows[i].name);
                if (!apply(out, &rows[i], flag, optarg != NULL ? optarg : ""))
                    return false;
                break;
            }
    }
    if (optind < argc)
        return complain("unexpected argument '%s'; options begin with -, see --help", argv[optind]);
    settle(out);
    return out->help || options_check(out);
}

void options_finish(struct options *o)
{
    free(o->node);
    o->node = NULL;
}
