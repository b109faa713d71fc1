/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --dry-run: memory, buckets, algorithms, and the share of communication that the computation does not hide. It
 * calibrates: passes are timed, with the moments at which gradients are ready, and a bucket of each size is reduced.
 */
#include "base/clock.h"
#include "ending.h"
#include "message.h"
#include "run.h"

#include <plait/plan.h>
#include <plait/stream.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct calibration {
    struct run *run;
    double begin;       /* of the backward pass */
    double *ready;      /* [ntensor] seconds from there, in the fastest pass so far */
    double *this_ready; /* [ntensor] in this pass */
    double forward, backward;
};

static const double seconds = 1; /* for passes, and again for buckets */

static void synchronize(const struct calibration *c)
{
    c->run->device->kind->synchronize(c->run->device);
}

static void note_ready(void *context, uint32_t t)
{
    struct calibration *c = context;

    synchronize(c);
    c->this_ready[t] = plait_clock() - c->begin;
}

static void time_pass(struct calibration *c, const void *images, const int32_t *labels)
{
    struct run *r = c->run;
    const double *scale = &((const struct plait_loss_scale *)r->scale.memory)->scale;
    const double begin = plait_clock();

    model_forward(r->model, images, labels, true, r->o->smoothing);
    synchronize(c);
    c->begin = plait_clock();
    model_backward(r->model, scale, r->gradient, false, note_ready, c);
    synchronize(c);
    const double backward = plait_clock() - c->begin;
    if (c->backward > 0 && c->backward <= backward)
        return;
    c->forward = c->begin - begin;
    c->backward = backward;
    memcpy(c->ready, c->this_ready, r->ntensor * sizeof *c->ready);
}

static void time_passes(struct calibration *c)
{
    struct device *device = c->run->device;
    const size_t micro = c->run->o->micro, pixels = c->run->o->pixels, n = micro * pixels * pixels * 3;
    void *images = device->kind->alloc_host(device, n * sizeof(float));
    int32_t *labels = device->kind->alloc_host(device, micro * sizeof *labels);
    const double begin = plait_clock();
    double more; /* a rank wants more passes: synchronised batch norm makes a pass collective */

    for (size_t i = 0; i < n; i++)
        if (device->kind->bytes)
            ((uint8_t *)images)[i] = (uint8_t)(i * 2654435761u >> 8);
        else
            ((float *)images)[i] = (float)(i * 2654435761u % 1024) / 512 - 1;
    do {
        time_pass(c, images, labels);
        must(c->run->norms.status, "calibration");
        more = plait_clock() - begin < seconds || c->backward <= 0;
        must(plait_allreduce(c->run->side, &more, &more, 1, PLAIT_FLOAT64, PLAIT_MAX, NULL), "calibration");
    } while (more > 0);
}

/* Seconds of an all-reduce of a bucket: the fastest of some rounds, on the slowest rank. */
static double time_bucket(struct run *r, const struct plait_fusion_bucket *b, uint32_t rounds, void *memory,
                          struct plait_stream *stream)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    double best = INFINITY;

    call.algorithm = r->o->algorithm;
    call.stream = stream;
    for (uint32_t k = 0; k < rounds; k++) {
        const double begin = plait_clock();
        must(plait_allreduce(r->side, memory, memory, b->bytes / plait_dtype_size(b->type), b->type, PLAIT_SUM, &call),
             "calibration");
        if (stream != NULL)
            must(plait_stream_synchronize(stream), "calibration");
        best = fmin(best, plait_clock() - begin);
    }
    must(plait_allreduce(r->comm, &best, &best, 1, PLAIT_FLOAT64, PLAIT_MAX, NULL), "calibration");
    return best;
}

static void algorithm_of(struct run *r, const struct plait_fusion_bucket *b, char *out, size_t room)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .inplace = true };
    struct plait_choice choice = { .algorithm = "none" };

    call.algorithm = r->o->algorithm;
    call.reproducible = r->o->reproducible;
    if (r->nrank > 1)
        must(plait_comm_choose(r->side, &shape, b->bytes / plait_dtype_size(b->type), b->type, PLAIT_SUM, &call,
                               &choice),
             "the algorithm of a bucket");
    snprintf(out, room, "%s", choice.algorithm);
}

