/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule, on one machine. All sizes are those of the whole vector.
 *
 * All-reduce and barrier:
 *
 *   tiny (see below)                     one-shot, without the engine
 *   at most 64 ranks                     two-shot: every byte is combined once and crosses once
 *   more ranks, up to 64 KiB             binomial: fewest messages
 *   more ranks                           halving-doubling: two-shot's volume in log P messages
 *
 * The others: at most 64 ranks direct (everyone reads what it needs where it lies, one step); more ranks
 *
 *   reduce-scatter                       ring
 *   all-gather, all-to-all               up to 4 KiB of each rank bruck, then ring and direct
 *   the rooted ones                      binomial
 *
 * All of them but the ring combine in the canonical order; `reproducible` asks for direct in its place.
 *
 * Tiny: at most 64 ranks and 8 KiB; when ranks share processors 2 KiB per rank if that is more (and 32 KiB at most),
 * as a further step costs every rank a turn on its processor, one after the other; and at most 128 KiB read from
 * others per rank. All were measured on one processor (Zen 4, 2 cores, 2 to 8 ranks); near them both ways take
 * equally long.
 */
#include "arguments.h"
#include "comm.h"
#include "hash.h"
#include "status.h"

#include <plait/topology.h>

#include <stdio.h>
#include <string.h>

#define MOST_DIRECT    PLAIT_TINY_RANKS /* ranks that all talk to each other */
#define MOST_TINY      8184
#define MOST_SHARING   2048      /* bytes per rank, when ranks share processors */
#define MOST_READ      (1 << 17) /* bytes of other ranks' vectors read in one tiny operation */
#define MOST_BINOMIAL  (1 << 16) /* bytes */
#define MOST_FEW       4096      /* bytes */
#define SMALLEST_SLICE ((size_t)64 << 10)
#define ONE_WAY        16 /* slices of a vector that goes one way */

static bool fits_tiny(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w)
{
    size_t most = MOST_TINY;

    if (w->oversubscribed && (size_t)shape->nrank * MOST_SHARING > most)
        most = (size_t)shape->nrank * MOST_SHARING;
    return !w->paced && shape->nrank <= MOST_DIRECT && bytes <= most && bytes <= PLAIT_TINY_MAX &&
           bytes * (shape->nrank - 1) <= MOST_READ;
}

static const char *allreduce_by_size(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w,
                                     const char **why)
{
    if (fits_tiny(shape, bytes, w)) {
        *why = "tiny: everyone reads everyone, one step";
        return "one-shot";
    }
    if (shape->nrank <= MOST_DIRECT) {
        *why =
            "at most 64 ranks on one machine: owners combine their block straight from the others' memory, two steps";
        return "two-shot";
    }
    if (bytes <= MOST_BINOMIAL) {
        *why = "more than 64 ranks, small: fewest messages";
        return "binomial";
    }
    *why = "more than 64 ranks: least volume in logarithmic depth";
    return "halving-doubling";
}

/* `bytes` of what one rank gives or gets of another, or of the vector. */
static const char *by_size(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w, const char **why)
{
    const bool few = bytes <= MOST_FEW && !w->sized;

    if (shape->coll == PLAIT_ALLREDUCE || shape->coll == PLAIT_BARRIER)
        return allreduce_by_size(shape, bytes, w, why);
    if (w->sized && shape->coll != PLAIT_REDUCE_SCATTER && shape->coll != PLAIT_ALLGATHER) {
        *why = "blocks of different sizes: each has its own message";
        return "direct";
    }
    if (shape->nrank <= MOST_DIRECT || (shape->coll == PLAIT_REDUCE_SCATTER && (w->reproducible || w->ordered))) {
        *why = "everyone reads what it needs where it lies, one step";
        return "direct";
    }
    switch (shape->coll) {
    case PLAIT_REDUCE_SCATTER:
        *why = "more than 64 ranks: one neighbour each";
        return "ring";
    case PLAIT_ALLGATHER:
        *why = few ? "more than 64 ranks, small: fewest messages" : "more than 64 ranks: one neighbour each";
        return few ? "bruck" : "ring";
    case PLAIT_ALLTOALL:
        *why = few ? "more than 64 ranks, small: fewest messages" : "more than 64 ranks: every block crosses once";
        return few ? "bruck" : "direct";
    default:
        *why = "more than 64 ranks: the root talks to the logarithm of them";
        return "binomial";
    }
}

