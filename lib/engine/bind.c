/* SPDX-License-Identifier: BSD-3-Clause */
#include "operate.h"

#include "base/log.h"
#include "base/status.h"
#include "eager/eager.h"
#include "failure/failure.h"
#include "plan/plan_check.h"
#include "prog.h"
#include "select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plait_wish plait_comm_wish(const struct plait_comm *comm, enum plait_coll coll, enum plait_op op, bool vform,
                                  const struct plait_space *space, const struct plait_call *call)
{
    struct plait_wish w = plait_wish_of(&comm->config, coll, op, vform, call);

    w.algorithms = comm->algorithms;
    w.model = comm->model;
    w.cache = comm->cache;
    w.round = w.round != PLAIT_ROUND_DEFAULT ? w.round : comm->round;
    w.reproducible |= comm->reproducible;
    w.oversubscribed = comm->processors > 0 && space->host;
    w.device = !space->host;
    w.remote = comm->remote != NULL || plait_has_nodes(comm->node, comm->nrank);
    return w;
}

size_t plait_most_eager_block(struct plait_comm *comm, enum plait_coll coll)
{
    if (comm->most_eager[coll] == 0) {
        const struct plait_wish wish =
            plait_comm_wish(comm, coll, PLAIT_SUM, true, &plait_host_space, &plait_no_wishes);
        comm->most_eager[coll] = plait_most_eager(coll, comm->nrank, &wish) + 1;
    }
    return comm->most_eager[coll] - 1;
}

/* A comm has one team beside that of all ranks (device_whole.c). */
static enum plait_status find_team_model(struct plait_comm *comm, const struct plait_team *team,
                                         struct plait_model **out)
{
    const struct plait_model_options o = {
        .nrank = team->n, .algorithms = comm->algorithms, .node = team->node, .cache = comm->cache
    };
    enum plait_status status = PLAIT_OK;

    if (comm->team_model == NULL)
        status = plait_model_create(&o, &comm->team_model);
    *out = comm->team_model;
    return status;
}

/* A barrier runs as an all-reduce of zero elements. */
static struct plait_shape shape_of(const struct plait_team *team, enum plait_coll coll, uint32_t root, bool inplace)
{
    return (struct plait_shape){ .coll = coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : coll,
                                 .nrank = team->n,
                                 .root = root,
                                 .inplace = inplace,
                                 .node = team->node,
                                 .nlevel = team->nlevel,
                                 .level = team->level };
}

/* A comm has one team beside that of all ranks (device_whole.c), so a number of ranks stands for one team. */
static enum plait_status find_prog(struct plait_comm *comm, const struct plait_team *team,
                                   const struct plait_shape *shape, const struct plait_selection *s, bool average,
                                   struct plait_prog **out)
{
    for (struct plait_prog *p = comm->progs; p != NULL; p = p->next)
        if (p->alg == s->alg && p->nrank == team->n && p->root == shape->root && p->inplace == shape->inplace &&
            p->round == s->round && p->average == average && strcmp(p->spec, s->spec) == 0) {
            *out = p;
            return PLAIT_OK;
        }
    const struct plait_shape common = plait_common_shape(shape);
    struct plait_proof proof = { .hash = 0 };
    struct plait_report report;
    struct plait_prog *fresh = NULL;
    comm->stats.allocations++;
    enum plait_status status = PLAIT_OK;
    if (comm->config.check)
        status = plait_alg_check(s->alg, shape, NULL);
    else if (!plait_is_of_library(s->alg) && team->n <= PLAIT_MOST_PROVED)
        status = plait_alg_prove(s->alg, &common, NULL, &report);
    if (status == PLAIT_OK)
        status = plait_prog_create(s->alg, s->spec, shape, team->me, s->round, average, &proof, &fresh);
    if (status != PLAIT_OK) {
        plait_prog_destroy(fresh);
        return status;
    }
    fresh->next = comm->progs;
    *out = comm->progs = fresh;
    return PLAIT_OK;
}

/* All of it is equal on all ranks of a call. */
static void describe(struct plait_op_plan *o)
{
    o->what = (struct plait_what){
        .count = o->count,
        .settings = (uint32_t)(o->selection.plan_hash ^ o->selection.plan_hash >> 32),
        .plans = o->prog != NULL ? (uint32_t)(o->prog->hash ^ o->prog->hash >> 32) : 0,
        .coll = (uint8_t)o->coll,
        .type = (uint8_t)o->type,
        .op = (uint8_t)o->op,
        .ordered = o->call.user != NULL && !o->call.user->commutative,
        .vform = o->vform,
        .root = (uint16_t)o->root,
        .space = o->space->id & 31,
        .mark = o->call.mark,
    };
    memcpy(o->what.algorithm, o->selection.spec, sizeof o->what.algorithm - 1);
    o->fingerprint = plait_fingerprint(&o->what, sizeof o->what);
}

