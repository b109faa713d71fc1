/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "message.h"
#include "option.h"
#include "options_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_TIMEOUT 1e6 /* seconds: eleven days */

/* ---- the table --------------------------------------------------------------------------------- */

static const struct choice kinds_of_rank[] = { { "processes", false }, { "threads", true }, { 0 } };
static const struct choice on_off[] = { { "off", false }, { "on", true }, { 0 } };
static const struct choice rounds[] = { { "once", PLAIT_ROUND_ONCE }, { "hop", PLAIT_ROUND_HOP }, { 0 } };

static const struct option rows[] = {
    OPTION_IN(BYTES, "minbytes", "SIZE", min_bytes, "smallest size (4)", .letter = 'b'),
    OPTION_IN(BYTES, "maxbytes", "SIZE", max_bytes, "largest size (64M)", .letter = 'e'),
    OPTION_IN(BYTES, "stepbytes", "SIZE", step_bytes, "add this to get the next size", .letter = 'i'),
    OPTION_IN(NUMBER, "stepfactor", "N", step_factor, "multiply by this to get the next size (4)", .letter = 'f',
              .least = 2, .most = 1024),
    OPTION_IN(NUMBER, "iters", "N", iterations,
              "timed iterations per cell and library (as many as fit into --cell-time)", .letter = 'n', .least = 1,
              .most = 1000000),
    OPTION_IN(NUMBER, "agg_iters", "N", aggregate, "operations per timed iteration (1)", .letter = 'm', .least = 1,
              .most = 1000000),
    OPTION_IN(NUMBER, "warmup_iters", "N", warmup, "iterations before timing (for about 2 ms)", .letter = 'w',
              .least = 0, .most = 1000000),
    OPTION_IN(NUMBER, "run_cycles", "N", cycles, "repeat the whole run; 0: until interrupted (1)", .letter = 'N',
              .least = 0, .most = 1000000),
    OPTION_IN(NUMBER, "check", "N", check, "verified operations per cell; 0: none (1)", .letter = 'c', .least = 0,
              .most = 1000),
    OPTION_TO(PARSED, "op", "OP", NULL, "sum, prod, min, max, avg, mulsum or all (sum)", .letter = 'o',
              .parse = parse_op),
    OPTION_TO(PARSED, "datatype", "TYPE", NULL, DTYPE_LABELS " or all (float)", .letter = 'd', .parse = parse_dtype),
    OPTION_IN(NUMBER, "average", "N", average, "time over ranks: 0 rank 0, 1 average, 2 minimum, 3 maximum (1)",
              .letter = 'a', .least = 0, .most = 3),
    OPTION_IN(NUMBER, "report_cputime", "0|1", cputime, "processor time of a rank instead of elapsed time (0)",
              .letter = 'C', .least = 0, .most = 1),
    OPTION_IN(NUMBER, "per_iter_timing", "0|1", per_iter, "add min, max, p99 and variation of iterations (0)",
              .letter = 'I', .least = 0, .most = 1),
    OPTION_IN(NUMBER, "per_iter_skip", "N", per_iter_skip, "first iterations that -I leaves out (0)", .letter = 'K',
              .least = 0, .most = 100000),
    OPTION_IN(NUMBER, "report_timestamps", "0|1", timestamps, "add the time of day to each row (0)", .letter = 'S',
              .least = 0, .most = 1),
    OPTION_IN(TEXT, "output_file", "FILE", json, "write results as JSON too", .letter = 'J'),
    OPTION_IN(TEXT, "csv", "FILE", csv, "write results as CSV too"),
    OPTION_IN(NUMBER, "unalign", "N", unalign, "move the buffers N elements off their alignment (0)", .letter = 'u',
              .least = 0, .most = 4096),
    OPTION_IN(REAL, "timeout", "SECONDS", timeout,
              "end when ranks do not start, or no operation ends, for so long; 0: never (120)", .letter = 'T',
              .least = 0, .most = NO_TIMEOUT),
    OPTION_TO(PARSED, "nthreads", "N", NULL, "same as --ranks N --as threads", .letter = 't', .parse = parse_threads),
    OPTION_TO(PARSED, "root", "N", NULL, "root of broadcast, reduce, gather, scatter, or all (0)", .letter = 'r',
              .parse = parse_root),
    OPTION_TO(HELP, "help", NULL, NULL, "this text", .letter = 'h'),
    OPTION_TO(PARSED, "coll", "LIST", NULL,
              "allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter, alltoall, sendrecv, "
              "reduce_scatterv, allgatherv, gatherv, scatterv, alltoallv, barrier or all; commas (allreduce)",
              .parse = parse_coll),
    OPTION_IN(NUMBER, "ranks", "N", nrank, "ranks to start (2); under a launcher, its ranks", .least = 1,
              .most = MAX_RANKS),
    OPTION_IN(CHOICE, "as", "KIND", threads, "ranks are processes or threads (processes)", .choices = kinds_of_rank),
    OPTION_TO(PARSED, "memory", "KIND", NULL,
              "buffers: plait (library memory), malloc, or same (the same pages for all libraries) (malloc)",
              .parse = parse_memory),
    OPTION_TO(PARSED, "place", "WHICH", NULL, "out of place or in place: out, in or both (both)", .parse = parse_place),
    OPTION_IN(FLAG, "inplace", NULL, inplace, "same as --place in"),
    OPTION_TO(PARSED, "overlap", "KIND", NULL,
              "measure overlap with a computation: busy (all processors), sleep or both", .parse = parse_overlap),
    OPTION_IN(NUMBER, "overlap-tests", "N", overlap_tests,
              "calls of plait_test() during the computation, where these drive progress (10)", .least = 1,
              .most = 10000),
    OPTION_IN(TEXT, "tensors", "FILE", tensors,
              "all-reduce, broadcast or reduce these tensors one by one; CSV: id,name,elements,kind"),
    OPTION_IN(NUMBER, "min-elements", "N", min_elements, "leave out smaller tensors (0)", .least = 0,
              .most = UINT64_MAX / 8),
    OPTION_IN(NUMBER, "max-elements", "N", max_elements, "leave out larger tensors", .least = 1,
              .most = UINT64_MAX / 8),
    OPTION_TO(PARSED, "compute-ms", "T", NULL,
              "computation time of a step, a sleep of T milliseconds, in fusion and elastic (0)",
              .parse = parse_compute),
    OPTION_IN(BYTES, "bytes", "SIZE", bytes, "elastic: bytes of weights of each worker (16M)"),
    OPTION_TO(PARSED, "mode", "LIST", NULL,
              "elastic: original, async, async-momentum, hogwild, sync1, sync2, sync3 or all; commas (all)",
              .parse = parse_modes),
    OPTION_IN(NUMBER, "servers", "N", nserver, "elastic: servers of the asynchronous modes, besides --ranks (1)",
              .least = 1, .most = MAX_RANKS / 2),
    OPTION_IN(TEXT, "timeline", "FILE", timeline, "fusion: trace one step, for ui.perfetto.dev"),
    OPTION_TO(PARSED, "layouts", "LIST", NULL, "fusion: " LAYOUT_NAMES "; commas", .parse = parse_layouts),
    OPTION_TO(PARSED, "payload", "TYPE", NULL,
              "fusion: float, bfloat16, half or both (float, bfloat16); elastic: the first of them (float)",
              .parse = parse_payload),
    OPTION_TO(PARSED, "gradients", "WHERE", NULL,
              "fusion: where gradients lie: buckets, own (memory of their own) or both (both)",
              .parse = parse_gradients),
    OPTION_TO(PARSED, "peer", "LIST", NULL,
              "measure beside openmpi:ob1, :ucx, :sm, :nocma, :tuned or :best (all of them); PyTorch's gloo, fusion: "
              "ddp; commas",
              .parse = parse_peer),
    OPTION_IN(NUMBER, "rounds", "N", rounds, "turns of each library in a cell (5)", .least = 1, .most = 100),
    OPTION_IN(NUMBER, "starts", "N", starts,
              "start all ranks N times, and report medians over the starts at the end (1)", .least = 1, .most = 100),
    OPTION_IN(REAL, "cell-time", "SECONDS", cell_seconds, "time per cell and library (0.1)", .least = 0.001,
              .most = 1e6),
    OPTION_IN(FLAG, "verbose", NULL, verbose,
              "show the limits of the machine, and its core-to-core latency (c2c: low, high or mixed) in each cell",
              .letter = 'v'),
    OPTION_IN(CHOICE, "guard", "on|off", guard,
              "calibrate the machine around each cell, and measure its limits (-v: on)", .choices = on_off),
    OPTION_TO(PARSED, "plot", "FILE", NULL, "plot time and bandwidth against size; .svg", .parse = parse_plot),
    OPTION_IN(TEXT, "report", "FILE", report, "write one HTML page: pictures, table, what to try"),
    OPTION_TO(PARSED, "algo", "SPEC", NULL,
              "algorithm, e.g. ring or torus:2x2, or COLLECTIVE:ALGORITHM, for that one alone (chosen by the library)",
              .parse = parse_algorithm),
    OPTION_IN(BYTES, "slice", "SIZE", slice, "bytes of a pipeline slice (chosen)"),
    OPTION_IN(TEXT, "nodes", "MAP", nodes, "node map that algorithms see: 4x2, or 3+1+2 (detected)"),
    OPTION_IN(FLAG, "reproducible", NULL, reproducible, "only algorithms that reduce in the canonical order"),
    OPTION_IN(CHOICE, "round", "KIND", round, "rounding of 16-bit types: once or hop", .choices = rounds),
    OPTION_TO(IGNORED, "ngpus", "N", NULL, "ranks are processes or threads, not GPUs; --ranks says how many",
              .letter = 'g'),
    OPTION_TO(IGNORED, "blocking", "0|1", NULL, "every operation here blocks", .letter = 'z'),
    OPTION_TO(IGNORED, "parallel_init", "0|1", NULL, "ranks always start together", .letter = 'p'),
    OPTION_TO(IGNORED, "stream_null", "0", NULL, "there are no CUDA streams here", .letter = 'y'),
    OPTION_TO(IGNORED, "cudagraph", "0", NULL, "there are no CUDA graphs here", .letter = 'G'),
    OPTION_TO(IGNORED, "local_register", "0", NULL, "nothing is registered here; use --memory plait", .letter = 'R'),
    OPTION_TO(IGNORED, "cta_policy", "0", NULL, "there are no thread blocks on a CPU", .letter = 'x'),
    OPTION_TO(IGNORED, "device_implementation", "0", NULL, "there are no device kernels here; use --algo",
              .letter = 'D'),
    OPTION_TO(IGNORED, "device_cta_count", "0", NULL, "there are no thread blocks on a CPU", .letter = 'V'),
    OPTION_TO(IGNORED, NULL, "0", NULL, "there is no GPU memory to report", .letter = 'M'),
};

