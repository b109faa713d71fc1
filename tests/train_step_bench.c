/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training steps on made-up images that lie in memory, and the least that they could take. train_step_bench.py starts the
 * ranks, has PyTorch beside them, and tells what to measure, a line of standard input at a time:
 *
 *     train_step_bench MODEL PIXELS BATCH PRECISION PAYLOAD [DEVICE]
 *
 * BATCH: of a rank and pass; fp32, bf16 or, on a GPU, fp16. DEVICE: cpu, cuda (all ranks on the first GPU),
 * cuda-nondeterministic, with algorithms whose sums differ in the last bits from run to run, or cuda-graph, as
 * plait-train --graph.
 *
 *     step N        training steps
 *     alone N       the same without the other ranks
 *     meet N        the same without gradients of others: where one would wait for those ranks wait for each other
 *     forward N     forward passes, backward N and update N the other parts of a step
 *     convolve N    the convolutions of a step alone
 *     add N         a += b on 128 MiB each
 *     host N        the calls of steps, each on an empty stream: what the host takes to put a step there
 *     gpu N         steps that lie on the stream before the GPU comes to them: what the GPU takes
 *     losses N      steps, each answered by its loss
 *     hash 1        a hash of the weights
 *     free 1        bytes of the GPU's memory that are free
 *
 * Each is answered by seconds, and seconds of those that waited for gradients. First of all comes a line with the bytes
 * that a step's batch norms move at least, and those that one `add` moves; last, the most memory that the process had.
 */
#include "../cuda/driver.h"
#include "../lib/base/clock.h"
#include "../train/bucket_ends.h"
#include "../train/device.h"
#include "../train/ending.h"
#include "../train/launch.h"

#include <plait/fusion.h>
#include <plait/optim.h>
#include <plait/stream.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Of a batch norm's input, each as large: forward it is read for the statistics, read and written; backward it and the
 * gradient are read for the sums, both read and one written. */
enum { NORM_PASSES = 8, ADD_PASSES = 3, ADD_BYTES = 128 << 20, FEW_BYTES = 16 << 20, MOST_ADDS = 1024, NCLASS = 1000 };

struct bench {
    struct place place;
    struct plait_comm *comm;
    struct model_options options;
    struct device *device;
    struct plait_stream *stream; /* of a GPU; NULL: a processor's */
    struct model *model;
    uint32_t n;      /* tensors */
    uint32_t *where; /* [n] of a tensor among the fusion's */
    float **masters; /* the device's */
    void **gradients;
    void *images;
    int32_t *labels;
    struct plait_fusion *fusion;
    struct plait_optim *optim;
    void *memory[2]; /* the device's, ADD_BYTES each */
    double exposed;
    enum company { TOGETHER, MEETING, ALONE } company;
};

static enum precision parse_precision(const char *name)
{
    return strcmp(name, "bf16") == 0 ? PRECISION_BF16 : strcmp(name, "fp16") == 0 ? PRECISION_FP16 : PRECISION_FP32;
}

/* As plait-train: what travels in 16 bits is written as such. */
static enum plait_dtype gradient_type(const struct bench *b)
{
    return b->options.gradients == PRECISION_BF16   ? PLAIT_BFLOAT16
           : b->options.gradients == PRECISION_FP16 ? PLAIT_FLOAT16
                                                    : PLAIT_FLOAT32;
}

static void make_device(struct bench *b, enum precision precision, const char *name)
{
    const struct device_kind *kind = strncmp(name, "cuda", 4) == 0 ? &device_cuda : &device_cpu;

    b->device = kind->create(&(struct device_options){
        .precision = precision, .threads = 1, .nondeterministic = strcmp(name, "cuda-nondeterministic") == 0 });
    if (b->device->stream != NULL)
        must(plait_stream_create_cuda_on(0, b->device->stream, &b->stream), "the stream");
}

