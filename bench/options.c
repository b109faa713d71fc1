/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "bytes.h"
#include "launch_openmpi.h"
#include "message.h"
#include "nearest.h"

#include <plait/plan.h>

#include <errno.h>
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
    bool (*parse)(struct options *o, const char *flag, const char *value);
    const char *text; /* for --help; REFUSED: why */
};

/* ---- values ------------------------------------------------------------------------------------ */

static bool parse_number(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 0);
    if (end == text || *end != '\0' || *text == '-' || errno != 0 || value < least || value > most)
        return complain("%s %s: expected a whole number from %llu to %llu", flag, text, (unsigned long long)least,
                        (unsigned long long)most);
    *out = value;
    return true;
}

static bool parse_seconds(const char *flag, const char *text, double *out)
{
    char *end;
    const double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0.001 && value <= 1e6))
        return complain("%s %s: expected seconds from 0.001 to 1000000", flag, text);
    *out = value;
    return true;
}

static const struct {
    enum plait_dtype type;
    const char *label;
} labels[] = {
    { PLAIT_INT8, "int8" },         { PLAIT_UINT8, "uint8" },       { PLAIT_INT32, "int32" },
    { PLAIT_UINT32, "uint32" },     { PLAIT_INT64, "int64" },       { PLAIT_UINT64, "uint64" },
    { PLAIT_FLOAT16, "half" },      { PLAIT_FLOAT32, "float" },     { PLAIT_FLOAT64, "double" },
    { PLAIT_BFLOAT16, "bfloat16" }, { PLAIT_FLOAT8E4M3, "f8e4m3" }, { PLAIT_FLOAT8E5M2, "f8e5m2" },
};
#define NLABEL (sizeof labels / sizeof *labels)

const char *dtype_label(enum plait_dtype type)
{
    for (size_t i = 0; i < NLABEL; i++)
        if (labels[i].type == type)
            return labels[i].label;
    return "?";
}

#define TYPES "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2 or all"

static bool parse_dtype(struct options *o, const char *flag, const char *value)
{
    const int type = plait_dtype_find(value);

    o->ndtype = 0;
    if (strcmp(value, "all") == 0) {
        for (size_t i = 0; i < NLABEL; i++)
            o->dtype[o->ndtype++] = labels[i].type;
        return true;
    }
    if (type < 0)
        return complain("%s %s: no such element type here; use " TYPES, flag, value);
    o->dtype[o->ndtype++] = (enum plait_dtype)type;
    return true;
}

static bool parse_op(struct options *o, const char *flag, const char *value)
{
    const int op = plait_op_find(value);

    o->nop = 0;
    if (strcmp(value, "all") == 0) {
        for (int i = 0; i <= PLAIT_PREMULSUM; i++)
            o->op[o->nop++] = (enum plait_op)i;
        return true;
    }
    if (op < 0 || op == PLAIT_USER)
        return complain("%s %s: no such operator here; use sum, prod, min, max, avg, mulsum or all", flag, value);
    o->op[o->nop++] = (enum plait_op)op;
    return true;
}

const char *op_label(enum plait_op op)
{
    return op == PLAIT_NOP ? "none" : plait_op_name(op);
}

static bool parse_coll(struct options *o, const char *flag, const char *value)
{
    const struct collective *c = collective_find(value);

    o->ncoll = 0;
    if (strcmp(value, "all") == 0)
        for (; o->ncoll < NCOLLECTIVE; o->ncoll++)
            o->coll[o->ncoll] = &collectives[o->ncoll];
    else if (c != NULL)
        o->coll[o->ncoll++] = c;
    else
        return complain("%s %s: no such collective here; the nearest is %s, all is each in turn", flag, value,
                        collective_nearest(value));
    return true;
}

static bool parse_root(struct options *o, const char *flag, const char *value)
{
    o->root = 0;
    o->every_root = strcmp(value, "all") == 0;
    return o->every_root || parse_number(flag, value, 0, MAX_RANKS - 1, &o->root);
}