_Static_assert(sizeof rows / sizeof *rows <= MAX_OPTIONS, "struct options tells of each whether it was given");

static const struct option_table table = {
    "Usage: plait-perf [options]\n  or:  plait-perf fusion --tensors FILE [options]\n"
    "  or:  plait-perf elastic [options]\n\n"
    "Measures and verifies collectives between ranks that it starts on this machine, or that a launcher starts.\n"
    "plait-perf fusion measures training steps that exchange the gradients of a list of tensors in several ways.\n"
    "plait-perf elastic measures rounds of elastic averaging. docs/benchmark.md has more.\n"
    "Flags, columns and bandwidths are those of nccl-tests. Sizes have K, M or G (also KB, KiB): 2^10, 2^20, 2^30.\n"
    "A cell is one row, out of place or in place. Called as all_reduce_perf, all_gather_perf and so on, plait-perf\n"
    "measures that collective, with nccl-tests' size (32M) and iterations (20).\n\n"
    "Options:\n",
    "\nThe column `time` is the mean of operations back to back, as in nccl-tests. midmean (the mean of the middle "
    "half)\n"
    "and -I are of single operations that begin together. A ratio is plait's midmean over the peer's in the same "
    "round;\n"
    "below 1 plait is faster.\n"
    "On some virtual machines the latency between two cores changes within a run: c2c is low, high or, within a "
    "cell,\n"
    "mixed. Compare rows with the same one.\n",
    rows, sizeof rows / sizeof *rows, sizeof *rows
};

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
        .algorithm_coll = -1,
        .guard = -1,
        .npayload = 2,
        .payload = { PLAIT_FLOAT32, PLAIT_BFLOAT16 },
        .gradients = { true, true },
        .nlayout = 7,
        .layout = { { .threshold = 1 << 20 },
                    { .threshold = 4 << 20 },
                    { .threshold = SIZE_MAX },
                    { .rule = RULE_SEGMENTS },
                    { .rule = RULE_CUBIC },
                    { .rule = RULE_DDP },
                    { .rule = RULE_HOROVOD } },
    };
}

