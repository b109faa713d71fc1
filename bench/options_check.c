/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of options that do not go together, and of those that the library would refuse. */
#include "options.h"

#include "allocate.h"
#include "file.h"
#include "message.h"
#include "stage.h"
#include "value.h"

#include <plait/comm.h>
#include <plait/plan.h>

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool expand_nodes(struct options *o)
{
    uint32_t node[MAX_RANKS], n;

    if (!nodes_parse(o->nodes, node, MAX_RANKS, &n))
        return complain("--nodes %s: must be NODESxRANKS as 4x2, or the ranks of each node as 3+1+2", o->nodes);
    if (n != o->nrank)
        return complain("--nodes %s describes %u rank%s, %s is %llu; make them equal", o->nodes, n, plural(n),
                        options_flag(o, "ranks"), (unsigned long long)o->nrank);
    o->node = allocate(n, sizeof *o->node);
    memcpy(o->node, node, n * sizeof *node);
    return true;
}

static bool check_folder(const char *flag, const char *path)
{
    char *copy = strdup(path);
    const bool ok = copy != NULL && access(dirname(copy), W_OK) == 0;

    free(copy);
    return ok || complain("%s %s: its folder is missing or cannot be written", flag, path);
}

/* The option that draws sizes, or NULL. */
static const char *picture(const struct options *o)
{
    return o->plot != NULL ? "--plot" : o->report != NULL ? "--report" : NULL;
}

static bool check_files(const struct options *o)
{
    if ((o->plot != NULL && !file_possible("--plot", o->plot)) ||
        (o->report != NULL && !file_possible("--report", o->report)) ||
        (o->json != NULL && !check_folder(options_flag(o, "output_file"), o->json)) ||
        (o->csv != NULL && !check_folder("--csv", o->csv)))
        return false;
#ifndef HAVE_JANSSON
    if (o->json != NULL)
        return complain("%s %s: built without JSON; install libjansson-dev (Debian) and build again",
                        options_flag(o, "output_file"), o->json);
#endif
    if (o->tensors != NULL && picture(o) != NULL)
        return complain("%s draws a sweep of sizes, but --tensors has none; leave one of them out", picture(o));
    return true;
}

/* An option that only a sweep over sizes has; NULL: none is given. */
static const char *sweep_option(const struct options *o)
{
    return picture(o) != NULL ? picture(o)
           : o->csv != NULL   ? "--csv"
           : o->aggregate > 1 ? options_flag(o, "agg_iters")
           : o->cputime       ? options_flag(o, "report_cputime")
           : o->per_iter      ? options_flag(o, "per_iter_timing")
           : o->timestamps    ? options_flag(o, "report_timestamps")
                              : NULL;
}

/* Overlap has a table of its own. */
static bool check_overlap(const struct options *o)
{
    const char *other = o->tensors != NULL ? "--tensors" : sweep_option(o);

    if (other != NULL)
        return complain("%s does not go with --overlap, which times single operations; leave one of them out", other);
    if (getenv("PLAIT_PROGRESS") != NULL)
        return complain("PLAIT_PROGRESS is set: --overlap starts and stops the progress thread itself; unset it");
    return true;
}

/* Options that not every collective supports. */
static bool check_collective(const struct options *o, const struct collective *c)
{
    if (o->tensors != NULL && c->coll != PLAIT_BARRIER &&
        collective_geometry(c->coll, 1, 0, 0).kind != PLAIT_KIND_VECTOR)
        return complain("--tensors %s: %s works on a part of each rank, not on whole tensors; use --coll allreduce, "
                        "broadcast, reduce or sendrecv",
                        o->tensors, c->title);
    if (c->coll == PLAIT_BARRIER && (o->tensors != NULL || (picture(o) != NULL && o->ncoll == 1)))
        return complain("%s: a barrier has no size; leave it out", o->tensors != NULL ? "--tensors" : picture(o));
    if (!o->place[OUT_OF_PLACE] && !collective_in_place(c->coll))
        return complain("--place in: %s has no form in place; use --place out or both", c->title);
    return true;
}

/* Would it be allowed if each rank were a node? Ranks learn who shares a cache or a package only when they meet. */
static bool allowed_on_nodes(const struct plait_shape *shape, uint64_t count, enum plait_dtype type, enum plait_op op,
                             const struct plait_call *call)
{
    struct plait_shape apart = *shape;
    uint32_t *node = allocate(shape->nrank, sizeof *node);
    struct plait_choice choice;

    for (uint32_t r = 0; r < shape->nrank; r++)
        node[r] = r;
    apart.node = node;
    const bool allowed = plait_choose(&apart, count, type, op, call, &choice) == PLAIT_OK;
    free(node);
    return allowed;
}

