/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for cuDNN 9's backend API over that for the driver (standin.h): convolutions by plain loops, in the order of
 * the stream. It refuses what cuDNN 9.19 was seen to refuse, and more: every attribute must be known for its descriptor,
 * with the right type and count, and all that are needed must be set. Its engines are made for tests of who chooses one.
 *
 * Environment:
 *   PLAIT_STANDIN_CUDNN_VERSION    (91900); 8907 is 8.9.7
 *   PLAIT_STANDIN_CUDNN_CUDA       version of CUDA that it is built for (13000)
 *   PLAIT_STANDIN_CUDNN_CREATE     status of cudnnCreate (0)
 *   PLAIT_STANDIN_CUDNN_PLAN       status of all plans (0)
 *   PLAIT_STANDIN_CUDNN_EXECUTE    status of runs (0)
 *   PLAIT_STANDIN_CUDNN_WORKSPACE  bytes that every engine needs at least (0)
 */
#include "standin_convolve.h"
#include "standin_numbers.h"

#include "cudnn9.h"

#include <stdbool.h>
#include <stdio.h>

#define PLAIT_X(name, symbol, result, arguments) EXPORT result standin_##name arguments __asm__(symbol);
CUDNN9_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X

enum { DIMS = 8, VALUES = 12 };
enum kind {
    WINDOW = CUDNN9_BACKEND_CONVOLUTION_DESCRIPTOR,
    ENGINE = CUDNN9_BACKEND_ENGINE_DESCRIPTOR,
    CONFIG = CUDNN9_BACKEND_ENGINECFG_DESCRIPTOR,
    HEURISTICS = CUDNN9_BACKEND_ENGINEHEUR_DESCRIPTOR,
    PLAN = CUDNN9_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
    FORWARD = CUDNN9_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    BACK_W = CUDNN9_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    BACK_X = CUDNN9_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    GRAPH = CUDNN9_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    PACK = CUDNN9_BACKEND_VARIANT_PACK_DESCRIPTOR,
    TENSOR = CUDNN9_BACKEND_TENSOR_DESCRIPTOR
};

/* ---- Engines ---- */

static const struct engine {
    int mode, index;
    int64_t workspace;
    int status; /* of its plans */
    uint32_t nnote;
    int notes[2];
} engines[] = {
    { CUDNN9_HEUR_MODE_A, 40, 0, 0, 1, { CUDNN9_NUMERICAL_NOTE_NONDETERMINISTIC } },
    { CUDNN9_HEUR_MODE_A, 41, 0, 0, 1, { CUDNN9_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION } },
    { CUDNN9_HEUR_MODE_A, 42, 0, CUDNN9_STATUS_NOT_SUPPORTED, 0, { 0 } },
    { CUDNN9_HEUR_MODE_A, 43, (int64_t)1 << 40, 0, 0, { 0 } },
    { CUDNN9_HEUR_MODE_A,
      44,
      131,
      0,
      2,
      { CUDNN9_NUMERICAL_NOTE_TENSOR_CORE, CUDNN9_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS } },
    { CUDNN9_HEUR_MODE_FALLBACK, 1, 4096, 0, 1, { CUDNN9_NUMERICAL_NOTE_WINOGRAD } },
    { CUDNN9_HEUR_MODE_FALLBACK, 0, 0, 0, 0, { 0 } },
};
enum { NENGINE = sizeof engines / sizeof *engines };

/* ---- Descriptors and what they may have ---- */

struct value {
    int attribute;
    int64_t n; /* 0: not set */
    union {
        int64_t numbers[DIMS];
        int words[DIMS];
        void *pointers[DIMS];
        float real;
        bool truth;
    };
};

struct descriptor {
    enum kind kind;
    bool final;
    uint32_t held; /* by whoever made it and by what was made from it */
    const struct engine *engine;
    struct value values[VALUES];
    struct descriptor *from; /* a configuration's graph */
};

