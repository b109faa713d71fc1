/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operation runs. Small ones of at most 64 ranks on one host are eager (eager.c): one-shot or direct without the
 * engine. Of the others the model picks the algorithm (model.h). V-forms are direct if only sender and receiver know a
 * block's size.
 *
 * A rank receives at most 128 KiB in an eager operation. It sends (its IN) at most the following, and never more than
 * 32 KiB:
 *
 *   all-reduce of more than two ranks    8 KiB: there both paths take equally long (Zen 4, up to 8 ranks)
 *   other calls                          16 KiB (measured with 2 ranks on two processors, Zen 5, docs/performance.md)
 *   ranks that share processors          4 KiB times the number of ranks, if that is more: in the engine a rank waits
 *                                        for a further step or for readers until its processor runs them
 *   v-forms                              twice that; every block counts as the largest, or as the largest eager one
 *                                        if only two ranks know its size (split)
 */
#include "select.h"

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "eager/eager.h"
#include "operation/arguments.h"
#include "plan/plan_check.h"
#include "prog.h"

#include <plait/topology.h>

#include <stdio.h>
#include <string.h>

#define MOST_DIRECT     PLAIT_EAGER_RANKS /* ranks up to which all exchange messages with all */
#define MOST_EAGER      16384             /* bytes that a rank sends in an eager operation */
#define MOST_ONE_SHOT   8192      /* the same in an all-reduce of more than two ranks, which has two-shot for more */
#define MOST_EAGER_EACH 4096      /* the same for each rank of the comm, if ranks share processors */
#define MOST_READ       (1 << 17) /* bytes that a rank receives */
#define SMALLEST_SLICE  ((size_t)64 << 10)
#define LEAST_MESSAGE   ((size_t)64 << 10) /* of long chains: on fast networks, several times the latency */
#define LINK_RATE       4e9 /* bytes/s; slices last at least a paced link's latency, so a few in flight hide it */
#define OVERSUBSCRIBED  4   /* factor of the slice of moved blocks if ranks share processors */

struct plait_wish plait_wish_of(const struct plait_config *config, enum plait_coll coll, enum plait_op op, bool vform,
                                const struct plait_call *call)
{
    struct plait_wish w = { .spec_origin =
                                call->algorithm != NULL ? "asked for in the call" : "asked for by PLAIT_ALGO",
                            .slice = vform         ? 0
                                     : call->slice ? call->slice
                                                   : config->slice,
                            .round = call->round,
                            .reproducible = call->reproducible,
                            .average = op == PLAIT_AVG,
                            .user = call->user != NULL,
                            .ordered = call->user != NULL && !call->user->commutative,
                            .vform = vform,
                            .paced = plait_is_paced(&config->pace),
                            .latency = (double)config->pace.latency / 1e9 };

    if (call->algorithm != NULL)
        snprintf(w.spec, sizeof w.spec, "%s", call->algorithm);
    else
        plait_spec_for(config->algo, coll, w.spec);
    return w;
}

size_t plait_most_eager(enum plait_coll coll, uint32_t nrank, const struct plait_wish *w)
{
    const size_t shared = w->oversubscribed ? (size_t)nrank * MOST_EAGER_EACH : 0;
    size_t most = coll == PLAIT_ALLREDUCE && nrank > 2 ? MOST_ONE_SHOT : MOST_EAGER;

    if (w->paced || w->remote || w->device || nrank > MOST_DIRECT)
        return 0;
    most = (most < shared ? shared : most) * (w->vform ? 2 : 1);
    most = plait_eager_room(coll, nrank, most < PLAIT_EAGER_MAX ? most : PLAIT_EAGER_MAX, w->vform);
    return nrank > 1 && most > MOST_READ / (nrank - 1) ? MOST_READ / (nrank - 1) : most;
}

/* Is this small enough for the eager path? bytes: in v-forms of the largest block if all ranks know it, else 0. */
static bool fits_eager(enum plait_coll coll, uint32_t nrank, size_t bytes, const struct plait_wish *w)
{
    const size_t most = plait_most_eager(coll, nrank, w);

    return most > 0 && bytes <= most && !(w->vform && bytes == 0);
}