/*
 * Would the library refuse every operation? Its error says why and what else there is. Under a launcher ranks learn who
 * shares a node only when they meet: then the first call of the library reports it.
 */
static bool check_algorithm(const struct options *o, const struct collective *c)
{
    const struct plait_shape shape = {
        .coll = collective_base(c->coll), .nrank = (uint32_t)o->nrank, .root = (uint32_t)o->root, .node = o->node
    };
    const enum plait_op op = c->coll == PLAIT_BARRIER ? PLAIT_SUM /* a barrier sums its tokens */
                             : collective_geometry(c->coll, 1, 0, 0).combines ? o->op[0]
                                                                              : PLAIT_NOP;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice choice;
    const uint64_t scalar = 0; /* not read */

    if (c->coll == COLL_SENDRECV)
        return options_algorithm(o, c->coll) == NULL ||
               complain("%s %s: a %s has no algorithms; leave it out", options_flag(o, "algo"), o->algorithm, c->title);
    if (o->launched && o->nodes == NULL)
        return true;
    call.algorithm = options_algorithm(o, c->coll);
    call.scale = op == PLAIT_PREMULSUM ? &scalar : NULL;
    call.slice = o->slice;
    call.round = o->round;
    call.reproducible = o->reproducible;
    for (uint32_t i = 0; i < o->ndtype; i++) {
        const uint64_t count = collective_count(c->coll, shape.nrank, o->max_bytes, plait_dtype_size(o->dtype[i]));
        if ((shape.node == NULL && allowed_on_nodes(&shape, count, o->dtype[i], op, &call)) ||
            plait_choose(&shape, count, o->dtype[i], op, &call, &choice) == PLAIT_OK)
            continue;
        if (call.algorithm == NULL)
            return complain("%s", plait_last_error());
        return complain("%s%s %s with %s %llu: %s; change %s%s%s", o->reproducible ? "--reproducible " : "",
                        options_flag(o, "algo"), o->algorithm, options_flag(o, "ranks"), (unsigned long long)o->nrank,
                        plait_last_error(), options_flag(o, "algo"), o->reproducible ? "" : " or the ranks",
                        o->ncoll > 1 ? ", or give one collective" : "");
    }
    return true;
}

/* PyTorch multiplies by 1 / ranks before it sums: unless that is a power of two, the exact result is unknown. */
static bool check_ddp(const struct options *o)
{
    if (o->gloo)
        return complain("--peer gloo: of whole steps PyTorch's DDP is measured, over Gloo; use --peer ddp");
    return !o->ddp || (o->nrank & (o->nrank - 1)) == 0 ||
           complain("--peer ddp with %s %llu: its averages can be verified only "
                    "for a power of two; use 2, 4 or 8 ranks",
                    options_flag(o, "ranks"), (unsigned long long)o->nrank);
}

/* fusion has its own table, of sums of float32 gradients. */
static bool check_fusion(const struct options *o)
{
    const char *other = o->overlap                ? "--overlap"
                        : sweep_option(o) != NULL ? sweep_option(o)
                        : o->unalign              ? options_flag(o, "unalign")
                        : o->slice                ? "--slice"
                        : o->same_memory          ? "--memory same"
                                                  : NULL;

    if (other != NULL)
        return complain("%s does not go with plait-perf fusion, which times whole steps; leave it out", other);
    if (o->tensors == NULL)
        return complain("plait-perf fusion needs --tensors FILE, e.g. PREFIX/share/plait/resnet50.csv");
    if (o->ncoll != 1 || o->coll[0]->coll != PLAIT_ALLREDUCE || o->nop != 1 || o->op[0] != PLAIT_SUM ||
        o->ndtype != 1 || o->dtype[0] != PLAIT_FLOAT32)
        return complain("plait-perf fusion sums float gradients with all-reduces; leave out --coll, -o and -d "
                        "(--payload sets the type that travels)");
    if (o->max_elements > 0 && o->min_elements > o->max_elements)
        return complain("--min-elements %llu is more than --max-elements %llu; raise --max-elements",
                        (unsigned long long)o->min_elements, (unsigned long long)o->max_elements);
    if (o->timeline != NULL && strlen(o->timeline) > 160)
        return complain("%s %s: the path has more than 160 characters; choose a shorter one",
                        options_flag(o, "timeline"), o->timeline);
    return check_ddp(o) && (o->timeline == NULL || check_folder(options_flag(o, "timeline"), o->timeline));
}

