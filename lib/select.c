/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule, on one machine. All sizes are those of the whole vector.
 *
 *   tiny (see below)                     one-shot, without the engine
 *   at most 64 ranks                     two-shot: every byte is combined once and crosses once
 *   more ranks, up to 64 KiB             binomial: fewest messages
 *   more ranks                           halving-doubling: two-shot's volume in log P messages
 *
 * All of them combine in the canonical order, so `reproducible` changes nothing here.
 *
 * Tiny: at most 64 ranks and 8 KiB; when ranks share processors 2 KiB per rank if that is more (and 32 KiB at most),
 * as a further step costs every rank a turn on its processor, one after the other; and at most 128 KiB read from
 * others per rank. All were measured on one processor (Zen 4, 2 cores, 2 to 8 ranks); near them both ways take
 * equally long.
 */
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
#define SMALLEST_SLICE ((size_t)64 << 10)

static bool fits_tiny(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w)
{
    size_t most = MOST_TINY;

    if (w->oversubscribed && (size_t)shape->nrank * MOST_SHARING > most)
        most = (size_t)shape->nrank * MOST_SHARING;
    return shape->nrank <= MOST_DIRECT && bytes <= most && bytes <= PLAIT_TINY_MAX &&
           bytes * (shape->nrank - 1) <= MOST_READ;
}

static const char *by_size(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w, const char **why)
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

static bool rounds(enum plait_dtype type)
{
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 || type == PLAIT_FLOAT8E5M2;
}

static enum plait_round choose_round(const struct plait_alg *alg, enum plait_dtype type, const struct plait_wish *w)
{
    if (!rounds(type) || w->user)
        return PLAIT_ROUND_DEFAULT;
    if (w->round != PLAIT_ROUND_DEFAULT)
        return w->round;
    return alg->no_partials || w->reproducible ? PLAIT_ROUND_ONCE : PLAIT_ROUND_HOP;
}

/* Elements per slice: about half of `cache`, each block a whole number of cache lines. */
static size_t choose_slice(const struct plait_shape *shape, const struct plait_alg *alg, size_t size,
                           const struct plait_wish *w)
{
    const size_t unit = PLAIT_LINE * (size_t)alg->claim(alg, shape).nblk;
    size_t bytes = w->slice ? w->slice : w->cache / 2;

    if (w->slice == 0 && bytes < SMALLEST_SLICE)
        bytes = SMALLEST_SLICE;
    if (w->slice == 0)
        bytes = bytes < unit ? unit : bytes / unit * unit;
    return bytes < size ? 1 : bytes / size;
}

static uint64_t hash_of(const struct plait_shape *shape, const struct plait_selection *s)
{
    uint64_t h = plait_hash(PLAIT_HASH_START, s->spec, strlen(s->spec) + 1);
    const uint64_t numbers[] = { shape->coll, shape->nrank, shape->inplace,     s->slice,
                                 s->round,    s->tiny,      shape->node != NULL };

    h = plait_hash(h, numbers, sizeof numbers);
    return shape->node != NULL ? plait_hash(h, shape->node, shape->nrank * sizeof *shape->node) : h;
}

enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *w, struct plait_selection *out)
{
    struct plait_selection s = { .why = w->spec_origin };
    const size_t size = plait_dtype_size(type), bytes = count * size;
    const char *spec = w->spec[0] != '\0' ? w->spec : by_size(shape, bytes, w, &s.why);
    enum plait_status status = plait_alg_find(w->algorithms, spec, shape, &s.alg);

    if (status != PLAIT_OK)
        return status;
    if ((w->reproducible || w->ordered) && !s.alg->canonical)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "algorithm '%s' does not combine in the canonical order, but %s; use one-shot, two-shot, "
                          "binomial or halving-doubling",
                          spec,
                          w->ordered ? "call->user is not commutative, so it needs the order of the ranks"
                                     : "reproducible results are asked for");
    snprintf(s.spec, sizeof s.spec, "%s", spec);
    s.round = choose_round(s.alg, type, w);
    s.tiny = strcmp(s.alg->name, "one-shot") == 0 && fits_tiny(shape, bytes, w) && w->slice == 0 &&
             s.round != PLAIT_ROUND_HOP;
    s.slice = choose_slice(shape, s.alg, size, w);
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
    status = plait_check_operation(plait_kernels_find(""), count, type, op, call);
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
    w.user = op == PLAIT_USER;
    w.ordered = w.user && !call->user->commutative;
    w.spec = call != NULL && call->algorithm != NULL ? call->algorithm : spec;
    if (w.spec == spec)
        w.spec_origin = "asked for by PLAIT_ALGO";
    copy.coll = PLAIT_ALLREDUCE;
    status = plait_select(&copy, count, type, &w, &s);
    if (status == PLAIT_OK)
        plait_explain(&s, plait_dtype_size(type), out);
    return status;
}