bool plait_has_nodes(const uint32_t *node, uint32_t nrank)
{
    for (uint32_t r = 1; node != NULL && r < nrank; r++)
        if (node[r] != node[0])
            return true;
    return false;
}

/* Is it a library plan that eager.c implements? A caller's algorithm of the same name runs as its plan says. */
static bool is_one_step(const struct plait_alg *alg)
{
    return plait_is_of_library(alg) && (strcmp(alg->name, "one-shot") == 0 || strcmp(alg->name, "direct") == 0);
}

/* Sets *spec, out->why and out->pick. bytes: of the block that one rank sends another, or of the vector. */
static enum plait_status choose(const struct plait_shape *shape, size_t bytes, const struct plait_wish *w,
                                struct plait_selection *out, const char **spec)
{
    const bool vector = shape->coll == PLAIT_ALLREDUCE || shape->coll == PLAIT_BARRIER,
               canonical = w->reproducible || w->ordered;
    const struct plait_geometry g = plait_geometry_of(shape->coll, 1, 0, 0, 1);
    enum plait_status status = PLAIT_OK;

    if (w->spec[0] != '\0') {
        *spec = w->spec;
        out->why = w->spec_origin;
    } else if (fits_eager(shape->coll, shape->nrank, bytes, w)) {
        *spec = vector ? "one-shot" : "direct";
        out->why = PLAIT_WHY_EAGER;
    } else if (w->vform && !plait_all_know_sizes(&g)) {
        *spec = "direct";
        out->why = "only sender and receiver know a block's size: each has its own message";
    } else if ((status = plait_model_pick(w->model, shape, bytes, canonical, w->device, &out->pick)) == PLAIT_OK) {
        *spec = out->pick->candidates[0].algorithm;
        out->why = out->pick->why;
    }
    return status;
}

static enum plait_round choose_round(const struct plait_alg *alg, enum plait_dtype type, bool combines,
                                     const struct plait_wish *w)
{
    if (!combines || !plait_rounds(type) || w->user)
        return PLAIT_ROUND_DEFAULT;
    if (w->round != PLAIT_ROUND_DEFAULT)
        return w->round;
    return alg->no_partials || w->reproducible ? PLAIT_ROUND_ONCE : PLAIT_ROUND_HOP;
}

/*
 * Must an average divide its inputs? If its partial sums stay in a 16- or 8-bit type, they could overflow where fp32
 * would not. bfloat16 has the range of fp32, so it divides the result, as float32 does.
 */
static bool divides(enum plait_dtype type, enum plait_round round, uint32_t nrank, const struct plait_wish *w)
{
    return w->average && round == PLAIT_ROUND_HOP && nrank > 1 && type != PLAIT_BFLOAT16;
}

/*
 * Elements per slice, of the vector or of every block: about half of `cache` in all, each block a whole number of cache
 * lines. Blocks that oversubscribed ranks only move get fewer slices, since each slice may cost a context switch. Long
 * chains of messages over a network get fewer, too: with more messages between two ranks than may be in flight, slices
 * run one after the other, and each takes the chain's latency.
 */
static size_t choose_slice(const struct plait_shape *shape, const struct plait_claim *claim, size_t size,
                           const struct plait_wish *w)
{
    const struct plait_geometry geometry = plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1);
    const size_t unit = geometry.kind == PLAIT_KIND_VECTOR ? PLAIT_LINE * (size_t)claim->nblk : PLAIT_LINE;
    size_t bytes = w->slice ? w->slice : w->cache / 2;

    if (w->slice == 0 && bytes < SMALLEST_SLICE)
        bytes = SMALLEST_SLICE;
    if (w->slice == 0 && w->remote && claim->depth > PLAIT_WINDOW && bytes < LEAST_MESSAGE * claim->nblk)
        bytes = LEAST_MESSAGE * (size_t)claim->nblk;
    if (w->slice == 0 && bytes < w->latency * LINK_RATE)
        bytes = (size_t)(w->latency * LINK_RATE);
    if (w->slice == 0)
        bytes = bytes < unit ? unit : bytes / unit * unit;
    if (w->slice == 0 && w->oversubscribed && !w->remote && geometry.kind != PLAIT_KIND_VECTOR && !geometry.combines)
        bytes *= OVERSUBSCRIBED;
    if (geometry.kind != PLAIT_KIND_VECTOR)
        bytes = w->slice ? bytes / shape->nrank : (bytes / shape->nrank + PLAIT_LINE - 1) / PLAIT_LINE * PLAIT_LINE;
    return bytes < size ? 1 : bytes / size;
}