static void make_weights(struct bench *b)
{
    float **host = allocate(b->n, sizeof *host);

    for (uint32_t t = 0; t < b->n; t++) {
        host[t] = allocate(model_tensor(b->model, t)->count, sizeof(float));
        b->masters[t] = b->device->kind->alloc(b->device, model_tensor(b->model, t)->count * sizeof(float));
    }
    model_initialise(b->model, 1, true, host);
    for (uint32_t t = 0; t < b->n; t++) {
        b->device->kind->copy_in(b->device, b->masters[t], host[t], model_tensor(b->model, t)->count * sizeof(float));
        free(host[t]);
    }
    free(host);
    model_refresh(b->model, (const float *const *)b->masters);
}

static void make_model(struct bench *b, char **argv, const char *device)
{
    make_device(b, parse_precision(argv[4]), device);
    b->options = (struct model_options){ .device = b->device,
                                         .name = argv[1],
                                         .nclass = NCLASS,
                                         .pixels = (uint32_t)atoi(argv[2]),
                                         .batch = (uint32_t)atoi(argv[3]),
                                         .bytes = b->device->kind->bytes && strcmp(argv[4], "fp32") != 0,
                                         .mean = { 0.5, 0.5, 0.5 },
                                         .deviation = { 0.25, 0.25, 0.25 },
                                         .precision = parse_precision(argv[4]),
                                         .gradients = parse_precision(argv[5]),
                                         .training = true };
    b->model = model_create(&b->options);
    if (b->model == NULL)
        exit(ENDING_USAGE);
    b->n = model_ntensor(b->model);
    b->masters = allocate(b->n, sizeof *b->masters);
    make_weights(b);
}

static void make_batch(struct bench *b)
{
    const size_t n = (size_t)b->options.batch * b->options.pixels * b->options.pixels * 3;

    b->images = b->device->kind->alloc_host(b->device, n * (b->options.bytes ? 1 : sizeof(float)));
    b->labels = b->device->kind->alloc_host(b->device, b->options.batch * sizeof *b->labels);
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = (uint32_t)((i + b->place.rank) * 2654435761u % 1024);

        if (b->options.bytes)
            ((uint8_t *)b->images)[i] = (uint8_t)(number / 4);
        else
            ((float *)b->images)[i] = (float)number / 512 - 1;
    }
    for (uint32_t i = 0; i < b->options.batch; i++)
        b->labels[i] = (int32_t)(i * 7 % NCLASS);
}

static void make_buckets(struct bench *b)
{
    const uint32_t *order = model_backward_order(b->model);
    struct plait_tensor *tensors = allocate(b->n, sizeof *tensors);
    struct plait_fusion_options f = PLAIT_FUSION_OPTIONS_DEFAULT;

    b->where = allocate(b->n, sizeof *b->where);
    b->gradients = allocate(b->n, sizeof *b->gradients);
    for (uint32_t k = 0; k < b->n; k++) {
        const struct tensor *t = model_tensor(b->model, order[k]);
        tensors[k] = (struct plait_tensor){ t->name, t->count, gradient_type(b), NULL };
        b->where[order[k]] = k;
    }
    f.tensors = tensors;
    f.ntensor = b->n;
    f.stream = b->stream;
    must(plait_fusion_create(b->comm, &f, &b->fusion), "buckets");
    for (uint32_t t = 0; t < b->n; t++)
        b->gradients[t] = plait_fusion_data(b->fusion, b->where[t]);
    free(tensors);
}

static void make_optimiser(struct bench *b)
{
    struct plait_optim_options p = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_part *parts = allocate(b->n, sizeof *parts);

    for (uint32_t t = 0; t < b->n; t++)
        parts[t] = (struct plait_optim_part){ .tensor = t,
                                              .count = model_tensor(b->model, t)->count,
                                              .gradient = b->gradients[t],
                                              .type = gradient_type(b),
                                              .master = b->masters[t] };
    p.parts = parts;
    p.npart = p.ntensor = b->n;
    p.method = PLAIT_OPTIM_SGD;
    p.momentum = 0.9;
    p.decay = 1e-4;
    p.stream = b->stream;
    must(plait_optim_create(&p, &b->optim), "the optimiser");
    free(parts);
}

