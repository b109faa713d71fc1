/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training steps on made-up images that lie in memory, and the least that they could take. train_step_bench.py starts the
 * ranks, has PyTorch beside them, and tells what to measure, a line of standard input at a time:
 *
 *     train_step_bench MODEL PIXELS BATCH PRECISION PAYLOAD    BATCH of a rank and pass; fp32 or bf16
 *
 *     step N        training steps
 *     alone N       the same without the other ranks
 *     meet N        the same without gradients of others: where one would wait for those ranks wait for each other
 *     convolve N    the convolutions of a step alone
 *     add N         a += b on 128 MiB each
 *
 * Each is answered by seconds, and seconds of those that waited for gradients. First of all comes a line with the bytes
 * that a step's batch norms move at least, and those that one `add` moves; last, the most memory that the process had.
 */
#include "../lib/base/clock.h"
#include "../train/elementwise.h"
#include "../train/ending.h"
#include "../train/launch.h"

#include <plait/fusion.h>
#include <plait/optim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Of a batch norm's input, each as large: forward it is read for the statistics, read and written; backward it and the
 * gradient are read for the sums, both read and one written. */
enum { NORM_PASSES = 8, ADD_PASSES = 3, ADD_BYTES = 128 << 20, NCLASS = 1000 };

struct bench {
    struct place place;
    struct plait_comm *comm;
    struct model_options options;
    struct model *model;
    uint32_t n;      /* tensors */
    uint32_t *where; /* [n] of a tensor among the fusion's */
    float **masters;
    void **gradients;
    float *images;
    int32_t *labels;
    struct plait_fusion *fusion;
    struct plait_optim *optim;
    void *memory[2]; /* ADD_BYTES each */
    double exposed;
    enum company { TOGETHER, MEETING, ALONE } company;
};

static enum precision parse_precision(const char *name)
{
    return strcmp(name, "bf16") == 0 ? PRECISION_BF16 : PRECISION_FP32;
}

/* As plait-train: what travels as bf16 is written as such. */
static enum plait_dtype gradient_type(const struct bench *b)
{
    return b->options.gradients == PRECISION_BF16 ? PLAIT_BFLOAT16 : PLAIT_FLOAT32;
}

static void make_model(struct bench *b, char **argv)
{
    b->options = (struct model_options){ .name = argv[1],
                                         .nclass = NCLASS,
                                         .pixels = (uint32_t)atoi(argv[2]),
                                         .batch = (uint32_t)atoi(argv[3]),
                                         .precision = parse_precision(argv[4]),
                                         .gradients = parse_precision(argv[5]),
                                         .threads = 1,
                                         .training = true };
    b->model = model_create(&b->options);
    if (b->model == NULL)
        exit(ENDING_USAGE);
    b->n = model_ntensor(b->model);
    b->masters = allocate(b->n, sizeof *b->masters);
    for (uint32_t t = 0; t < b->n; t++)
        b->masters[t] = allocate(model_tensor(b->model, t)->count, sizeof(float));
    model_initialise(b->model, 1, true, b->masters);
    model_refresh(b->model, (const float *const *)b->masters);
}

static void make_batch(struct bench *b)
{
    const size_t n = (size_t)b->options.batch * b->options.pixels * b->options.pixels * 3;

    b->images = allocate(n, sizeof *b->images);
    b->labels = allocate(b->options.batch, sizeof *b->labels);
    for (size_t i = 0; i < n; i++)
        b->images[i] = (float)((i + b->place.rank) * 2654435761u % 1024) / 512 - 1;
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
    must(plait_optim_create(&p, &b->optim), "the optimiser");
    free(parts);
}

static void gradient_ready(void *context, uint32_t t)
{
    struct bench *b = context;

    if (b->company == TOGETHER)
        must(plait_fusion_ready(b->fusion, b->where[t]), "a gradient");
}

/* As train/train.c's. */
static void step(struct bench *b)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_optim_result updated;
    double begin;

    model_forward(b->model, b->images, b->labels, true, 0.1);
    model_backward(b->model, NULL, b->gradients, false, gradient_ready, b);
    begin = plait_clock();
    if (b->company == TOGETHER)
        must(plait_fusion_wait_all(b->fusion, NULL), "the gradients");
    if (b->company == MEETING)
        must(plait_barrier(b->comm, NULL), "meeting");
    b->exposed += plait_clock() - begin;
    s.lr = 0.001;
    s.factor = 1.0 / (b->company == TOGETHER ? b->place.nrank : 1);
    must(plait_optim_step(b->optim, &s, &updated), "the optimiser");
    model_refresh(b->model, (const float *const *)b->masters);
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

static void add(struct bench *b)
{
    for (size_t k = 0; k < 2 && b->memory[k] == NULL; k++)
        b->memory[k] = allocate(1, ADD_BYTES);
    elements_run(ELEMENTS_ADD, (struct elements){ PRECISION_FP32, ADD_BYTES / sizeof(float) }, 1, b->memory[0],
                 b->memory[1], NULL);
}

static const struct row {
    const char *name;
    void (*run)(struct bench *b);
} rows[] = {
    { "step", step }, { "alone", step_alone }, { "meet", step_meeting }, { "convolve", convolve }, { "add", add }
};

static void measure(struct bench *b, const struct row *row, unsigned n)
{
    double begin;

    must(plait_barrier(b->comm, NULL), "meeting");
    begin = plait_clock();
    b->exposed = 0;
    for (unsigned k = 0; k < n; k++)
        row->run(b);
    printf("%.6f %.6f\n", plait_clock() - begin, b->exposed);
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

    if (argc != 6) {
        fprintf(stderr,
                "usage: train_step_bench MODEL PIXELS BATCH fp32|bf16 PAYLOAD (fp32|bf16), under torchrun's RANK, "
                "WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n");
        return ENDING_USAGE;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!launch(0, 1, &b.place))
        return ENDING_USAGE;
    c.rank = b.place.rank;
    c.nrank = b.place.nrank;
    c.id = &b.place.id;
    must(plait_comm_create(&c, &b.comm), "meeting");
    make_model(&b, argv);
    make_batch(&b);
    make_buckets(&b);
    make_optimiser(&b);
    printf("%zu %zu\n", NORM_PASSES * model_norm_bytes(b.model), (size_t)ADD_PASSES * ADD_BYTES);
    while (scanf("%15s %u", name, &n) == 2)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strcmp(rows[k].name, name) == 0)
                measure(&b, &rows[k], n);
    printf("%ld\n", most_memory());
    return 0;
}