static bool rounds(enum plait_dtype type)
{
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 || type == PLAIT_FLOAT8E5M2;
}

static enum plait_round choose_round(const struct plait_alg *alg, enum plait_dtype type, bool combines,
                                     const struct plait_wish *w)
{
    if (!combines || !rounds(type) || w->user)
        return PLAIT_ROUND_DEFAULT;
    if (w->round != PLAIT_ROUND_DEFAULT)
        return w->round;
    return alg->no_partials || w->reproducible ? PLAIT_ROUND_ONCE : PLAIT_ROUND_HOP;
}

/*
 * Elements per slice, of the vector or of every block: about half of `cache` in all, each block a whole number of cache
 * lines. Where a vector goes one way, from or to a root, one rank stages while the other takes: several slices.
 */
static size_t choose_slice(const struct plait_shape *shape, const struct plait_alg *alg, size_t count, size_t size,
                           const struct plait_wish *w)
{
    const struct plait_geometry geometry = plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1);
    const size_t unit =
        geometry.kind == PLAIT_KIND_VECTOR ? PLAIT_LINE * (size_t)alg->claim(alg, shape).nblk : PLAIT_LINE;
    const bool one_way = geometry.rooted && geometry.kind == PLAIT_KIND_VECTOR;
    const size_t smallest = one_way ? SMALLEST_SLICE / 4 : SMALLEST_SLICE;
    size_t bytes = w->slice ? w->slice : w->cache / 2;

    if (w->slice == 0 && one_way && count * size / ONE_WAY < bytes)
        bytes = count * size / ONE_WAY;
    if (w->slice == 0 && bytes < smallest)
        bytes = smallest;
    if (w->slice == 0)
        bytes = bytes < unit ? unit : bytes / unit * unit;
    if (geometry.kind != PLAIT_KIND_VECTOR)
        bytes = w->slice ? bytes / shape->nrank : (bytes / shape->nrank + PLAIT_LINE - 1) / PLAIT_LINE * PLAIT_LINE;
    return bytes < size ? 1 : bytes / size;
}

static uint64_t hash_of(const struct plait_shape *shape, const struct plait_selection *s)
{
    const bool rooted = plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1).rooted;
    uint64_t h = plait_hash(PLAIT_HASH_START, s->spec, strlen(s->spec) + 1);
    const uint64_t numbers[] = { shape->coll, shape->nrank, shape->root, !rooted && shape->inplace,
                                 s->slice,    s->round,     s->tiny,     shape->node != NULL };

    h = plait_hash(h, numbers, sizeof numbers);
    return shape->node != NULL ? plait_hash(h, shape->node, shape->nrank * sizeof *shape->node) : h;
}

enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *w, struct plait_selection *out)
{
    struct plait_selection s = { .why = w->spec_origin };
    const size_t size = plait_dtype_size(type), bytes = count * size;
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    const char *spec = w->spec[0] != '\0' ? w->spec : by_size(shape, bytes, w, &s.why);
    enum plait_status status = plait_alg_find(w->algorithms, spec, shape, &s.alg);

    if (status != PLAIT_OK)
        return status;
    if ((w->reproducible || w->ordered) && combines && !s.alg->canonical)
        return plait_fail(
            PLAIT_ERR_CONFIG, "algorithm '%s' does not combine in the canonical order, but %s; use %s", spec,
            w->ordered ? "call->user is not commutative, so it needs the order of the ranks"
                       : "reproducible results are asked for",
            shape->coll == PLAIT_ALLREDUCE ? "one-shot, two-shot, binomial or halving-doubling" : "direct");
    snprintf(s.spec, sizeof s.spec, "%s", spec);
    s.round = choose_round(s.alg, type, combines, w);
    s.tiny = strcmp(s.alg->name, "one-shot") == 0 && fits_tiny(shape, bytes, w) && w->slice == 0 &&
             s.round != PLAIT_ROUND_HOP;
    s.slice = choose_slice(shape, s.alg, count, size, w);
    s.nslice = count == 0 ? 1 : (count - 1) / s.slice + 1;
    s.plan_hash = hash_of(shape, &s);
    *out = s;
    return PLAIT_OK;
}

void plait_spec_for(const char *setting, enum plait_coll coll, char spec[PLAIT_MAX_SPEC])
{
    const char *name = plait_coll_name(coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : coll);
    const size_t n = strlen(name);

    spec[0] = '\0';
    if (strncmp(setting, name, n) == 0 && setting[n] == ':')
        snprintf(spec, PLAIT_MAX_SPEC, "%s", setting + n + 1);
}

void plait_explain(const struct plait_selection *s, size_t size, struct plait_choice *out)
{
    *out = (struct plait_choice){
        .slice = s->slice * size, .nslice = s->nslice, .round = s->round, .plan_hash = s->plan_hash
    };
    snprintf(out->algorithm, sizeof out->algorithm, "%s", s->spec);
    snprintf(out->path, sizeof out->path, "%s", s->tiny ? "tiny" : "engine");
    snprintf(out->why, sizeof out->why, "%s", s->why);
}

enum plait_status plait_choose(const struct plait_shape *shape, size_t count, enum plait_dtype type, enum plait_op op,
                               const struct plait_call *call, struct plait_choice *out)
{
    struct plait_config config;
    struct plait_topology topology;
    struct plait_shape copy;
    struct plait_selection s;
    struct plait_wish w = { .algorithms = plait_algs, .spec_origin = "asked for in the call" };
    char spec[PLAIT_MAX_SPEC];
    enum plait_status status;

    if (shape == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_choose: %s is NULL", shape == NULL ? "shape" : "out");
    if (shape->nrank == 0 || (unsigned)shape->coll >= PLAIT_NCOLL)
        return plait_fail(PLAIT_ERR_ARG, "plait_choose: shape has %u ranks and collective %d", shape->nrank,
                          (int)shape->coll);
    copy = *shape;
    status = plait_check_operation(plait_kernels_find(""), shape->coll, shape->nrank, count, type, op, call);
    if (status == PLAIT_OK)
        status = plait_config_load(&config);
    if (status != PLAIT_OK)
        return status;
    plait_spec_for(config.algo, shape->coll, spec);
    plait_topology_get(&topology);
    w.cache = topology.l2;
    w.oversubscribed = shape->nrank > topology.ncpu;
    w.slice = call != NULL && call->slice ? call->slice : config.slice;
    w.round = call != NULL ? call->round : PLAIT_ROUND_DEFAULT;
    w.reproducible = call != NULL && call->reproducible;
    w.paced = plait_is_paced(&config.pace);
    w.user = op == PLAIT_USER;
    w.ordered = call != NULL && w.user && !call->user->commutative;
    w.spec = call != NULL && call->algorithm != NULL ? call->algorithm : spec;
    if (w.spec == spec)
        w.spec_origin = "asked for by PLAIT_ALGO";
    copy.coll = shape->coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : shape->coll;
    copy.inplace = plait_works_inplace(shape->coll, shape->inplace, call);
    status = plait_select(&copy, count, type, &w, &s);
    if (status == PLAIT_OK)
        plait_explain(&s, plait_dtype_size(type), out);
    return status;
}