/* Servers, where a mode has them, are the last ranks of the launcher; the others are workers. */
static bool split_launched(struct options *o)
{
    const uint32_t synchronous = 1u << PLAIT_ELASTIC_SYNC1 | 1u << PLAIT_ELASTIC_SYNC2 | 1u << PLAIT_ELASTIC_SYNC3;

    if ((o->modes & ~synchronous) == 0)
        o->nserver = 0;
    if (o->nserver >= o->nrank)
        return complain(
            "--servers %llu of the %llu ranks that %s started: at least one must be a worker; start more, or "
            "give --mode sync2",
            (unsigned long long)o->nserver, (unsigned long long)o->nrank, o->launch.launcher);
    o->nrank -= o->nserver;
    return true;
}

/* An option that none of the chosen modes supports; NULL: none. */
static const char *has_no_mode(const struct options *o)
{
    const uint32_t slices = 1u << PLAIT_ELASTIC_SYNC2 | 1u << PLAIT_ELASTIC_SYNC3;
    const uint32_t synchronous = 1u << PLAIT_ELASTIC_SYNC1 | slices;

    return o->algorithm != NULL && (o->modes & slices) == 0   ? options_flag(o, "algo")
           : o->reproducible && (o->modes & synchronous) == 0 ? "--reproducible"
                                                              : NULL;
}

/* elastic starts its own processes for each mode, and has its own table. */
static bool check_elastic(struct options *o)
{
    o->bytes = o->bytes != NO_BYTES ? o->bytes : 16 << 20;
    o->nserver = o->nserver > 0 ? o->nserver : 1;
    o->modes = o->modes > 0 ? o->modes : (1u << PLAIT_NELASTIC) - 1;
    const char *other = o->overlap                          ? "--overlap"
                        : o->tensors != NULL                ? "--tensors"
                        : picture(o) != NULL                ? picture(o)
                        : o->json != NULL                   ? options_flag(o, "output_file")
                        : o->csv != NULL                    ? "--csv"
                        : o->threads                        ? "--as threads"
                        : o->npeer > 0 || o->gloo || o->ddp ? "--peer"
                        : o->aggregate > 1                  ? options_flag(o, "agg_iters")
                        : o->timeline != NULL               ? options_flag(o, "timeline")
                        : o->same_memory                    ? "--memory same"
                                                            : NULL;

    if (other != NULL)
        return complain("%s does not go with plait-perf elastic; leave it out", other);
    if (o->bytes < sizeof(float) || o->bytes % sizeof(float) != 0)
        return complain("--bytes %zu: must be a multiple of 4, and at least 4, as weights are float32", o->bytes);
    if ((other = has_no_mode(o)) != NULL)
        return complain("%s has no effect in the modes of %s; leave it out", other, options_flag(o, "mode"));
    if (o->nrank + o->nserver > MAX_RANKS)
        return complain("%s %llu and --servers %llu: at most %d together", options_flag(o, "ranks"),
                        (unsigned long long)o->nrank, (unsigned long long)o->nserver, MAX_RANKS);
    return !o->launched || split_launched(o);
}

static bool check_no_elastic(const struct options *o)
{
    const char *other = o->bytes != NO_BYTES ? "--bytes"
                        : o->modes > 0       ? options_flag(o, "mode")
                        : o->nserver > 0     ? "--servers"
                                             : NULL;
    return other == NULL || complain("%s is an option of plait-perf elastic: plait-perf elastic %s", other, other);
}

/* Without fusion: options that only fusion has. */
static bool check_no_fusion(const struct options *o)
{
    const char *other = o->timeline != NULL                          ? options_flag(o, "timeline")
                        : o->compute > 0                             ? "--compute-ms"
                        : o->min_elements > 0 || o->max_elements > 0 ? "--min-elements or --max-elements"
                                                                     : NULL;
    if (o->ddp)
        return complain("--peer ddp: PyTorch's DDP has only training steps; use --peer gloo, or plait-perf fusion "
                        "--tensors FILE --peer ddp");
    return other == NULL ||
           complain("%s is an option of plait-perf fusion: plait-perf fusion --tensors FILE %s", other, other);
}

/* Options that contradict what the launcher decided. */
static bool check_launched(const struct options *o)
{
    if (!o->launched)
        return true;
    if (o->gloo || o->ddp)
        return complain("--peer %s: only on one machine, with ranks that plait-perf starts; leave it out under %s",
                        o->gloo ? "gloo" : "ddp", o->launch.launcher);
    if (o->nrank != o->launch.nrank)
        return complain("%s %llu: %s started %u ranks, which are all measured; leave it out, or set "
                        "PLAIT_LAUNCHER=none for ranks of this machine alone",
                        options_flag(o, "ranks"), (unsigned long long)o->nrank, o->launch.launcher, o->launch.nrank);
    if (o->threads)
        return complain("--as threads: each process that %s started is one rank; leave -t and --as out",
                        o->launch.launcher);
    if (o->same_memory)
        return complain("--memory same: ranks of several launches share no pages; use malloc or plait");
    if (picture(o) != NULL || o->guard)
        return complain("%s is for ranks of one machine; leave it out under a launcher",
                        o->guard ? "--guard on" : picture(o));
    return true;
}