static double mebibytes(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

void memory_text(const struct run *r, char *out, size_t room)
{
    const struct model_memory m = model_memory(r->model);
    const size_t weights = r->count * sizeof(float), gradients = r->count * plait_dtype_size(r->gradient_type);
    const bool packed = r->o->payload != r->gradient_type, gpu = r->stream != NULL;
    const size_t slots = gpu ? 2 * r->o->micro * r->o->pixels * r->o->pixels * 3 : 0; /* train/cuda/images.c */
    const size_t centre = r->centre.bytes, images = loader_memory(r->loader) + loader_memory(r->val_loader);
    const size_t decoder = r->decoder != NULL ? r->decoder->memory : 0;
    const bool pinned = gpu && r->decoder == NULL;
    char decoding[40] = "";
    size_t payload = 0;
    struct plait_fusion_bucket b;

    if (r->decoder != NULL)
        snprintf(decoding, sizeof decoding, ", decoding %.1f", mebibytes(decoder));

    for (uint32_t k = 0; packed && r->fusion != NULL && k < plait_fusion_nbucket(r->fusion); k++)
        if (plait_fusion_bucket(r->fusion, k, &b) == PLAIT_OK)
            payload += b.bytes;
    snprintf(out, room,
             "memory of a rank in MiB: %.1f%s, of it activations %.1f, weights of a pass %.1f, workspaces %.1f,\n"
             "  master weights %.1f, gradients %.1f, momentum %.1f, buckets %.1f, centre %.1f%s images ahead %.1f%s%s",
             mebibytes(m.activations + m.weights + m.workspaces + 2 * weights + gradients + payload + centre + slots +
                       (pinned ? 0 : images) + decoder),
             gpu ? " on the GPU" : "", mebibytes(m.activations), mebibytes(m.weights), mebibytes(m.workspaces + slots),
             mebibytes(weights), mebibytes(gradients), mebibytes(weights), mebibytes(payload), mebibytes(centre),
             pinned ? "; pinned on the host:" : ",", mebibytes(images), decoding,
             gpu && r->o->graph ? "; the driver's for CUDA graphs is not counted" : "");
}

const char *graphs_text(const struct run *r)
{
    if (!r->o->graph || r->stream == NULL)
        return NULL;
    if (r->o->sync_norm && r->nrank > 1)
        return "the weights of passes; not the passes, as --sync-batch-norm sums on the host";
    if (r->o->reproducible && r->npass > 1)
        return "forward passes, the last backward pass, the weights of passes; not the other backward passes, which "
               "with --reproducible write to places of their own";
    return "forward and backward passes, and the weights of passes";
}

/* An exchange takes about as long as an all-reduce of the weights, and nothing hides it. */
static void print_elastic(struct calibration *c)
{
    struct run *r = c->run;
    const enum plait_dtype type = r->o->payload;
    const struct plait_fusion_bucket all = { .bytes = r->count * plait_dtype_size(type), .type = type };
    const double compute = r->npass * (c->forward + c->backward);
    void *memory = allocate(all.bytes, 1);
    const double takes = time_bucket(r, &all, 20, memory, NULL);

    if (r->rank == 0)
        printf("\nA step of %llu image%s: computing %.1f ms; every %llu step%s an exchange of %.1f MiB, about %.1f ms: "
               "at most\n"
               "%.1f %% of the time; about %.0f images/s, without reading images and the optimiser's step.\n",
               (unsigned long long)r->o->batch, plural(r->o->batch), 1e3 * compute, (unsigned long long)r->o->period,
               plural(r->o->period), mebibytes(all.bytes), 1e3 * takes,
               100 * takes / (takes + (double)r->o->period * compute),
               (double)r->o->batch / (compute + takes / (double)r->o->period));
    free(memory);
}

/* A bucket starts when its last gradient is ready and the previous bucket has ended. */
static void print_buckets(struct calibration *c)
{
    struct run *r = c->run;
    const uint32_t *order = model_backward_order(r->model), nbucket = plait_fusion_nbucket(r->fusion);
    const double before = (r->npass - 1) * (c->forward + c->backward) + c->forward;
    double end = 0, communicating = 0;
    size_t largest = 0;
    struct plait_fusion_bucket b;

    for (uint32_t k = 0; k < nbucket; k++)
        if (plait_fusion_bucket(r->fusion, k, &b) == PLAIT_OK && b.bytes > largest)
            largest = b.bytes;
    void *memory = r->device->kind->alloc(r->device, largest);
    if (r->rank == 0)
        printf("\n  bucket  tensors      bytes  %-24s  ready ms  takes ms  ends ms\n", "algorithm");
    for (uint32_t k = 0; k < nbucket; k++) {
        char algorithm[64];
        must(plait_fusion_bucket(r->fusion, k, &b), "a bucket");
        algorithm_of(r, &b, algorithm, sizeof algorithm);
        const double takes = time_bucket(r, &b, 20, memory, r->stream);
        const double ready = before + c->ready[order[b.last]];
        end = fmax(end, ready) + takes;
        communicating += takes;
        if (r->rank == 0)
            printf("  %6u  %7u  %9zu  %-24s  %8.2f  %8.3f  %7.2f\n", k, b.ntensor, b.bytes, algorithm, 1e3 * ready,
                   1e3 * takes, 1e3 * end);
    }
    const double compute = before + c->backward, step = fmax(end, compute);
    if (r->rank == 0)
        printf("\nA step of %llu image%s: computing %.1f ms, communicating %.1f ms, of which %.2f ms are exposed: %.1f "
               "%%\n"
               "of the step; about %.0f images/s, without reading images and the optimiser's step.\n",
               (unsigned long long)r->o->batch, plural(r->o->batch), 1e3 * compute, 1e3 * communicating,
               1e3 * (step - compute), 100 * (step - compute) / step, (double)r->o->batch / step);
}

void dry_run(struct run *r)
{
    struct calibration c = { .run = r };
    char memory[500];

    c.ready = allocate(r->ntensor, sizeof *c.ready);
    c.this_ready = allocate(r->ntensor, sizeof *c.this_ready);
    if (r->rank == 0) {
        printf("%s, %zu weights in %u tensors; batch %llu on %u rank%s, %u pass%s of %llu image%s; %llu step%s of an "
               "epoch\n",
               r->o->model, r->count, r->ntensor, (unsigned long long)r->o->batch, r->nrank, plural(r->nrank), r->npass,
               r->npass == 1 ? "" : "es", (unsigned long long)r->o->micro, plural(r->o->micro),
               (unsigned long long)r->epoch_steps, plural(r->epoch_steps));
        memory_text(r, memory, sizeof memory);
        printf("%s\n", memory);
        if (graphs_text(r) != NULL)
            printf("CUDA graphs: %s\n", graphs_text(r));
    }
    time_passes(&c);
    if (r->fusion != NULL)
        print_buckets(&c);
    else
        print_elastic(&c);
    free(c.this_ready);
    free(c.ready);
}