static void make_graphs(struct bench *b)
{
    bool *ends = bucket_ends(b->fusion, model_backward_order(b->model), b->n);

    model_record(b->model, &(struct model_step){ .smoothing = 0.1,
                                                 .gradients = b->gradients,
                                                 .masters = (const float *const *)b->masters,
                                                 .ends = ends });
    free(ends);
}

static void gradient_ready(void *context, uint32_t t)
{
    struct bench *b = context;

    if (b->company == TOGETHER)
        must(plait_fusion_ready(b->fusion, b->where[t]), "a gradient");
}

static void forward(struct bench *b)
{
    model_wait_images(b->model);
    model_forward(b->model, b->images, b->labels, true, 0.1);
}

static void backward(struct bench *b)
{
    const enum company company = b->company;

    b->company = ALONE;
    model_backward(b->model, NULL, b->gradients, false, gradient_ready, b);
    b->company = company;
}

static void update(struct bench *b)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.001;
    s.factor = 1.0 / (b->company == TOGETHER ? b->place.nrank : 1);
    must(plait_optim_step(b->optim, &s, NULL), "the optimiser");
    model_refresh(b->model, (const float *const *)b->masters);
}

/* As train/train.c's. */
static void step(struct bench *b)
{
    double begin;

    forward(b);
    model_backward(b->model, NULL, b->gradients, false, gradient_ready, b);
    begin = plait_clock();
    if (b->company == TOGETHER)
        must(plait_fusion_wait_all(b->fusion, NULL), "the gradients");
    if (b->company == MEETING)
        must(plait_barrier(b->comm, NULL), "meeting");
    b->exposed += plait_clock() - begin;
    update(b);
}

static void step_alone(struct bench *b)
{
    b->company = ALONE;
    step(b);
    b->company = TOGETHER;
}

static void step_meeting(struct bench *b)
{
    b->company = MEETING;
    step(b);
    b->company = TOGETHER;
}

static void convolve(struct bench *b)
{
    model_convolve(b->model);
}

static void add_bytes(struct bench *b, size_t bytes)
{
    for (size_t k = 0; k < 2 && b->memory[k] == NULL; k++)
        b->memory[k] = b->device->kind->alloc(b->device, ADD_BYTES);
    b->device->kind->add(b->device, (struct elements){ PRECISION_FP32, bytes / sizeof(float) }, b->memory[0],
                         b->memory[1]);
}

static void add(struct bench *b)
{
    add_bytes(b, ADD_BYTES);
}

static double host_seconds(struct bench *b)
{
    double begin;

    b->device->kind->synchronize(b->device);
    begin = plait_clock();
    step(b);
    return plait_clock() - begin;
}

/* Small additions, then perhaps a step. */
static double behind(struct bench *b, unsigned nadd, bool steps)
{
    const double begin = plait_clock();

    for (unsigned k = 0; k < nadd; k++)
        add_bytes(b, FEW_BYTES);
    if (steps)
        step(b);
    b->device->kind->synchronize(b->device);
    return plait_clock() - begin;
}

/* The additions take longer than the host to put a step behind them. */
static double gpu_seconds(struct bench *b)
{
    const double host = host_seconds(b);
    unsigned nadd = 1;

    b->device->kind->synchronize(b->device);
    behind(b, 1, false);
    while (nadd < MOST_ADDS && behind(b, nadd, false) < 1.5 * host)
        nadd *= 2;
    return behind(b, nadd, true) - behind(b, nadd, false);
}