static const struct rule {
    enum kind kind;
    int attribute, type;
    int64_t least, most;
    enum kind of; /* of descriptors */
    bool optional;
} rules[] = {
    { TENSOR, CUDNN9_ATTR_TENSOR_DATA_TYPE, CUDNN9_TYPE_DATA_TYPE, 1, 1, 0, false },
    { TENSOR, CUDNN9_ATTR_TENSOR_DIMENSIONS, CUDNN9_TYPE_INT64, 4, 4, 0, false },
    { TENSOR, CUDNN9_ATTR_TENSOR_STRIDES, CUDNN9_TYPE_INT64, 4, 4, 0, false },
    { TENSOR, CUDNN9_ATTR_TENSOR_UNIQUE_ID, CUDNN9_TYPE_INT64, 1, 1, 0, false },
    { TENSOR, CUDNN9_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN9_TYPE_INT64, 1, 1, 0, false },
    { TENSOR, CUDNN9_ATTR_TENSOR_IS_VIRTUAL, CUDNN9_TYPE_BOOLEAN, 1, 1, 0, true },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_COMP_TYPE, CUDNN9_TYPE_DATA_TYPE, 1, 1, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_CONV_MODE, CUDNN9_TYPE_CONVOLUTION_MODE, 1, 1, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN9_TYPE_INT64, 1, 1, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN9_TYPE_INT64, 2, 2, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN9_TYPE_INT64, 2, 2, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_DILATIONS, CUDNN9_TYPE_INT64, 2, 2, 0, false },
    { WINDOW, CUDNN9_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN9_TYPE_INT64, 2, 2, 0, false },
