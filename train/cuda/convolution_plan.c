/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuDNN's heuristics order the engines that can compute a graph. The first that does what is wanted makes the plan.
 */
#include "convolution_parts.h"

#include "allocate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NOTES = 32 };

/* The first error becomes the choice's, and the next engine is tried. Memory that is lacking stays an error. */
static void forgive(struct convolution *c, struct choice *choice)
{
    if (c->status == CUDNN9_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
        c->status == CUDNN9_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
        return;
    choice->status = c->status;
    memcpy(choice->why, c->more, sizeof choice->why);
    c->status = CUDNN9_STATUS_SUCCESS;
}

static bool is_wanted(const struct convolution_wants *wants, const int *notes, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        switch (notes[k]) {
        case CUDNN9_NUMERICAL_NOTE_NONDETERMINISTIC:
            if (!wants->nondeterministic)
                return false;
            break;
        case CUDNN9_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN9_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            if (wants->precision == PRECISION_FP32 && !wants->tf32)
                return false;
            break;
        case CUDNN9_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: /* sums are fp32 */
            return false;
        default:
            break;
        }
    return true;
}

static const char *kind_of(const int *notes, int64_t n)
{
    const char *kind = "no tensor cores";

    for (int64_t k = 0; k < n; k++)
        kind = notes[k] == CUDNN9_NUMERICAL_NOTE_TENSOR_CORE ? "tensor cores"
               : notes[k] == CUDNN9_NUMERICAL_NOTE_WINOGRAD  ? "Winograd"
               : notes[k] == CUDNN9_NUMERICAL_NOTE_FFT       ? "FFT"
                                                             : kind;
    return kind;
}

/* Of a configuration. Name the engine; is it wanted? */
static bool look_at(struct convolution *c, cudnn_descriptor config, unsigned place)
{
    int notes[MOST_NOTES];
    int64_t index = -1, n;
    cudnn_descriptor engine = convolution_make(c, CUDNN9_BACKEND_ENGINE_DESCRIPTOR);

    convolution_get(c, config, CUDNN9_ATTR_ENGINECFG_ENGINE, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    n = convolution_get(c, engine, CUDNN9_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN9_TYPE_NUMERICAL_NOTE, MOST_NOTES, notes);
    convolution_get(c, engine, CUDNN9_ATTR_ENGINE_GLOBAL_INDEX, CUDNN9_TYPE_INT64, 1, &index);
    if (engine != NULL)
        c->libraries->cudnn.drop(engine);
    snprintf(c->engine, sizeof c->engine, "engine %d (%s), choice %u", (int)index, kind_of(notes, n), place);
    return c->status == CUDNN9_STATUS_SUCCESS && is_wanted(&c->wants, notes, n);
}

static cudnn_descriptor make_plan(struct convolution *c, cudnn_descriptor config, int64_t *workspace)
{
    struct libraries *l = c->libraries;
    cudnn_descriptor plan = convolution_make(c, CUDNN9_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

    if (l->dnn != NULL)
        convolution_set(c, plan, CUDNN9_ATTR_EXECUTION_PLAN_HANDLE, CUDNN9_TYPE_HANDLE, 1, &l->dnn);
    convolution_set_descriptor(c, plan, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (l->described != NULL)
        convolution_set_descriptor(c, plan, CUDNN9_ATTR_EXECUTION_PLAN_DEVICEPROP, l->described);
    convolution_finalize(c, plan);
    convolution_get(c, plan, CUDNN9_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN9_TYPE_INT64, 1, workspace);
    return plan;
}

/* Returns whether the configuration makes the plan. */
static bool try(struct convolution *c, cudnn_descriptor config, struct choice *choice)
{
    int64_t workspace = 0;
    cudnn_descriptor plan;

    if (!look_at(c, config, ++choice->seen) && c->status == CUDNN9_STATUS_SUCCESS) {
        choice->unwanted++;
        return false;
    }
    plan = make_plan(c, config, &workspace);
    if (c->status == CUDNN9_STATUS_SUCCESS && (uint64_t)workspace <= c->wants.most_workspace) {
        c->made[c->nmade++] = config;
        c->made[c->nmade++] = c->plan = plan;
        c->workspace = (size_t)workspace;
        return true;
    }
    if (c->status != CUDNN9_STATUS_SUCCESS) {
        choice->failed++;
        forgive(c, choice);
    } else {
        choice->too_large++;
        choice->least = choice->least == 0 || (size_t)workspace < choice->least ? (size_t)workspace : choice->least;
    }
    if (plan != NULL)
        c->libraries->cudnn.drop(plan);
    return false;
}

static cudnn_descriptor ask(struct convolution *c, int mode)
{
    cudnn_descriptor d = convolution_make(c, CUDNN9_BACKEND_ENGINEHEUR_DESCRIPTOR);

    convolution_set_descriptor(c, d, CUDNN9_ATTR_ENGINEHEUR_OPERATION_GRAPH, c->graph);
    convolution_set(c, d, CUDNN9_ATTR_ENGINEHEUR_MODE, CUDNN9_TYPE_HEUR_MODE, 1, &mode);
    if (c->libraries->described != NULL)
        convolution_set_descriptor(c, d, CUDNN9_ATTR_ENGINEHEUR_DEVICEPROP, c->libraries->described);
    convolution_finalize(c, d);
    return d;
}

/* Try the engines that the heuristics return, the best first. */
static void choose_of(struct convolution *c, cudnn_descriptor heuristics, struct choice *choice)
{
    int64_t n = convolution_get(c, heuristics, CUDNN9_ATTR_ENGINEHEUR_RESULTS, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    cudnn_descriptor *configs = allocate(n > 0 ? (size_t)n : 1, sizeof *configs);
    const int64_t made = n;

    for (int64_t k = 0; k < made; k++)
        configs[k] = convolution_make(c, CUDNN9_BACKEND_ENGINECFG_DESCRIPTOR);
    if (n > 0)
        n = convolution_get(c, heuristics, CUDNN9_ATTR_ENGINEHEUR_RESULTS, CUDNN9_TYPE_BACKEND_DESCRIPTOR, n, configs);
    for (int64_t k = 0; k < made; k++) {
        const bool tried = k < n && c->plan == NULL && c->status == CUDNN9_STATUS_SUCCESS;
        if (!(tried && try(c, configs[k], choice)) && configs[k] != NULL)
            c->libraries->cudnn.drop(configs[k]);
    }
    free(configs);
}

void convolution_choose(struct convolution *c, struct choice *choice)
{
    static const int modes[] = { CUDNN9_HEUR_MODE_A, CUDNN9_HEUR_MODE_FALLBACK };

    for (size_t k = 0; k < 2 && c->plan == NULL && c->status == CUDNN9_STATUS_SUCCESS; k++) {
        cudnn_descriptor heuristics = ask(c, modes[k]);

        choose_of(c, heuristics, choice);
        if (heuristics != NULL)
            c->libraries->cudnn.drop(heuristics);
        if (c->status != CUDNN9_STATUS_SUCCESS)
            forgive(c, choice);
    }
}
