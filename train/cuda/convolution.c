/* SPDX-License-Identifier: BSD-3-Clause */
#include "convolution_parts.h"

#include "allocate.h"

#include "../../cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors ---- */

static const char *describe(const struct convolution *c, char out[200])
{
    static const char *const names[] = {
        [PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16"
    };
    const struct device_convolution *s = &c->shape;

    snprintf(out, 200, "the %ux%u convolution with stride %u of %ux%ux%ux%u to %u channels in %s, %s", s->kernel,
             s->kernel, s->stride, s->n, s->height, s->width, s->in, s->out, names[c->wants.precision],
             convolution_pass_name(c->pass));
    return out;
}

static const char *no_plan(const struct convolution *c, const struct choice *choice)
{
    const struct libraries *l = c->libraries;
    char what[200], more[320] = "", least[64] = "";

    if (choice->status != CUDNN9_STATUS_SUCCESS)
        snprintf(more, sizeof more, " (the latest: %s%s%s)", l->cudnn.error_string(choice->status),
                 choice->why[0] != '\0' ? ": " : "", choice->why);
    if (choice->too_large > 0)
        snprintf(least, sizeof least, ", of which %zu MiB are needed", (choice->least >> 20) + 1);
    return plait_cuda_say("cuDNN %s has no plan for %s, on GPU %d (%s): of %u engines %u sum in another order or "
                          "precision, %u need more than %zu MiB of workspace%s, %u failed%s: use another --micro or "
                          "--precision, or a newer cuDNN",
                          l->cudnn_version, describe(c, what), l->gpu.number, l->gpu.name, choice->seen,
                          choice->unwanted, choice->too_large, c->wants.most_workspace >> 20, least, choice->failed,
                          more);
}

static const char *failed(const struct convolution *c)
{
    char what[200], why[700];

    snprintf(why, sizeof why, "%s", libraries_why(c->libraries, c->call, c->status, c->more));
    return plait_cuda_say("%s: %s", describe(c, what), why);
}

/* ---- All together ---- */

static bool is_same(const struct convolution *c, const struct device_convolution *s, enum convolution_pass pass,
                    const struct convolution_wants *w)
{
    const struct device_convolution *o = &c->shape;
    const struct convolution_wants *v = &c->wants;

    return c->pass == pass && o->n == s->n && o->in == s->in && o->out == s->out && o->height == s->height &&
           o->width == s->width && o->kernel == s->kernel && o->stride == s->stride && o->pad == s->pad &&
           v->precision == w->precision && v->tf32 == w->tf32 && v->nondeterministic == w->nondeterministic &&
           v->most_workspace == w->most_workspace;
}

static void destroy(struct convolution *c)
{
    while (c->packs != NULL) {
        struct pack *next = c->packs->next;

        c->libraries->cudnn.drop(c->packs->descriptor);
        free(c->packs);
        c->packs = next;
    }
    while (c->nmade > 0)
        c->libraries->cudnn.drop(c->made[--c->nmade]);
    free(c);
}

const char *convolution_find(struct libraries *l, const struct device_convolution *shape, enum convolution_pass pass,
                             const struct convolution_wants *wants, struct convolution **out)
{
    struct choice choice = { .seen = 0 };
    const char *why = NULL;
    struct convolution *c;

    for (c = l->convolutions; c != NULL; c = c->next)
        if (is_same(c, shape, pass, wants)) {
            *out = c;
            return NULL;
        }
    c = allocate(1, sizeof *c);
    *c = (struct convolution){ .libraries = l, .shape = *shape, .pass = pass, .wants = *wants };
    convolution_make_graph(c);
    convolution_choose(c, &choice);
    if (c->status != CUDNN9_STATUS_SUCCESS)
        why = failed(c);
    else if (c->plan == NULL)
        why = no_plan(c, &choice);
    if (why != NULL) {
        destroy(c);
        return why;
    }
    c->next = l->convolutions;
    l->convolutions = *out = c;
    return NULL;
}

size_t convolution_workspace(const struct convolution *c)
{
    return c->workspace;
}

const char *convolution_engine(const struct convolution *c)
{
    return c->engine;
}

static void make_pack(struct convolution *c, void *const pointers[4])
{
    const int64_t uids[] = { UID_X, UID_W, UID_Y };
    cudnn_descriptor d = convolution_make(c, CUDNN9_BACKEND_VARIANT_PACK_DESCRIPTOR);
    struct pack *pack;

    convolution_set_numbers(c, d, CUDNN9_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, uids);
    convolution_set(c, d, CUDNN9_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN9_TYPE_VOID_PTR, 3, pointers);
    convolution_set(c, d, CUDNN9_ATTR_VARIANT_PACK_WORKSPACE, CUDNN9_TYPE_VOID_PTR, 1, &pointers[3]);
    convolution_finalize(c, d);
    if (c->status != CUDNN9_STATUS_SUCCESS) {
        if (d != NULL)
            c->libraries->cudnn.drop(d);
        return;
    }
    pack = allocate(1, sizeof *pack);
    memcpy(pack->pointers, pointers, sizeof pack->pointers);
    pack->descriptor = d;
    pack->next = c->packs;
    c->packs = pack;
}

const char *convolution_run(struct convolution *c, void *x, void *w, void *y, void *workspace)
{
    void *const pointers[] = { x, w, y, workspace };
    const struct libraries *l = c->libraries;
    const struct pack *pack = c->packs;

    c->status = CUDNN9_STATUS_SUCCESS;
    while (pack != NULL && memcmp(pack->pointers, pointers, sizeof pointers) != 0)
        pack = pack->next;
    if (pack == NULL) {
        make_pack(c, pointers);
        pack = c->packs;
    }
    if (c->status == CUDNN9_STATUS_SUCCESS)
        convolution_check(c, "cudnnBackendExecute", l->cudnn.execute(l->dnn, c->plan, pack->descriptor));
    return c->status == CUDNN9_STATUS_SUCCESS ? NULL : failed(c);
}

void convolution_destroy_all(struct libraries *l)
{
    while (l->convolutions != NULL) {
        struct convolution *next = l->convolutions->next;

        destroy(l->convolutions);
        l->convolutions = next;
    }
}