static const struct of_step { /* seconds of one */
    const char *name;
    double (*measure)(struct bench *b);
} parts[] = { { "host", host_seconds }, { "gpu", gpu_seconds } };

static void measure_part(struct bench *b, const struct of_step *part, unsigned n)
{
    double seconds = 0;

    for (unsigned k = 0; k < n; k++)
        seconds += part->measure(b);
    printf("%.6f 0\n", seconds);
}

static const struct row {
    const char *name;
    void (*run)(struct bench *b);
} rows[] = { { "step", step },         { "alone", step_alone }, { "meet", step_meeting }, { "forward", forward },
             { "backward", backward }, { "update", update },    { "convolve", convolve }, { "add", add } };

static void measure(struct bench *b, const struct row *row, unsigned n)
{
    double begin;

    must(plait_barrier(b->comm, NULL), "meeting");
    begin = plait_clock();
    b->exposed = 0;
    for (unsigned k = 0; k < n; k++)
        row->run(b);
    b->device->kind->synchronize(b->device);
    printf("%.6f %.6f\n", plait_clock() - begin, b->exposed);
}

static void print_losses(struct bench *b, unsigned n)
{
    model_result(b->model);
    for (unsigned k = 0; k < n; k++) {
        step(b);
        const struct model_result result = model_result(b->model);
        printf("%.9g%s", result.loss / (double)result.n, k + 1 < n ? " " : "\n");
    }
}

static void print_hash(const struct bench *b)
{
    uint64_t hash = 14695981039346656037u;

    for (uint32_t t = 0; t < b->n; t++) {
        const size_t n = model_tensor(b->model, t)->count;
        uint32_t *bits = allocate(n, sizeof *bits);

        b->device->kind->copy_out(b->device, bits, b->masters[t], n * sizeof *bits);
        for (size_t k = 0; k < n; k++)
            hash = (hash ^ bits[k]) * 1099511628211u;
        free(bits);
    }
    printf("%u\n", (unsigned)(hash >> 32 ^ hash));
}

static void print_free(const struct bench *b)
{
    size_t left = 0, total = 0;

    b->device->kind->synchronize(b->device);
    if (b->stream != NULL)
        plait_cuda.mem_info(&left, &total);
    printf("%zu\n", left);
}

static long most_memory(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

int main(int argc, char **argv)
{
    struct plait_comm_options c = PLAIT_COMM_OPTIONS_DEFAULT;
    struct bench b = { .company = TOGETHER };
    char name[16];
    unsigned n;

    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: train_step_bench MODEL PIXELS BATCH fp32|bf16|fp16 PAYLOAD (likewise) "
                        "[cpu|cuda|cuda-nondeterministic|cuda-graph], "
                        "under torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n");
        return ENDING_USAGE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!launch(0, 1, &b.place))
        return ENDING_USAGE;
    c.rank = b.place.rank;
    c.nrank = b.place.nrank;
    c.id = &b.place.id;
    must(plait_comm_create(&c, &b.comm), "meeting");
    make_model(&b, argv, argc > 6 ? argv[6] : "cpu");
    make_batch(&b);
    make_buckets(&b);
    make_optimiser(&b);
    if (argc > 6 && strcmp(argv[6], "cuda-graph") == 0)
        make_graphs(&b);
    printf("%zu %zu\n", NORM_PASSES * model_norm_bytes(b.model), (size_t)ADD_PASSES * ADD_BYTES);
    while (scanf("%15s %u", name, &n) == 2) {
        if (strcmp(name, "losses") == 0)
            print_losses(&b, n);
        if (strcmp(name, "hash") == 0)
            print_hash(&b);
        if (strcmp(name, "free") == 0)
            print_free(&b);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (strcmp(parts[k].name, name) == 0)
                measure_part(&b, &parts[k], n);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strcmp(rows[k].name, name) == 0)
                measure(&b, &rows[k], n);
    }
    printf("%ld\n", most_memory());
    return 0;
}