/* all_reduce_perf and its kind are names of this program, with nccl-tests' defaults of sizes and iterations. */
static bool set_defaults_of_nccl_tests(struct options *o, const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash != NULL ? slash + 1 : program;
    const struct collective *c = collective_find(name);

    const size_t n = strlen(name), end = strlen("_perf");

    if (c == NULL && n > end && strcmp(name + n - end, "_perf") == 0)
        return complain("there is no %s here; plait-perf --coll NAME measures a collective (see --help)", name);
    if (c == NULL || strcmp(c->program, name) != 0)
        return true;
    o->coll[0] = c;
    o->min_bytes = o->max_bytes = 32 << 20;
    o->step_bytes = 1 << 20;
    o->iterations = 20;
    o->warmup = 1;
    return true;
}

/* -f wins over -i, as in nccl-tests; with neither, sizes grow fourfold. Every round has at least one iteration. */
static void settle(struct options *o)
{
    if (o->inplace)
        o->place[OUT_OF_PLACE] = false;
    if (o->guard < 0)
        o->guard = o->verbose && !o->launched;
    if (o->timeout == 0)
        o->timeout = NO_TIMEOUT;
    if (o->step_factor == 0)
        o->step_factor = o->step_bytes > 0 ? 1 : 4;
    if (o->iterations > 0 && o->iterations < o->rounds)
        o->rounds = o->iterations;
}

