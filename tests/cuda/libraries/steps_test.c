/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training step on a GPU, counted in calls of the driver: each step makes the same, allocates nothing, and waits only
 * for the copy of its images. The loss is read with one more wait. A bucket has one event before it and one after it.
 * With graphs a step launches few: forward pass, refresh of weights, and for each bucket the part of the backward pass
 * that completes it, whose gradients go before the next part is launched.
 */
#include "bucket_ends.h"
#include "device.h"

#include "../../tier.h"
#include "../../unit.h"
#include "../standin_ask.h"

#include <plait/comm.h>
#include <plait/fusion.h>
#include <plait/optim.h>
#include <plait/stream.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Calls that are counted. The last two put work on streams. */
static const char *const names[] = {
    "cuMemAlloc_v2",       "cuMemHostAlloc",      "cuMemFree_v2",      "cuGraphInstantiateWithFlags",
    "cuStreamSynchronize", "cuEventSynchronize",  "cuCtxSynchronize",  "cuEventQuery",
    "cuStreamQuery",       "cuModuleGetFunction", "cuStreamWaitEvent", "cuEventRecord",
    "cuGraphLaunch",       "cuMemcpyAsync",       "cuLaunchKernel"
};
enum {
    ALLOC,
    ALLOC_HOST,
    FREE,
    INSTANTIATE,
    STREAM_WAIT,
    EVENT_WAIT,
    CONTEXT_WAIT,
    RECORD = 11,
    GRAPH,
    COPY,
    LAUNCH,
    NNAME
};

struct counts {
    unsigned long long all, of[NNAME];
};

static struct counts count(void)
{
    unsigned long long (*all)(void), (*named)(const char *name);
    struct counts c;
    void *driver = dlopen(getenv("PLAIT_CUDA_DRIVER"), RTLD_NOW);

    assert_non_null(driver);
    *(void **)&named = dlsym(driver, "standin_named");
    *(void **)&all = dlsym(driver, "standin_calls");
    c.all = all();
    for (int k = 0; k < NNAME; k++)
        c.of[k] = named(names[k]);
    return c;
}

static unsigned long long puts_on(void *stream)
{
    unsigned long long (*puts)(void *stream);

    *(void **)&puts = dlsym(dlopen(getenv("PLAIT_CUDA_DRIVER"), RTLD_NOW), "standin_puts");
    return puts(stream);
}

static struct counts since(const struct counts *before)
{
    struct counts c = count();

    c.all -= before->all;
    for (int k = 0; k < NNAME; k++)
        c.of[k] -= before->of[k];
    return c;
}

struct training {
    struct device *device;
    struct model *model;
    struct plait_stream *stream;
    struct plait_comm *comm; /* of one rank */
    struct plait_fusion *fusion;
    struct plait_optim *optim;
    struct plait_loss_scale *scale; /* the device's */
    uint32_t n;
    float **masters;
    void **gradients;
    uint8_t *images;
    int32_t *labels;
    unsigned long long ngraph; /* launched when the step began */
    uint32_t nbucket, npart;   /* of a step: complete buckets; layers that complete some */
    uint32_t in_time;          /* buckets that were complete when their layer's part of the pass was launched */
    const char *layer;         /* the latest one */
};

/* The k-th tensor of the fusion is the k-th whose gradient is ready. */
static void make_buckets(struct training *t, size_t threshold)
{
    const uint32_t *order = model_backward_order(t->model);
    struct plait_comm_options c = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_fusion_options f = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor *tensors = calloc(t->n, sizeof *tensors);

    for (uint32_t k = 0; k < t->n; k++)
        tensors[k] = (struct plait_tensor){ model_tensor(t->model, order[k])->name,
                                            model_tensor(t->model, order[k])->count, PLAIT_FLOAT32, NULL };
    c.nrank = 1;
    f.tensors = tensors;
    f.ntensor = t->n;
    f.stream = t->stream;
    f.layout.threshold = threshold;
    assert_int_equal(plait_comm_create(&c, &t->comm), PLAIT_OK);
    assert_int_equal(plait_fusion_create(t->comm, &f, &t->fusion), PLAIT_OK);
    for (uint32_t k = 0; k < t->n; k++)
        t->gradients[order[k]] = plait_fusion_data(t->fusion, k);
    free(tensors);
}