#define OPERATION(kind, name, x, w, y)                                                                                 \
    { kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_##x, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, TENSOR, false },     \
        { kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_##w, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, TENSOR, false }, \
        { kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_##y, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, TENSOR, false }, \
        { kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, WINDOW,    \
          false },                                                                                                     \
        { kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA, CUDNN9_TYPE_FLOAT, 1, 1, 0, false },                 \
    {                                                                                                                  \
        kind, CUDNN9_ATTR_OPERATION_CONVOLUTION_##name##_BETA, CUDNN9_TYPE_FLOAT, 1, 1, 0, false                       \
    }
    OPERATION(FORWARD, FORWARD, X, W, Y),
    OPERATION(BACK_X, BWD_DATA, DX, W, DY),
    OPERATION(BACK_W, BWD_FILTER, X, DW, DY),
#undef OPERATION
    { GRAPH, CUDNN9_ATTR_OPERATIONGRAPH_OPS, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, 0, false },
    { GRAPH, CUDNN9_ATTR_OPERATIONGRAPH_HANDLE, CUDNN9_TYPE_HANDLE, 1, 1, 0, false },
    { HEURISTICS, CUDNN9_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, GRAPH, false },
    { HEURISTICS, CUDNN9_ATTR_ENGINEHEUR_MODE, CUDNN9_TYPE_HEUR_MODE, 1, 1, 0, false },
    { PLAN, CUDNN9_ATTR_EXECUTION_PLAN_HANDLE, CUDNN9_TYPE_HANDLE, 1, 1, 0, false },
    { PLAN, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN9_TYPE_BACKEND_DESCRIPTOR, 1, 1, CONFIG, false },
    { PACK, CUDNN9_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN9_TYPE_INT64, 3, 3, 0, false },
    { PACK, CUDNN9_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN9_TYPE_VOID_PTR, 3, 3, 0, false },
    { PACK, CUDNN9_ATTR_VARIANT_PACK_WORKSPACE, CUDNN9_TYPE_VOID_PTR, 1, 1, 0, false },
};
enum { NRULE = sizeof rules / sizeof *rules };

static _Thread_local char latest[200];
static int64_t nhandle, ndescriptor; /* that live */

static int refuse(int status, const char *why)
{
    snprintf(latest, sizeof latest, "%s", why);
    return status;
}

static struct value *value_of(struct descriptor *d, int attribute)
{
    for (int k = 0; k < VALUES; k++)
        if (d->values[k].n != 0 && d->values[k].attribute == attribute)
            return &d->values[k];
    return NULL;
}

static struct descriptor *held_by(struct descriptor *d, int attribute)
{
    return value_of(d, attribute)->pointers[0];
}

/* ---- Library and handles ---- */

size_t standin_version(void)
{
    return (size_t)standin_setting("PLAIT_STANDIN_CUDNN_VERSION", 91900);
}

size_t standin_cudart_version(void)
{
    return (size_t)standin_setting("PLAIT_STANDIN_CUDNN_CUDA", 13000);
}

const char *standin_error_string(int status)
{
    switch (status) {
#define PLAIT_X(name, value) \
    case value:              \
        return "CUDNN_" #name;
        PLAIT_X(STATUS_NOT_INITIALIZED, 1001)
        PLAIT_X(STATUS_BAD_PARAM, 2000)
        PLAIT_X(STATUS_NOT_SUPPORTED, 3000)
        PLAIT_X(STATUS_EXECUTION_FAILED, 5000)
#undef PLAIT_X
    default:
        return "another error";
    }
}

void standin_last_error(char *out, size_t room)
{
    snprintf(out, room, "%s", latest);
    latest[0] = '\0';
}

struct handle {
    void *stream;
};

int standin_create(void **out)
{
    const int status = (int)standin_setting("PLAIT_STANDIN_CUDNN_CREATE", 0);
    struct handle *h = calloc(1, sizeof *h);

    if (!standin_has_context() || h == NULL || status != 0) {
        free(h);
        return refuse(status != 0 ? status : CUDNN9_STATUS_NOT_INITIALIZED, "no handle");
    }
    nhandle++;
    *out = h;
    return CUDNN9_STATUS_SUCCESS;
}

int standin_destroy(void *handle)
{
    nhandle--;
    free(handle);
    return CUDNN9_STATUS_SUCCESS;
}

int standin_set_stream(void *handle, void *stream)
{
    ((struct handle *)handle)->stream = stream;
    return CUDNN9_STATUS_SUCCESS;
}

/* What lives, for tests of leaks. */
EXPORT int64_t standin_cudnn_left(void);

int64_t standin_cudnn_left(void)
{
    return nhandle + ndescriptor;
}

/* ---- Making and setting ---- */

int standin_make(int type, cudnn_descriptor *out)
{
    static const enum kind kinds[] = { WINDOW, ENGINE, CONFIG, HEURISTICS, PLAN,  FORWARD,
                                       BACK_W, BACK_X, GRAPH,  PACK,       TENSOR };
    struct descriptor *d = NULL;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k] == (enum kind)type)
            d = calloc(1, sizeof *d);
    if (d == NULL)
        return refuse(CUDNN9_STATUS_NOT_SUPPORTED, "no such descriptor");
    d->kind = (enum kind)type;
    d->held = 1;
    ndescriptor++;
    *out = d;
    return CUDNN9_STATUS_SUCCESS;
}

