/* SPDX-License-Identifier: BSD-3-Clause */
/* plait_comm_choose(), plait_choose(): what would run, and why, in a comm or without one. */
#include "select.h"

#include "base/status.h"
#include "comm/comm.h"
#include "operation/arguments.h"

#include <plait/topology.h>

#include <stdio.h>
#include <string.h>

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
    const bool small = plait_fits_eager(shape->coll, shape->nrank, known * plait_dtype_size(type), w);
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

static uint32_t most_of_a_node(const struct plait_shape *shape)
{
    uint32_t most = 0;

    for (uint32_t r = 0; shape->node != NULL && r < shape->nrank; r++) {
        uint32_t n = 0;
        for (uint32_t i = r; i < shape->nrank; i++)
            n += shape->node[i] == shape->node[r];
        most = n > most ? n : most;
    }
    return shape->node != NULL ? most : shape->nrank;
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
    const enum plait_status status = plait_check_root(function, runs->root, nrank);
    return status == PLAIT_OK
               ? plait_check_operation(kernels, plait_coll_name(shape->coll), shape->coll, nrank, count, type, op, call)
               : status;
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
    w.oversubscribed = most_of_a_node(shape) > topology.ncpu;
    w.remote = plait_has_nodes(shape->node, shape->nrank);
    const struct plait_model_options o = { .nrank = shape->nrank,
                                           .algorithms = algorithms,
                                           .node = shape->node,
                                           .nlevel = shape->nlevel,
                                           .level = shape->level,
                                           .processors = w.oversubscribed ? topology.ncpu : 0,
                                           .cache = topology.l2,
                                           .pace = config.pace };
    status = plait_model_create(&o, &w.model);
    if (status != PLAIT_OK)
        return status;
    plait_model_tune(w.model, config.tuning, shape, w.oversubscribed, path, &tuning);
    plait_model_use(w.model, &tuning);
    status = select_and_explain(&runs, count, type, &w, out);
    plait_model_destroy(w.model);
    return status;
}