static void make_optimiser(struct training *t)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;
    struct plait_optim_part *parts = calloc(t->n, sizeof *parts);

    t->scale = t->device->kind->alloc(t->device, sizeof scale);
    t->device->kind->copy_in(t->device, t->scale, &scale, sizeof scale);
    for (uint32_t k = 0; k < t->n; k++)
        parts[k] = (struct plait_optim_part){ .tensor = k,
                                              .count = model_tensor(t->model, k)->count,
                                              .gradient = t->gradients[k],
                                              .type = PLAIT_FLOAT32,
                                              .master = t->masters[k] };
    o.parts = parts;
    o.npart = o.ntensor = t->n;
    o.scale = t->scale;
    o.stream = t->stream;
    assert_int_equal(plait_optim_create(&o, &t->optim), PLAIT_OK);
    free(parts);
}

static void training_init(struct training *t, const char *name, uint32_t pixels)
{
    struct model_options options = { .name = name,
                                     .nclass = 10,
                                     .pixels = pixels,
                                     .batch = 1,
                                     .bytes = true,
                                     .mean = { 0.5, 0.5, 0.5 },
                                     .deviation = { 0.25, 0.25, 0.25 },
                                     .training = true };

    *t = (struct training){ .device = device_cuda.create(&(struct device_options){ .threads = 1 }) };
    options.device = t->device;
    t->model = model_create(&options);
    t->n = model_ntensor(t->model);
    t->masters = calloc(t->n, sizeof *t->masters);
    t->gradients = calloc(t->n, sizeof *t->gradients);
    for (uint32_t k = 0; k < t->n; k++) {
        const size_t bytes = model_tensor(t->model, k)->count * sizeof(float);
        t->masters[k] = device_cuda.alloc(t->device, bytes);
    }
    t->images = device_cuda.alloc_host(t->device, (size_t)3 * pixels * pixels);
    t->labels = device_cuda.alloc_host(t->device, sizeof *t->labels);
    assert_int_equal(plait_stream_create_cuda_on(0, t->device->stream, &t->stream), PLAIT_OK);
    make_buckets(t, pixels < 32 ? 256 << 10 : 4 << 20);
    make_optimiser(t);
    model_refresh(t->model, (const float *const *)t->masters);
    device_cuda.synchronize(t->device);
}

static void training_finish(struct training *t)
{
    plait_optim_destroy(t->optim);
    plait_fusion_destroy(t->fusion);
    plait_comm_destroy(t->comm);
    plait_stream_destroy(t->stream);
    model_destroy(t->model);
    device_cuda.destroy(t->device);
    free(t->masters);
    free(t->gradients);
}

/* As plait-train --graph. */
static void record(const struct training *t)
{
    bool *ends = bucket_ends(t->fusion, model_backward_order(t->model), t->n);

    model_record(t->model, &(struct model_step){ .smoothing = 0.1,
                                                 .scale = &t->scale->scale,
                                                 .gradients = t->gradients,
                                                 .masters = (const float *const *)t->masters,
                                                 .ends = ends });
    free(ends);
}

/* Two buckets may end in a layer. */
static void bucket_is_complete(struct training *t, const char *name)
{
    const size_t length = (size_t)(strrchr(name, '.') - name);

    t->nbucket++;
    if (t->layer == NULL || strncmp(t->layer, name, length + 1) != 0)
        t->npart++;
    t->layer = name;
    t->in_time += count().of[GRAPH] - t->ngraph == t->npart + 1; /* and the forward pass */
}

/* The library marks the end of a bucket on the stream. */
static void ready(void *context, uint32_t tensor)
{
    struct training *t = context;
    const unsigned long long before = puts_on(t->device->stream);
    uint32_t k = 0;

    while (model_backward_order(t->model)[k] != tensor)
        k++;
    assert_int_equal(plait_fusion_ready(t->fusion, k), PLAIT_OK);
    if (puts_on(t->device->stream) > before)
        bucket_is_complete(t, model_tensor(t->model, tensor)->name);
}

/* As train.c's, of one rank. */
static void step(struct training *t)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.01;
    t->ngraph = count().of[GRAPH];
    t->nbucket = t->npart = t->in_time = 0;
    t->layer = NULL;
    model_wait_images(t->model);
    model_forward(t->model, t->images, t->labels, true, 0.1);
    model_backward(t->model, &t->scale->scale, t->gradients, false, ready, t);
    assert_int_equal(plait_fusion_wait_all(t->fusion, NULL), PLAIT_OK);
    assert_int_equal(plait_optim_step(t->optim, &s, NULL), PLAIT_OK);
    model_refresh(t->model, (const float *const *)t->masters);
}