int standin_drop(cudnn_descriptor descriptor)
{
    struct descriptor *d = descriptor;

    if (d == NULL)
        return refuse(CUDNN9_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (--d->held > 0)
        return CUDNN9_STATUS_SUCCESS;
    for (int k = 0; k < NRULE; k++)
        if (rules[k].kind == d->kind && rules[k].type == CUDNN9_TYPE_BACKEND_DESCRIPTOR &&
            value_of(d, rules[k].attribute) != NULL)
            standin_drop(held_by(d, rules[k].attribute));
    if (d->from != NULL)
        standin_drop(d->from);
    ndescriptor--;
    free(d);
    return CUDNN9_STATUS_SUCCESS;
}

static const struct rule *rule_of(const struct descriptor *d, int attribute)
{
    for (int k = 0; k < NRULE; k++)
        if (rules[k].kind == d->kind && rules[k].attribute == attribute)
            return &rules[k];
    return NULL;
}

static size_t size_of(int type)
{
    return type == CUDNN9_TYPE_BOOLEAN ? sizeof(bool)
           : type == CUDNN9_TYPE_INT64 || type == CUDNN9_TYPE_HANDLE || type == CUDNN9_TYPE_VOID_PTR ||
                   type == CUDNN9_TYPE_BACKEND_DESCRIPTOR
               ? 8
               : 4;
}

static bool is_operation(const struct descriptor *d)
{
    return d->kind == FORWARD || d->kind == BACK_X || d->kind == BACK_W;
}

static int check_descriptor(const struct rule *r, const struct descriptor *d)
{
    if (d == NULL)
        return refuse(CUDNN9_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (r->of != 0 ? d->kind != r->of : !is_operation(d))
        return refuse(CUDNN9_STATUS_BAD_PARAM, "a descriptor of another kind");
    return d->final ? 0 : refuse(CUDNN9_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is not final");
}

int standin_set(cudnn_descriptor descriptor, int attribute, int type, int64_t n, const void *values)
{
    struct descriptor *d = descriptor;
    const struct rule *r = d != NULL ? rule_of(d, attribute) : NULL;
    int status = 0, k = 0;

    if (r == NULL || d->final || n < r->least || n > r->most)
        return refuse(CUDNN9_STATUS_BAD_PARAM, r == NULL  ? "no such attribute"
                                               : d->final ? "the descriptor is final"
                                                          : "another count");
    if (type != r->type)
        return refuse(CUDNN9_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "another type");
    if (values == NULL || (type == CUDNN9_TYPE_HANDLE && *(void *const *)values == NULL))
        return refuse(CUDNN9_STATUS_BAD_PARAM_NULL_POINTER, "no value");
    if (type == CUDNN9_TYPE_BACKEND_DESCRIPTOR)
        status = check_descriptor(r, *(struct descriptor *const *)values);
    while (d->values[k].n != 0)
        if (d->values[k++].attribute == attribute)
            status = refuse(CUDNN9_STATUS_BAD_PARAM, "an attribute is set twice");
    if (status != 0)
        return status;
    d->values[k].attribute = attribute;
    d->values[k].n = n;
    memcpy(d->values[k].numbers, values, (size_t)n * size_of(type));
    if (type == CUDNN9_TYPE_BACKEND_DESCRIPTOR)
        ((struct descriptor *)d->values[k].pointers[0])->held++;
    return CUDNN9_STATUS_SUCCESS;
}

/* ---- Operations ---- */

static struct descriptor *tensor_of(struct descriptor *op, int letter)
{
    static const int attributes[][3] = {
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY },
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY },
    };

    return held_by(op, attributes[op->kind == FORWARD ? 0 : op->kind == BACK_X ? 1 : 2][letter]);
}

static const int64_t *dims_of(struct descriptor *tensor)
{
    return value_of(tensor, CUDNN9_ATTR_TENSOR_DIMENSIONS)->numbers;
}

static int type_of(struct descriptor *tensor)
{
    return value_of(tensor, CUDNN9_ATTR_TENSOR_DATA_TYPE)->words[0];
}

static struct convolve convolve_of(struct descriptor *op)
{
    static const int windows[] = { CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                   CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC };
    struct convolve c = { .direction = op->kind == FORWARD ? TO_Y : op->kind == BACK_X ? TO_X : TO_W };
    struct descriptor *window = held_by(op, windows[c.direction]);

    c.type = type_of(tensor_of(op, 0));
    memcpy(c.x, dims_of(tensor_of(op, 0)), sizeof c.x);
    memcpy(c.w, dims_of(tensor_of(op, 1)), sizeof c.w);
    memcpy(c.y, dims_of(tensor_of(op, 2)), sizeof c.y);
    memcpy(c.pad, value_of(window, CUDNN9_ATTR_CONVOLUTION_PRE_PADDINGS)->numbers, sizeof c.pad);
    memcpy(c.stride, value_of(window, CUDNN9_ATTR_CONVOLUTION_FILTER_STRIDES)->numbers, sizeof c.stride);
    return c;
}

/* Do the shapes belong together? */
static bool fits(struct descriptor *op)
{
    const struct convolve c = convolve_of(op);
    bool fits = c.x[0] == c.y[0] && c.w[0] == c.y[1] && c.w[1] == c.x[1];

    for (int k = 0; k < 2; k++)
        fits = fits && c.y[2 + k] == (c.x[2 + k] + 2 * c.pad[k] - c.w[2 + k]) / c.stride[k] + 1;
    for (int k = 1; k < 3; k++)
        fits = fits && type_of(tensor_of(op, k)) == c.type;
    return fits;
}

static bool is_nhwc(struct descriptor *tensor)
{
    const int64_t *d = dims_of(tensor), *s = value_of(tensor, CUDNN9_ATTR_TENSOR_STRIDES)->numbers;

    return s[0] == d[1] * d[2] * d[3] && s[1] == 1 && s[2] == d[1] * d[3] && s[3] == d[1];
}

static bool is_window(struct descriptor *d)
{
    const int64_t *before = value_of(d, CUDNN9_ATTR_CONVOLUTION_PRE_PADDINGS)->numbers;
    const int64_t *after = value_of(d, CUDNN9_ATTR_CONVOLUTION_POST_PADDINGS)->numbers;
    const int64_t *dilations = value_of(d, CUDNN9_ATTR_CONVOLUTION_DILATIONS)->numbers;

    return value_of(d, CUDNN9_ATTR_CONVOLUTION_SPATIAL_DIMS)->numbers[0] == 2 && before[0] == after[0] &&
           before[1] == after[1] && dilations[0] == 1 && dilations[1] == 1 &&
           value_of(d, CUDNN9_ATTR_CONVOLUTION_COMP_TYPE)->words[0] == CUDNN9_DATA_FLOAT &&
           value_of(d, CUDNN9_ATTR_CONVOLUTION_CONV_MODE)->words[0] == CUDNN9_CROSS_CORRELATION;
}

static bool is_plain(struct descriptor *op)
{
    static const int scales[][2] = {
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN9_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
        { CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN9_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
    };
    const int *a = scales[op->kind == FORWARD ? 0 : op->kind == BACK_X ? 1 : 2];

    return value_of(op, a[0])->real == 1 && value_of(op, a[1])->real == 0;
}

static int check_plan(struct descriptor *d)
{
    const int status = (int)standin_setting("PLAIT_STANDIN_CUDNN_PLAN", 0);
    const struct engine *e = held_by(d, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine;

    return status != 0 || e->status != 0 ? refuse(status != 0 ? status : e->status, "this engine refuses") : 0;
}

/* cuDNN can do more; what nobody here asks for is an error. */
static int check_meaning(struct descriptor *d)
{
    if (d->kind == TENSOR && !is_nhwc(d))
        return refuse(CUDNN9_STATUS_NOT_SUPPORTED, "a tensor that is not NHWC");
    if (d->kind == WINDOW && !is_window(d))
        return refuse(CUDNN9_STATUS_NOT_SUPPORTED, "a convolution of another kind");
    if (is_operation(d) && !(is_plain(d) && fits(d)))
        return refuse(CUDNN9_STATUS_BAD_PARAM, "shapes or types that do not fit");
    return d->kind == PLAN ? check_plan(d) : 0;
}

int standin_finalize(cudnn_descriptor descriptor)
{
    struct descriptor *d = descriptor;
    int status;

    if (d == NULL || d->final || d->kind == ENGINE || d->kind == CONFIG)
        return refuse(CUDNN9_STATUS_BAD_PARAM, "nothing to finalise");
    for (int k = 0; k < NRULE; k++)
        if (rules[k].kind == d->kind && !rules[k].optional && value_of(d, rules[k].attribute) == NULL)
            return refuse(CUDNN9_STATUS_BAD_PARAM, "an attribute is missing");
    status = check_meaning(d);
    d->final = status == 0;
    return status;
}

/* ---- Asking ---- */

static int64_t workspace_of(const struct engine *e)
{
    const int64_t least = standin_setting("PLAIT_STANDIN_CUDNN_WORKSPACE", 0);

    return e->workspace > least ? e->workspace : least;
}

static int get_results(struct descriptor *d, int64_t room, int64_t *n, struct descriptor **out)
{
    const int mode = value_of(d, CUDNN9_ATTR_ENGINEHEUR_MODE)->words[0];
    int64_t found = 0;

    for (int k = 0; k < NENGINE; k++) {
        if (engines[k].mode != mode)
            continue;
        if (found < room) {
            if (out[found] == NULL || out[found]->kind != CONFIG || out[found]->final)
                return refuse(CUDNN9_STATUS_BAD_PARAM, "not a configuration to fill");
            out[found]->engine = &engines[k];
            out[found]->from = held_by(d, CUDNN9_ATTR_ENGINEHEUR_OPERATION_GRAPH);
            out[found]->from->held++;
            out[found]->final = true;
        }
        found++;
    }
    *n = room > 0 && found > room ? room : found;
    return CUDNN9_STATUS_SUCCESS;
}

static int get_engine(const struct descriptor *d, int64_t room, int64_t *n, struct descriptor **out)
{
    if (room < 1 || out[0] == NULL || out[0]->kind != ENGINE || out[0]->final)
        return refuse(CUDNN9_STATUS_BAD_PARAM, "not an engine to fill");
    out[0]->engine = d->engine;
    out[0]->final = true;
    *n = 1;
    return CUDNN9_STATUS_SUCCESS;
}

static int get_notes(const struct descriptor *d, int64_t room, int64_t *n, int *out)
{
    *n = d->engine->nnote;
    for (int64_t k = 0; k < *n && k < room; k++)
        out[k] = d->engine->notes[k];
    return CUDNN9_STATUS_SUCCESS;
}

static int get_number(int64_t value, int64_t room, int64_t *n, int64_t *out)
{
    if (room != 1)
        return refuse(CUDNN9_STATUS_BAD_PARAM, "another count");
    *n = 1;
    *out = value;
    return CUDNN9_STATUS_SUCCESS;
}

int standin_get(cudnn_descriptor descriptor, int attribute, int type, int64_t room, int64_t *n, void *values)
{
    static const struct {
        enum kind kind;
        int attribute, type;
    } readable[] = {
        { HEURISTICS, CUDNN9_ATTR_ENGINEHEUR_RESULTS, CUDNN9_TYPE_BACKEND_DESCRIPTOR },
        { CONFIG, CUDNN9_ATTR_ENGINECFG_ENGINE, CUDNN9_TYPE_BACKEND_DESCRIPTOR },
        { ENGINE, CUDNN9_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN9_TYPE_NUMERICAL_NOTE },
        { ENGINE, CUDNN9_ATTR_ENGINE_GLOBAL_INDEX, CUDNN9_TYPE_INT64 },
        { PLAN, CUDNN9_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN9_TYPE_INT64 },
    };
    struct descriptor *d = descriptor;
    int which = -1;

    for (int k = 0; k < 5 && d != NULL; k++)
        if (readable[k].kind == d->kind && readable[k].attribute == attribute)
            which = k;
    if (which < 0)
        return refuse(CUDNN9_STATUS_BAD_PARAM, "no such attribute");
    if (!d->final)
        return refuse(CUDNN9_STATUS_NOT_INITIALIZED, "a descriptor that is not final");
    if (type != readable[which].type)
        return refuse(CUDNN9_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "another type");
    switch (which) {
    case 0:
        return get_results(d, room, n, values);
    case 1:
        return get_engine(d, room, n, values);
    case 2:
        return get_notes(d, room, n, values);
    case 3:
        return get_number(d->engine->index, room, n, values);
    default:
        return get_number(workspace_of(held_by(d, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine), room, n, values);
    }
}

/* ---- Running ---- */

/* The pointer that the pack has for this tensor. */
static void *pointer_of(struct descriptor *pack, struct descriptor *tensor)
{
    const int64_t *uids = value_of(pack, CUDNN9_ATTR_VARIANT_PACK_UNIQUE_IDS)->numbers;
    const int64_t uid = value_of(tensor, CUDNN9_ATTR_TENSOR_UNIQUE_ID)->numbers[0];

    for (int k = 0; k < 3; k++)
        if (uids[k] == uid)
            return value_of(pack, CUDNN9_ATTR_VARIANT_PACK_DATA_POINTERS)->pointers[k];
    return NULL;
}

static int put(const struct handle *h, struct descriptor *op, const struct convolve *c, void *workspace, int64_t bytes)
{
    void *const at[] = { c->at_x, c->at_w, c->at_y };
    struct standin_access accesses[4] = { { workspace, (uint64_t)bytes, 1 } };
    const int written = c->direction == TO_X ? 0 : c->direction == TO_W ? 1 : 2;
    standin_operate_function *operate;

    for (int k = 0; k < 3; k++) {
        const int64_t *d = dims_of(tensor_of(op, k));
        const int64_t alignment = value_of(tensor_of(op, k), CUDNN9_ATTR_TENSOR_BYTE_ALIGNMENT)->numbers[0];
        if (at[k] == NULL || (uintptr_t)at[k] % (uintptr_t)alignment != 0)
            return refuse(CUDNN9_STATUS_BAD_PARAM, "no pointer of a tensor, or a misaligned one");
        accesses[k + 1] =
            (struct standin_access){ at[k], (uint64_t)(d[0] * d[1] * d[2] * d[3] * convolve_size(c->type)),
                                     k == written };
    }
    *(void **)&operate = standin_driver("standin_operate");
    if (operate == NULL || operate(h->stream, "cuDNN's convolution", convolve, c, sizeof *c, accesses, 4) != 0)
        return refuse(CUDNN9_STATUS_EXECUTION_FAILED, "the driver refuses");
    return CUDNN9_STATUS_SUCCESS;
}

int standin_execute(void *handle, cudnn_descriptor plan, cudnn_descriptor pack)
{
    static _Atomic int nrun;
    const int status = (int)standin_setting("PLAIT_STANDIN_CUDNN_EXECUTE", 0);
    struct descriptor *p = plan, *v = pack, *op;
    const struct engine *e;

    if (handle == NULL || p == NULL || p->kind != PLAN || !p->final || v == NULL || v->kind != PACK || !v->final)
        return refuse(CUDNN9_STATUS_BAD_PARAM, "nothing to run");
    if (status != 0)
        return refuse(status, "a run fails");
    e = held_by(p, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine;
    op = held_by(held_by(p, CUDNN9_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->from, CUDNN9_ATTR_OPERATIONGRAPH_OPS);
    struct convolve c = convolve_of(op);
    c.at_x = pointer_of(v, tensor_of(op, 0));
    c.at_w = pointer_of(v, tensor_of(op, 1));
    c.at_y = pointer_of(v, tensor_of(op, 2));
    c.tf32 = c.type == CUDNN9_DATA_FLOAT && e->nnote > 0 && e->notes[0] == CUDNN9_NUMERICAL_NOTE_TENSOR_CORE;
    c.reversed = e->nnote > 0 && e->notes[0] == CUDNN9_NUMERICAL_NOTE_NONDETERMINISTIC && nrun++ % 2 != 0;
    return put(handle, op, &c, value_of(v, CUDNN9_ATTR_VARIANT_PACK_WORKSPACE)->pointers[0], workspace_of(e));
}