static bool parse_threads(struct options *o, const char *flag, const char *value)
{
    o->threads = true;
    return parse_number(flag, value, 1, MAX_RANKS, &o->nrank);
}

static bool parse_as(struct options *o, const char *flag, const char *value)
{
    o->threads = strcmp(value, "threads") == 0;
    return o->threads || strcmp(value, "processes") == 0 || complain("%s %s: use processes or threads", flag, value);
}

static bool parse_memory(struct options *o, const char *flag, const char *value)
{
    o->library_memory = strcmp(value, "plait") == 0;
    o->same_memory = strcmp(value, "same") == 0;
    return o->library_memory || o->same_memory || strcmp(value, "malloc") == 0 ||
           complain("%s %s: use plait, malloc or same (nccl-tests' GPU memory report is not here)", flag, value);
}

static bool parse_round(struct options *o, const char *flag, const char *value)
{
    o->round = strcmp(value, "once") == 0 ? PLAIT_ROUND_ONCE : PLAIT_ROUND_HOP;
    return o->round == PLAIT_ROUND_ONCE || strcmp(value, "hop") == 0 || complain("%s %s: use once or hop", flag, value);
}

static bool parse_place(struct options *o, const char *flag, const char *value)
{
    o->place[OUT_OF_PLACE] = strcmp(value, "in") != 0;
    o->place[IN_PLACE] = strcmp(value, "out") != 0;
    return strcmp(value, "in") == 0 || strcmp(value, "out") == 0 || strcmp(value, "both") == 0 ||
           complain("%s %s: use out, in or both", flag, value);
}

const char *place_name(enum place place)
{
    static const char *const names[NPLACE] = { "out", "in" };
    return names[place];
}

static bool parse_overlap(struct options *o, const char *flag, const char *value)
{
    const bool both = strcmp(value, "both") == 0;

    for (int i = 0; i < NCOMPUTATION; i++) {
        o->computation[i] = both || strcmp(value, computation_name((enum computation)i)) == 0;
        o->overlap |= o->computation[i];
    }
    return o->computation[COMPUTE_BUSY] || o->computation[COMPUTE_SLEEP] ||
           complain("%s %s: use busy, sleep or both", flag, value);
}

static bool parse_layouts(struct options *o, const char *flag, const char *value)
{
    char *list = strdup(value), *state = NULL;
    bool ok = list != NULL;

    o->nlayout = 0;
    for (char *name = ok ? strtok_r(list, ",", &state) : NULL; ok && name != NULL; name = strtok_r(NULL, ",", &state))
        if (o->nlayout == MAX_LAYOUTS)
            ok = complain("%s: at most %d layouts", flag, MAX_LAYOUTS);
        else if (!layout_parse(name, &o->layout[o->nlayout++]))
            ok = complain("%s %s: no such layout; use threshold:SIZE, threshold:all, segments, cubic, ddp or horovod",
                          flag, name);
    if (ok && o->nlayout == 0)
        ok = complain("%s '%s' names no layout; leave %s out for all of them", flag, value, flag);
    free(list);
    return ok;
}

static bool parse_payload(struct options *o, const char *flag, const char *value)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16 };
    const bool both = strcmp(value, "both") == 0;

    o->npayload = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((both && i < 2) || strcmp(value, dtype_label(types[i])) == 0)
            o->payload[o->npayload++] = types[i];
    return o->npayload > 0 || complain("%s %s: use float, bfloat16, half or both (float and bfloat16)", flag, value);
}

static bool parse_gradients(struct options *o, const char *flag, const char *value)
{
    o->gradients[0] = strcmp(value, "own") != 0;
    o->gradients[1] = strcmp(value, "buckets") != 0;
    return strcmp(value, "own") == 0 || strcmp(value, "buckets") == 0 || strcmp(value, "both") == 0 ||
           complain("%s %s: use buckets, own or both", flag, value);
}