/* A step launches its graphs, and directly only the kernels of the optimiser and of the images. */
static void check_graphs(const struct training *t, const struct counts *step)
{
    const uint32_t nbucket = plait_fusion_nbucket(t->fusion);

    assert_true(t->npart > 1 && t->npart + 1 >= nbucket);
    assert_int_equal(step->of[GRAPH], t->npart + 2);
    assert_in_range(step->of[LAUNCH], 2, 3 + 1 + nbucket);
    assert_int_equal(t->nbucket, nbucket);
    assert_int_equal(t->in_time, nbucket);
}

static void check(const char *name, uint32_t pixels, bool graphs)
{
    struct training t;
    struct counts before, first, next;

    training_init(&t, name, pixels);
    if (graphs)
        record(&t);
    before = count();
    step(&t); /* the first one waits for no images, and nothing of it has run before */
    assert_int_equal(since(&before).of[GRAPH], 0);
    if (graphs)
        step(&t); /* which is recorded */
    before = count();
    step(&t);
    first = since(&before);
    print_message("%s: a step%s is %llu calls of the driver, of them launches of kernels %llu, of graphs %llu, copies "
                  "%llu\n",
                  name, graphs ? " with graphs" : "", first.all, first.of[LAUNCH], first.of[GRAPH], first.of[COPY]);
    for (int k = ALLOC; k <= INSTANTIATE; k++)
        assert_int_equal(first.of[k], 0);
    if (graphs)
        check_graphs(&t, &first);
    else
        assert_int_equal(first.of[GRAPH], 0);
    assert_int_equal(first.of[STREAM_WAIT] + first.of[CONTEXT_WAIT], 0);
    assert_int_equal(first.of[EVENT_WAIT], 1);
    assert_int_equal(first.of[RECORD], 2 * plait_fusion_nbucket(t.fusion) + 2); /* two of the images */
    assert_true(first.of[LAUNCH] > 0);
    for (int k = 0; k < 3; k++) {
        before = count();
        step(&t);
        next = since(&before);
        assert_memory_equal(next.of, first.of, sizeof next.of);
    }
    before = count();
    model_result(t.model);
    next = since(&before);
    assert_in_range(next.of[STREAM_WAIT], 1, 2);
    training_finish(&t);
}

static void a_step_waits_for_nothing(void **state)
{
    check("resnet20", 16, false);
    if (full()) /* the stand-in takes seconds for a step */
        check("resnet50", 32, false);
}

static void a_step_of_graphs_is_few_launches_and_buckets_go_between_them(void **state)
{
    check("resnet20", 16, true);
    if (full())
        check("resnet50", 32, true);
}

static void is_direct(const struct counts *before)
{
    assert_int_equal(since(before).of[GRAPH], 0);
}

/* Each differs from that of a step in one argument. */
static void calls_with_other_arguments_are_no_graphs(void **state)
{
    struct training t;
    struct counts before;

    training_init(&t, "resnet20", 16);
    record(&t);
    for (int k = 0; k < 3; k++)
        step(&t);
    void **gradients = calloc(t.n, sizeof *gradients);
    float **masters = calloc(t.n, sizeof *masters);
    memcpy(gradients, t.gradients, t.n * sizeof *gradients);
    memcpy(masters, t.masters, t.n * sizeof *masters);
    gradients[t.n - 1] = masters[t.n - 1] = device_cuda.alloc(t.device, model_tensor(t.model, t.n - 1)->count * 4);
    before = count();
    model_forward(t.model, t.images, t.labels, false, 0.1);
    is_direct(&before);
    model_forward(t.model, t.images, t.labels, true, 0.2);
    model_backward(t.model, &t.scale->scale, t.gradients, false, NULL, NULL);
    is_direct(&before);
    model_refresh(t.model, (const float *const *)masters);
    is_direct(&before);
    model_forward(t.model, t.images, t.labels, true, 0.1);
    before = count();
    model_backward(t.model, NULL, t.gradients, false, NULL, NULL);
    model_backward(t.model, &t.scale->scale, gradients, false, NULL, NULL);
    is_direct(&before);
    model_backward(t.model, &t.scale->scale, t.gradients, false, NULL, NULL);
    assert_true(since(&before).of[GRAPH] > 0);
    free(gradients);
    free(masters);
    training_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_waits_for_nothing),
        cmocka_unit_test(calls_with_other_arguments_are_no_graphs),
        cmocka_unit_test(a_step_of_graphs_is_few_launches_and_buckets_go_between_them),
    };

    return cmocka_run_group_tests_name("cuda_steps", tests, NULL, NULL);
}