/* --starts reports tables of operations by ranks that plait-perf starts itself. */
static bool check_starts(const struct options *o)
{
    const char *other = o->elastic          ? "plait-perf elastic"
                        : o->fusion         ? "plait-perf fusion"
                        : o->overlap        ? "--overlap"
                        : o->cycles != 1    ? "-N, which repeats with the same ranks"
                        : o->plot != NULL   ? "--plot, which draws one start"
                        : o->report != NULL ? "--report, which holds one start"
                        : o->csv != NULL    ? "--csv, which holds one start"
                        : o->launched       ? o->launch.launcher
                                            : NULL;

    return o->starts == 1 || other == NULL ||
           complain("--starts %llu does not go with %s; leave it out", (unsigned long long)o->starts, other);
}

/* COLLECTIVE:ALGORITHM is for a collective that is measured; training steps exchange by all-reduces. */
static bool check_named(const struct options *o)
{
    bool measured = o->algorithm_coll < 0 || ((o->elastic || o->fusion) && o->algorithm_coll == PLAIT_ALLREDUCE);

    for (uint32_t i = 0; i < o->ncoll && !o->elastic; i++)
        measured |= (int)collective_base(o->coll[i]->coll) == o->algorithm_coll;
    return measured || complain("%s %s:%s: no %s is measured; change it, or --coll", options_flag(o, "algo"),
                                plait_coll_name((enum plait_coll)o->algorithm_coll), o->algorithm,
                                plait_coll_name((enum plait_coll)o->algorithm_coll));
}

bool options_check(struct options *o)
{
    if (!check_launched(o) || !check_starts(o) || !check_named(o))
        return false;
    if (o->elastic)
        return check_elastic(o);
    if (!check_no_elastic(o))
        return false;

    if (!(o->fusion ? check_fusion : check_no_fusion)(o))
        return false;
    if (o->tensors == NULL && o->min_bytes > o->max_bytes)
        return complain("%s %llu is less than the smallest size, %llu; lower that with %s, or raise %s",
                        options_flag(o, "maxbytes"), (unsigned long long)o->max_bytes, (unsigned long long)o->min_bytes,
                        options_flag(o, "minbytes"), options_flag(o, "maxbytes"));
    if (o->step_factor == 1 && o->step_bytes == 0 && o->min_bytes < o->max_bytes)
        return complain("%s 0 never gets from the smallest size to the largest; use -f 2",
                        options_flag(o, "stepbytes"));
    if (o->per_iter_skip > 0 && !o->per_iter)
        return complain("%s %llu has no effect without -I 1; add -I 1", options_flag(o, "per_iter_skip"),
                        (unsigned long long)o->per_iter_skip);
    if (o->iterations > 0 && o->per_iter_skip >= o->iterations)
        return complain("%s %llu leaves no iteration of %s %llu; lower it", options_flag(o, "per_iter_skip"),
                        (unsigned long long)o->per_iter_skip, options_flag(o, "iters"),
                        (unsigned long long)o->iterations);
    if (o->iterations > o->rounds * STAGE_ITERATIONS)
        return complain(
            "%s %llu: at most %llu with --rounds %llu, as a round has at most %d iterations; raise --rounds",
            options_flag(o, "iters"), (unsigned long long)o->iterations,
            (unsigned long long)o->rounds * STAGE_ITERATIONS, (unsigned long long)o->rounds, STAGE_ITERATIONS);
    if (getenv("NCCL_TESTS_SPLIT") != NULL || getenv("NCCL_TESTS_SPLIT_MASK") != NULL)
        return complain("NCCL_TESTS_SPLIT is set: splitting into groups is not supported; unset it");
    if (o->root >= o->nrank)
        return complain("%s %llu: the last of %llu ranks is %llu", options_flag(o, "root"), (unsigned long long)o->root,
                        (unsigned long long)o->nrank, (unsigned long long)o->nrank - 1);
    if (o->overlap && !check_overlap(o))
        return false;
    if (!check_files(o) || (o->nodes != NULL && !expand_nodes(o)))
        return false;
    for (uint32_t i = 0; i < o->ncoll; i++)
        if (!check_collective(o, o->coll[i]) || !check_algorithm(o, o->coll[i]))
            return false;
    return true;
}