/* Copy what is needed of call.user: the caller's struct is not kept. */
static void describe_how(struct plait_op_plan *o, uint32_t nrank)
{
    const struct plait_user_op *user = o->call.user;

    o->inner = (struct plait_how){ .type = o->type };
    if (user != NULL) {
        o->inner.combine = user->combine;
        o->inner.context = user->context;
    }
    o->last = o->inner;
    o->last.divisor = o->op == PLAIT_AVG && !o->selection.divides ? nrank : 0;
}

/* The counter of its runs, which lives as long as the comm. */
static struct plait_tally *find_tally(struct plait_comm *comm, const struct plait_op_plan *o)
{
    struct plait_tally **at = &comm->tallies;

    while (*at != NULL && ((*at)->count.coll != o->coll || strcmp((*at)->count.algorithm, o->selection.spec) != 0))
        at = &(*at)->next;
    if (*at != NULL)
        return *at;
    comm->stats.allocations++;
    *at = calloc(1, sizeof **at);
    if (*at == NULL)
        return NULL;
    (*at)->count.coll = o->coll;
    memcpy((*at)->count.algorithm, o->selection.spec, sizeof(*at)->count.algorithm);
    return *at;
}

static void log_choice(const struct plait_comm *comm, const struct plait_op_plan *o)
{
    struct plait_choice c;
    char root[24] = "";

    plait_explain(&o->selection, o->coll, o->size, &c);
    if (o->geometry.rooted)
        snprintf(root, sizeof root, ", root %u", o->root);
    plait_comm_log(comm, PLAIT_LOG_DEBUG, "%s%s of %s%zu %s, %s%s: %s, because %s", plait_coll_name(o->coll),
                   o->vform ? "v" : "", o->vform ? "at most " : "", o->count, plait_dtype_name(o->type),
                   plait_op_name(o->op), root, c.algorithm, c.why);
}

static enum plait_status make_op_plan(struct plait_comm *comm, const struct plait_team *team, struct plait_op_plan *o)
{
    struct plait_shape shape = shape_of(team, o->coll, o->root, o->inplace);
    struct plait_wish wish = plait_comm_wish(comm, o->coll, o->op, o->vform, o->space, &o->call);
    enum plait_status status = team->ranks == NULL ? PLAIT_OK : find_team_model(comm, team, &wish.model);
    if (status == PLAIT_OK)
        status = plait_select(&shape, o->count, o->type, &wish, &o->selection);

    o->aside = o->inplace && !shape.inplace;
    if (status == PLAIT_OK && !o->selection.eager)
        status = find_prog(comm, team, &shape, &o->selection, o->op == PLAIT_AVG && !o->selection.divides, &o->prog);
    if (status != PLAIT_OK)
        return status;
    if (o->vform && o->prog != NULL && !o->prog->single)
        return plait_cannot_differ(o->selection.spec);
    o->geometry = plait_geometry_of(shape.coll, team->n, o->root, team->me, o->prog != NULL ? o->prog->nblk : 1);
    if (o->prog != NULL && ((wish.device && comm->remote == NULL) || !o->prog->sliceable)) {
        o->selection.slice = o->vform ? SIZE_MAX : o->count;
        o->selection.nslice = 1;
    }
    o->size = plait_dtype_size(o->type);
    o->bytes = plait_op_bytes(o, o->vform && !o->selection.eager ? 0 : o->count, false);
    o->place = plait_place_of_in(&o->geometry, team->me, o->bytes);
    o->in_bytes = plait_side_bytes(&o->geometry, &o->geometry.in, o->bytes);
    o->out_bytes = plait_side_bytes(&o->geometry, &o->geometry.out, o->bytes);
    if (o->selection.eager)
        o->eager = plait_eager_plan(o, o->bytes, comm->nrank, comm->rank, comm->processors == 0);
    else if (o->selection.split > 0)
        o->eager = plait_eager_plan(o, o->selection.split, comm->nrank, comm->rank, false);
    if (o->tally == NULL && (o->tally = find_tally(comm, o)) == NULL)
        return plait_fail_memory("out of memory for an operation");
    describe_how(o, comm->nrank);
    o->reduce = o->geometry.combines ? plait_reduce_find(comm->kernels, o->type, o->op) : NULL;
    describe(o);
    if (plait_log_wants(PLAIT_LOG_DEBUG))
        log_choice(comm, o);
    return PLAIT_OK;
}