/* The launcher chose the ranks, and they share its processors, so this process does not calibrate the machine. */
static bool ask_launcher(struct options *o)
{
    if (plait_launch_find(&o->launch) != PLAIT_OK)
        return complain("%s", plait_last_error());
    o->launched = o->launch.nrank > 1;
    if (!o->launched)
        return true;
    o->nrank = o->launch.nrank;
    message_hide(o->launch.rank > 0); /* rank 0 prints the errors */
    return o->nrank <= MAX_RANKS ||
           complain("%s started %u ranks; start at most %d", o->launch.launcher, o->launch.nrank, MAX_RANKS);
}

bool options_parse(int argc, char **argv, struct options *out)
{
    int nrest;

    set_defaults(out);
    if ((argc > 0 && !set_defaults_of_nccl_tests(out, argv[0])) || !ask_launcher(out))
        return false;
    out->fusion = argc > 1 && strcmp(argv[1], "fusion") == 0;
    out->elastic = argc > 1 && strcmp(argv[1], "elastic") == 0;
    if (out->fusion || out->elastic) {
        argv++;
        argc--;
    }
    if (!option_parse(&table, out, out->given, argc, argv, &nrest))
        return false;
    if (nrest > 0)
        return complain("unexpected argument '%s'; options begin with -, see --help", argv[1]);
    settle(out);
    return options_check(out);
}

const char *options_flag(const struct options *o, const char *name)
{
    return option_flag(&table, o->given, name);
}

const char *options_algorithm(const struct options *o, enum plait_coll coll)
{
    return o->algorithm_coll < 0 || o->algorithm_coll == (int)collective_base(coll) ? o->algorithm : NULL;
}

void options_finish(struct options *o)
{
    free(o->node);
    o->node = NULL;
}