static bool parse_compute(struct options *o, const char *flag, const char *value)
{
    char *end;

    o->compute = 1e-3 * strtod(value, &end);
    return (end != value && *end == '\0' && o->compute >= 0 && o->compute <= 60) ||
           complain("%s %s: expected milliseconds from 0 to 60000", flag, value);
}

static bool parse_modes(struct options *o, const char *flag, const char *value)
{
    char list[256], *state = NULL;

    snprintf(list, sizeof list, "%s", value);
    o->modes = strcmp(value, "all") == 0 ? (1u << PLAIT_NELASTIC) - 1 : 0;
    for (char *name = strtok_r(list, ",", &state); name != NULL && strcmp(value, "all") != 0;
         name = strtok_r(NULL, ",", &state)) {
        const int mode = plait_elastic_find(name);
        if (mode < 0)
            return complain("%s %s: use original, async, async-momentum, hogwild, sync1, sync2, sync3 or all", flag,
                            name);
        o->modes |= 1u << mode;
    }
    return true;
}

static bool parse_guard(struct options *o, const char *flag, const char *value)
{
    o->guard = strcmp(value, "on") == 0;
    return o->guard || strcmp(value, "off") == 0 || complain("%s %s: use on or off", flag, value);
}

static bool parse_plot(struct options *o, const char *flag, const char *value)
{
    const char *dot = strrchr(value, '.');

    if (dot == NULL || (strcmp(dot, ".png") != 0 && strcmp(dot, ".svg") != 0))
        return complain("%s %s: the name must end in .png or .svg", flag, value);
    o->plot = value;
    return true;
}

static bool add_peer(struct options *o, uint32_t config)
{
    for (uint32_t i = 0; i < o->npeer; i++)
        if (o->peer[i] == config)
            return true;
    o->peer[o->npeer++] = config;
    return true;
}

static bool parse_one_peer(struct options *o, const char *flag, const char *name)
{
    if (strncmp(name, "openmpi:", 8) == 0)
        name += 8;
    if (strcmp(name, "gloo") == 0)
        return complain("%s gloo: it comes with PyTorch, and in steps only: plait-perf fusion --tensors FILE %s ddp; "
                        "else use openmpi:best",
                        flag, flag);
    if (strcmp(name, "ddp") == 0)
        return o->ddp = true;
    for (uint32_t i = 0; i < openmpi_nconfig; i++)
        if (strcmp(name, openmpi_configs[i].name) == 0)
            return add_peer(o, i);
    if (strcmp(name, "best") != 0 && strcmp(name, "openmpi") != 0)
        return complain("%s %s: unknown peer; use openmpi:ob1, openmpi:ucx, openmpi:sm, openmpi:nocma, openmpi:tuned, "
                        "openmpi:tcp or openmpi:best (all that suit one machine, or under a launcher several); fusion "
                        "has ddp too",
                        flag, name);
    for (uint32_t i = 0; i < openmpi_nconfig; i++)
        if (o->launched ? openmpi_configs[i].hosts : openmpi_configs[i].machine)
            add_peer(o, i);
    return true;
}

static bool parse_peer(struct options *o, const char *flag, const char *value)
{
    char *list = strdup(value), *state = NULL;
    bool ok = list != NULL;
    uint32_t n = 0;

    for (char *name = ok ? strtok_r(list, ",", &state) : NULL; ok && name != NULL; name = strtok_r(NULL, ",", &state)) {
        ok = parse_one_peer(o, flag, name);
        n++;
    }
    if (ok && n == 0)
        ok = complain("%s '%s' names no peer; use openmpi:best, or leave %s out", flag, value, flag);
    free(list);
    return ok;
}

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
    { 'd', "datatype", "TYPE", PARSED, 0, 0, 0, parse_dtype, TYPES " (float)" },
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
    { 0, "coll", "NAME", PARSED, 0, 0, 0, parse_coll,
      "allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter, alltoall, sendrecv, "
      "reduce_scatterv, allgatherv, gatherv, scatterv, alltoallv or all (allreduce)" },
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
