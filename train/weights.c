/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights.h"

#include "resume.h"
#include "share.h"
#include "why.h"

#include <inttypes.h>
#include <string.h>

struct vector { /* of the model: a tensor, or a running statistic */
    const char *name;
    uint32_t ndim;
    uint64_t shape[4];
    size_t count;
    bool classifier;
    float *data;
};

struct target { /* of a file */
    const struct model *model;
    float *const *masters;
    float *statistics;
};

static uint32_t nvector(const struct model *model)
{
    return model_ntensor(model) + model_nstatistic(model);
}

/* In a residual network only the classifier is fully connected, and only it has a bias. */
static struct vector vector_of_tensor(const struct tensor *t, float *data)
{
    struct vector v = { t->name, t->ndim, { 0 }, t->count, t->ndim == 2 || t->kind == TENSOR_BIAS, data };

    for (uint32_t d = 0; d < t->ndim; d++)
        v.shape[d] = t->shape[d];
    return v;
}

static struct vector vector_at(const struct target *to, uint32_t k)
{
    const uint32_t ntensor = model_ntensor(to->model);

    if (k < ntensor)
        return vector_of_tensor(model_tensor(to->model, k), to->masters[k]);
    const struct statistic *const s = model_statistic(to->model, k - ntensor);
    return (struct vector){ s->name, 1, { s->count }, s->count, false, to->statistics + s->start };
}

/* ---- Floats of any size ------------------------------------------------------------------------------------- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;

    if (exponent == 31)
        return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) /* subnormal: a multiple of 2^-24 */
        return (sign != 0 ? -1.0F : 1.0F) * 0x1p-24F * (float)fraction;
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static bool is_float(enum stored type)
{
    return type == STORED_F32 || type == STORED_F64 || type == STORED_F16 || type == STORED_BF16;
}

static float element(const struct entry *e, size_t i)
{
    const size_t bytes = stored_bytes(e->type);
    const char *const at = (const char *)e->data + i * bytes;
    uint16_t half = 0;
    uint32_t bits = 0;
    double wide;

    if (e->type == STORED_F64) {
        memcpy(&wide, at, bytes);
        return (float)wide;
    }
    if (e->type == STORED_F32) {
        memcpy(&bits, at, bytes);
        return from_bits(bits);
    }
    memcpy(&half, at, bytes);
    return e->type == STORED_F16 ? from_half(half) : from_bits((uint32_t)half << 16);
}

/* ---- Is it this network's? ---------------------------------------------------------------------------------- */

static bool same_shape(const struct entry *e, const struct vector *v)
{
    bool same = e->ndim == v->ndim;

    for (uint32_t d = 0; same && d < v->ndim; d++)
        same = e->shape[d] == v->shape[d];
    return same;
}

static const char *check_vector(const char *path, const struct safetensors *file, const struct vector *v)
{
    const struct entry *const e = safetensors_find(file, v->name);

    if (e == NULL)
        return because("%s: it has no tensor %s, but %u others%s%s: is it of another network?", path, v->name,
                       safetensors_nentry(file), safetensors_nentry(file) > 0 ? ", such as " : "",
                       safetensors_nentry(file) > 0 ? safetensors_entry(file, 0)->name : "");
    if (!is_float(e->type))
        return because("%s: tensor %s is of type %s, not of floats", path, v->name, stored_name(e->type));
    if (same_shape(e, v))
        return NULL;
    if (v->classifier && e->ndim == v->ndim)
        return because("%s: its classifier is for %" PRIu64 " classes, this run's for %" PRIu64
                       " (%s); --new-classifier starts it anew and loads the rest",
                       path, e->shape[0], v->shape[0], v->name);
    return because("%s: tensor %s has another shape: is it of another network?", path, v->name);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Entries that are not part of the network: PyTorch's counters, and the further state of our checkpoints. */
static bool is_beside(const char *name)
{
    return ends_with(name, ".num_batches_tracked") || strncmp(name, RESUME_MOMENTUM, strlen(RESUME_MOMENTUM)) == 0 ||
           strncmp(name, RESUME_STATE, strlen(RESUME_STATE)) == 0;
}

static bool in_model(const struct target *to, const char *name)
{
    for (uint32_t k = 0; k < nvector(to->model); k++)
        if (strcmp(vector_at(to, k).name, name) == 0)
            return true;
    return false;
}

static const char *check(const char *path, const struct safetensors *file, const struct target *to, bool new_classifier)
{
    const char *why = NULL;

    for (uint32_t k = 0; k < nvector(to->model) && why == NULL; k++) {
        const struct vector v = vector_at(to, k);
        if (!v.classifier || !new_classifier)
            why = check_vector(path, file, &v);
    }
    for (uint32_t k = 0; k < safetensors_nentry(file) && why == NULL; k++) {
        const char *const name = safetensors_entry(file, k)->name;
        if (!is_beside(name) && !in_model(to, name))
            why = because("%s: it has a tensor %s, which this network does not have: is it of another network?", path,
                          name);
    }
    return why;
}

/* ---- Taking it ---------------------------------------------------------------------------------------------- */

static const char *take(const struct safetensors *file, struct plait_comm *comm, const struct vector *v)
{
    const struct entry *const e = file == NULL ? NULL : safetensors_find(file, v->name);

    for (size_t i = 0; e != NULL && i < v->count; i++)
        v->data[i] = element(e, i);
    return share_bytes(comm, v->data, v->count * sizeof *v->data);
}

const char *weights_load(const char *path, struct plait_comm *comm, const struct model *model, float *const *masters,
                         float *statistics, bool new_classifier)
{
    const struct target to = { model, masters, statistics };
    const char *why = NULL;
    struct safetensors *const file = share_reads(comm) ? safetensors_open(path, &why) : NULL;

    if (file != NULL)
        why = check(path, file, &to, new_classifier);
    why = share_verdict(comm, why);
    for (uint32_t k = 0; k < nvector(model) && why == NULL; k++) {
        const struct vector v = vector_at(&to, k);
        if (!v.classifier || !new_classifier)
            why = take(file, comm, &v);
    }
    safetensors_close(file);
    return why;
}