enum plait_status plait_bind(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *options)
{
    const struct plait_call *call = options != NULL ? options : &plait_no_wishes;
    const uint64_t key = a->count << 16 ^ (uint64_t)a->root << 12 ^ (uint64_t)a->coll << 8 ^ (uint64_t)a->type << 4 ^
                         (uint64_t)a->op << 1 ^ a->inplace ^ (uint64_t)a->vform << 15 ^ (uint64_t)a->space->id << 14 ^
                         (uint64_t)call->mark << 24;
    struct plait_op_plan **place = &comm->op_plans[(key * 0x9e3779b97f4a7c15u) >> 56];
    const struct plait_team all = {
        .n = comm->nrank, .me = comm->rank, .node = comm->node, .nlevel = comm->nlevel, .level = comm->level
    };
    enum plait_status status;

    if (*place != NULL && plait_fits(*place, a, options)) {
        comm->last = *place;
        return PLAIT_OK;
    }
    struct plait_op_plan fresh = { .coll = a->coll,
                                   .type = a->type,
                                   .op = a->op,
                                   .root = a->root,
                                   .inplace = a->inplace,
                                   .vform = a->vform,
                                   .space = a->space,
                                   .key = plait_key(a),
                                   .count = a->count,
                                   .plain = options == NULL,
                                   .call = *call };
    if (call->algorithm != NULL)
        memcpy(fresh.asked, call->algorithm, strlen(call->algorithm) + 1);
    status = make_op_plan(comm, &all, &fresh);
    if (status != PLAIT_OK)
        return status;
    if (*place == NULL || (*place)->users > 0) {
        struct plait_op_plan *o = malloc(sizeof *o);
        comm->stats.allocations++;
        if (o == NULL)
            return plait_fail_memory("out of memory for an operation");
        if (*place != NULL)
            (*place)->forgotten = true;
        *place = o;
    } else {
        free((*place)->of_team);
    }
    **place = fresh;
    (*place)->call.algorithm = NULL; /* these belong to the caller */
    (*place)->call.scale = NULL;
    (*place)->call.user = NULL;
    (*place)->call.request = NULL;
    (*place)->call.stream = NULL;
    comm->last = *place;
    return PLAIT_OK;
}

enum plait_status plait_bind_inner(struct plait_comm *comm, const struct plait_op_plan *outer,
                                   const struct plait_inner *inner, struct plait_op_plan **out)
{
    struct plait_op_plan *o = outer->of_team;
    enum plait_status status;

    if (o == NULL) {
        o = malloc(sizeof *o);
        comm->stats.allocations++;
        if (o == NULL)
            return plait_fail_memory("out of memory for an operation");
        *o = (struct plait_op_plan){ .coll = outer->coll,
                                     .type = inner->type,
                                     .op = outer->op == PLAIT_PREMULSUM ? PLAIT_SUM : outer->op,
                                     .root = inner->root,
                                     .space = outer->space,
                                     .count = inner->count,
                                     .call = outer->call,
                                     .tally = outer->tally };
        status = make_op_plan(comm, inner->team, o);
        if (status != PLAIT_OK) {
            free(o);
            return status;
        }
        ((struct plait_op_plan *)(uintptr_t)outer)->of_team = o;
    }
    *out = o;
    return PLAIT_OK;
}

void plait_bind_factor(struct plait_op_plan *o, double factor)
{
    o->what.factor = factor;
    o->fingerprint = plait_fingerprint(&o->what, sizeof o->what);
}

void plait_unbind(struct plait_op_plan *o)
{
    if (--o->users > 0 || !o->forgotten)
        return;
    plait_op_plan_free(o);
}

enum plait_status plait_comm_count(struct plait_comm *comm, size_t i, struct plait_comm_count *out)
{
    const struct plait_tally *t;
    size_t n = 0;

    if (comm == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_count: %s is NULL", out == NULL ? "out" : "comm");
    const bool locked = plait_comm_lock_counters(comm);
    for (t = comm->tallies; t != NULL && n < i; t = t->next)
        n++;
    if (t != NULL)
        *out = t->count;
    plait_comm_unlock_counters(comm, locked);
    return t != NULL ? PLAIT_OK
                     : plait_fail(PLAIT_ERR_ARG, "plait_comm_count: i is %zu, but there are %zu, from 0", i, n);
}
