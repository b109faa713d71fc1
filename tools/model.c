/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "allocate.h"
#include "file.h"
#include "message.h"
#include "option.h"
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 30) /* of a trace */
#define BATCH      64
#define TERAFLOPS  10

void model_finish(struct model *m)
{
    free(m->tensors);
    free(m->ready);
}

static uint64_t rate_of(const struct tensors *t, const struct simulate_options *o)
{
    double flops = 0;

    for (uint32_t i = 0; i < t->n; i++)
        flops += (double)(t->forward[i] + t->backward[i]);
    return (uint64_t)(o->samples > 0 ? o->samples * flops : 1e12 * (o->teraflops > 0 ? o->teraflops : TERAFLOPS));
}

/* A list is in forward order; gradients become ready from its last to its first. */
static bool of_list(const struct tensors *t, const struct simulate_options *o, struct model *m)
{
    const uint32_t batch = o->batch > 0 ? o->batch : BATCH;

    if (t->forward == NULL)
        return complain("--step %s: its header has no forward,backward, the FLOPs of a sample", o->step);
    m->n = t->n;
    m->payload = PLAIT_NDTYPE;
    m->tensors = allocate(t->n, sizeof *m->tensors);
    m->ready = allocate(t->n, sizeof *m->ready);
    uint64_t *ready = allocate(t->n, sizeof *ready);
    /* A sample's time first, since the FLOPs of a batch may be above 2^64. */
    const bool ok = plait_training_ready(t->forward, t->backward, t->n, rate_of(t, o), ready) == PLAIT_OK ||
                    complain("--step %s: %s", o->step, plait_last_error());
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t from = t->n - 1 - i;
        m->ready[i] = ready[from] * batch;
        m->tensors[i] = (struct plait_tensor){ "gradient", t->count[from], PLAIT_FLOAT32, NULL };
    }
    free(ready);
    snprintf(m->about, sizeof m->about, "for %" PRIu32 " samples", batch);
    return ok;
}

static bool read_trace(FILE *f, const char *path, const struct simulate_options *o, struct model *m)
{
    size_t bytes;

    if (o->batch > 0 || o->samples > 0 || o->teraflops > 0)
        option_misuse("--step %s: a trace has times; leave out --batch, --samples and --teraflops", o->step);
    char *text = file_read(f, path, MOST_BYTES, &bytes);
    const bool ok = text != NULL && model_of_trace(path, text, bytes, m);
    free(text);
    return ok;
}

static bool read_list(FILE *f, const char *path, const struct simulate_options *o, struct model *m)
{
    struct tensors t;

    if (!tensors_parse(f, path, &t))
        return false;
    const bool ok = of_list(&t, o, m);
    tensors_finish(&t);
    return ok;
}

bool model_load(const struct simulate_options *o, struct model *out)
{
    char path[4096];
    FILE *f = file_find(o->step, "csv", "../bench/data", PLAIT_MODELS, path, sizeof path);

    *out = (struct model){ 0 };
    if (f == NULL)
        return complain(
            "--step %s: there is no such model (%s); it must be alexnet, gpt2, resnet50, vgg16, a CSV file, "
            "or a trace of plait-train or plait-perf fusion",
            o->step, strerror(errno));
    const int first = ungetc(fgetc(f), f);
    const bool ok = (first == '{' ? read_trace : read_list)(f, path, o, out);
    fclose(f);
    for (uint32_t i = 0; ok && i < out->n; i++) {
        out->elements += out->tensors[i].count;
        out->compute = out->ready[i] > out->compute ? out->ready[i] : out->compute;
    }
    if (!ok)
        model_finish(out);
    return ok;
}