/*
 * Are the blocks of a v-form cut into slices? Yes if all ranks know all sizes. Else sender and receiver cut their block
 * alike, but only on one host and in host memory.
 */
static bool cuts_vform(const struct plait_geometry *g, const struct plait_wish *w)
{
    return plait_all_know_sizes(g) || (!w->remote && !w->device);
}

static uint64_t hash_of(const struct plait_shape *shape, const struct plait_selection *s)
{
    uint64_t h = plait_hash(PLAIT_HASH_START, s->spec, strlen(s->spec) + 1);
    const uint64_t numbers[] = { shape->coll, shape->nrank, shape->root,         s->slice,     s->round, s->eager,
                                 s->split,    s->whole,     shape->node != NULL, shape->nlevel };

    h = plait_hash(h, numbers, sizeof numbers);
    h = shape->nlevel > 0 ? plait_hash(h, shape->level, shape->nlevel * shape->nrank * sizeof *shape->level) : h;
    return shape->node != NULL ? plait_hash(h, shape->node, shape->nrank * sizeof *shape->node) : h;
}

enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *w, struct plait_selection *out)
{
    const size_t size = plait_dtype_size(type), bytes = count * size;
    const struct plait_geometry geometry = plait_geometry_of(shape->coll, 1, 0, 0, 1);
    struct plait_selection s = { 0 };
    const char *spec = NULL;
    bool inplace = shape->inplace;

    shape->vform = w->vform;
    shape->inplace = false; /* whether an algorithm fits does not depend on it */
    enum plait_status status = choose(shape, bytes, w, &s, &spec);
    if (status == PLAIT_OK)
        status = plait_alg_find(w->algorithms, spec, shape, &s.alg);
    if (status != PLAIT_OK)
        return status;
    if ((w->reproducible || w->ordered) && geometry.combines && !s.alg->canonical)
        return plait_fail(
            PLAIT_ERR_CONFIG, "algorithm '%s' does not combine in the canonical order, but %s; use %s", spec,
            w->ordered ? "call->user is not commutative, so it needs the order of the ranks"
                       : "reproducible results are asked for",
            shape->coll == PLAIT_ALLREDUCE ? "one-shot, two-shot, binomial or halving-doubling" : "direct");
    snprintf(s.spec, sizeof s.spec, "%s%s", s.alg->name, spec + strcspn(spec, ":")); /* "Ring" is "ring" */
    s.round = choose_round(s.alg, type, geometry.combines, w);
    s.divides = divides(type, s.round, shape->nrank, w);
    s.whole = w->device && w->spec[0] == '\0' && w->round != PLAIT_ROUND_HOP && !s.divides;
    if (s.divides)
        inplace = plait_scales_inplace(shape->coll);
    shape->inplace = inplace && plait_is_of_library(s.alg); /* no rank knows which others work in place */
    s.eager = is_one_step(s.alg) && fits_eager(shape->coll, shape->nrank, bytes, w) && w->slice == 0 &&
              s.round != PLAIT_ROUND_HOP;
    if (w->vform && !s.eager && is_one_step(s.alg) && !plait_all_know_sizes(&geometry) && shape->nrank > 2)
        for (s.split = MOST_READ; s.split > plait_most_eager(shape->coll, shape->nrank, w);)
            s.split /= 2;
    const struct plait_shape common = plait_common_shape(shape);
    const struct plait_claim claim = s.alg->claim(s.alg, &common);
    if (plait_claim_fault(&claim) != NULL)
        return plait_fail(PLAIT_ERR_PLAN, "algorithm '%s': the claim's %s", spec, plait_claim_fault(&claim));
    s.slice = w->vform && !cuts_vform(&geometry, w) ? SIZE_MAX : choose_slice(shape, &claim, size, w);
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

enum plait_status plait_cannot_differ(const char *spec)
{
    return plait_fail(PLAIT_ERR_CONFIG,
                      "algorithm '%s' moves several blocks in one message, so all must be equally big; use direct",
                      spec);
}

/* ---- plait_comm_choose(), plait_choose(): what would run, and why, in a comm or without one --------- */

void plait_explain(const struct plait_selection *s, enum plait_coll coll, size_t size, struct plait_choice *out)
{
    const bool combines = plait_geometry_of(coll, 1, 0, 0, 1).combines;

    *out = (struct plait_choice){ .slice = s->slice > SIZE_MAX / size ? SIZE_MAX : s->slice * size,
                                  .nslice = s->nslice,
                                  .round = s->round,
                                  .plan_hash = s->plan_hash };
    if (s->pick != NULL) {
        out->timed = s->pick->bytes;
        out->ncandidate = s->pick->n;
        memcpy(out->candidate, s->pick->candidates, s->pick->n * sizeof *out->candidate);
    }
    const struct plait_candidate *const c = out->candidate;
    const bool tied = out->ncandidate > 1 && c[0].measured == 0 && c[0].predicted > c[1].predicted;
    snprintf(out->algorithm, sizeof out->algorithm, "%s", s->spec);
    snprintf(out->path, sizeof out->path, "%s", s->eager ? "eager" : s->split > 0 ? "eager and engine" : "engine");
    snprintf(out->why, sizeof out->why, "%s%s%s%s", tied ? "one of " : "", s->why,
             tied ? "; within an eighth the canonical order decides, then few steps in a row" : "",
             !combines && !s->eager && out->slice >= PLAIT_LEAST_ONCE
                 ? "; buffers outside library memory are copied through staging buffers or the kernel (PLAIT_CMA)"
                 : "");
}

/* Select for a v-form with blocks of at most `most` elements, as collv.c does. */
static enum plait_status select_vform(struct plait_shape *shape, size_t most, enum plait_dtype type,
                                      const struct plait_wish *w, struct plait_selection *s)
{
    const struct plait_geometry g = plait_geometry_of(shape->coll, 1, 0, 0, 1);
    const size_t known = plait_all_know_sizes(&g) || shape->nrank == 2 ? most : 0, many = plait_vform_count(&g, known);
    const bool small = fits_eager(shape->coll, shape->nrank, known * plait_dtype_size(type), w);
    enum plait_status status = plait_select(shape, small ? known : many, type, w, s);

    if (status == PLAIT_OK && small && !s->eager)
        status = plait_select(shape, many, type, w, s);
    if (status == PLAIT_OK && !s->eager)
        status = plait_moves_whole_blocks(s->alg, shape);
    if (status == PLAIT_OK && most > 0)
        s->nslice = (most - 1) / s->slice + 1;
    if (status == PLAIT_OK && most > 0 && most * plait_dtype_size(type) <= s->split) {
        s->eager = true; /* for all ranks */
        s->why = PLAIT_WHY_EAGER;
    }
    return status;
}

/* Checks the arguments, and sets collective, root and form in *runs as the plan runs. nrank: of the comm. */
static enum plait_status check(const char *function, const struct plait_kernels *kernels,
                               const struct plait_shape *shape, uint32_t nrank, size_t count, enum plait_dtype type,
                               enum plait_op op, const struct plait_call *call, struct plait_shape *runs)
{
    if ((unsigned)shape->coll >= PLAIT_NCOLL || nrank == 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: shape has %u ranks and collective %d", function, nrank, (int)shape->coll);
    const struct plait_geometry g = plait_geometry_of(shape->coll, 1, 0, 0, 1);
    if (shape->vform && g.kind == PLAIT_KIND_VECTOR)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s has no form with blocks of different sizes", function,
                          plait_coll_name(shape->coll));
    runs->coll = shape->coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : shape->coll;
    runs->root = g.rooted ? shape->root : 0;
    runs->inplace = plait_works_inplace(shape->coll, shape->inplace, call) && (!shape->vform || g.rooted);
    return plait_check_operation(
        kernels, plait_coll_name(shape->coll), nrank,
        &(struct plait_args){ .coll = shape->coll, .type = type, .op = op, .root = runs->root, .count = count }, call);
}

static enum plait_status select_and_explain(struct plait_shape *shape, size_t count, enum plait_dtype type,
                                            const struct plait_wish *w, struct plait_choice *out)
{
    struct plait_selection s;
    const enum plait_status status = (w->vform ? select_vform : plait_select)(shape, count, type, w, &s);

    if (status == PLAIT_OK)
        plait_explain(&s, shape->coll, plait_dtype_size(type), out);
    return status;
}

enum plait_status plait_comm_choose(const struct plait_comm *comm, const struct plait_shape *shape, size_t count,
                                    enum plait_dtype type, enum plait_op op, const struct plait_call *call,
                                    struct plait_choice *out)
{
    if (comm == NULL || shape == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_choose: %s is NULL",
                          comm == NULL    ? "comm"
                          : shape == NULL ? "shape"
                                          : "out");
    if (plait_comm_uncreated(comm))
        return plait_comm_is_closed(comm, "plait_comm_choose");
    struct plait_shape runs = {
        .nrank = comm->nrank, .node = comm->node, .nlevel = comm->nlevel, .level = comm->level
    };
    const enum plait_status status =
        check("plait_comm_choose", comm->kernels, shape, comm->nrank, count, type, op, call, &runs);
    if (status != PLAIT_OK)
        return status;
    const struct plait_wish w =
        plait_comm_wish(comm, shape->coll, op, shape->vform, &plait_host_space, call != NULL ? call : &plait_no_wishes);
    return select_and_explain(&runs, count, type, &w, out);
}

enum plait_status plait_choose(const struct plait_shape *shape, size_t count, enum plait_dtype type, enum plait_op op,
                               const struct plait_call *call, struct plait_choice *out)
{
    struct plait_config config;
    const struct plait_alg *const *algorithms;
    struct plait_topology topology;
    struct plait_tuning tuning;
    char path[PLAIT_TUNING_PATH];
    enum plait_status status;

    if (shape == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_choose: %s is NULL", shape == NULL ? "shape" : "out");
    struct plait_shape runs = *shape;
    status = check("plait_choose", plait_kernels_find(""), shape, shape->nrank, count, type, op, call, &runs);
    if (status == PLAIT_OK)
        status = plait_config_load(&config);
    if (status == PLAIT_OK)
        status = plait_alg_list(&algorithms);
    if (status != PLAIT_OK)
        return status;
    struct plait_wish w = plait_wish_of(&config, shape->coll, op, shape->vform, call != NULL ? call : &plait_no_wishes);
    plait_topology_get(&topology);
    w.algorithms = algorithms;
    w.cache = topology.l2;
    w.remote = plait_has_nodes(shape->node, shape->nrank);
    const struct plait_model_options o = { .nrank = shape->nrank,
                                           .algorithms = algorithms,
                                           .node = shape->node,
                                           .nlevel = shape->nlevel,
                                           .level = shape->level,
                                           .processors = topology.ncpu,
                                           .cache = topology.l2,
                                           .pace = config.pace };
    status = plait_model_create(&o, &w.model);
    if (status != PLAIT_OK)
        return status;
    w.oversubscribed = plait_model_is_crowded(w.model);
    plait_model_tune(w.model, config.tuning, shape, path, &tuning);
    plait_model_use(w.model, &tuning);
    status = select_and_explain(&runs, count, type, &w, out);
    plait_model_destroy(w.model);
    return status;
}
