/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training step on a GPU, counted in calls of the driver: each step makes the same, allocates nothing, and waits only
 * for the copy of its images. The loss is read with one more wait. A bucket has one event before it and one after it.
 */
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

/* Calls that are counted. The last two put work on streams. */
static const char *const names[] = { "cuMemAlloc_v2",       "cuMemHostAlloc",    "cuMemFree_v2",  "cuStreamSynchronize",
                                     "cuEventSynchronize",  "cuCtxSynchronize",  "cuEventQuery",  "cuStreamQuery",
                                     "cuModuleGetFunction", "cuStreamWaitEvent", "cuEventRecord", "cuMemcpyAsync",
                                     "cuLaunchKernel" };
enum { ALLOC, ALLOC_HOST, FREE, STREAM_WAIT, EVENT_WAIT, CONTEXT_WAIT, RECORD = 10, LAUNCH = 12, NNAME };

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
};

/* The k-th tensor of the fusion is the k-th whose gradient is ready. */
static void make_buckets(struct training *t)
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
    make_buckets(t);
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

static void ready(void *context, uint32_t tensor)
{
    struct training *t = context;
    uint32_t k = 0;

    while (model_backward_order(t->model)[k] != tensor)
        k++;
    assert_int_equal(plait_fusion_ready(t->fusion, k), PLAIT_OK);
}

/* As train.c's, of one rank. */
static void step(struct training *t)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.01;
    model_wait_images(t->model);
    model_forward(t->model, t->images, t->labels, true, 0.1);
    model_backward(t->model, &t->scale->scale, t->gradients, false, ready, t);
    assert_int_equal(plait_fusion_wait_all(t->fusion, NULL), PLAIT_OK);
    assert_int_equal(plait_optim_step(t->optim, &s, NULL), PLAIT_OK);
    model_refresh(t->model, (const float *const *)t->masters);
}

static void check(const char *name, uint32_t pixels)
{
    struct training t;
    struct counts before, first, next;

    training_init(&t, name, pixels);
    step(&t); /* the first one waits for no images */
    before = count();
    step(&t);
    first = since(&before);
    print_message("%s: a step is %llu calls of the driver, %llu of them launches of kernels, %llu copies\n", name,
                  first.all, first.of[LAUNCH], first.of[LAUNCH - 1]);
    for (int k = ALLOC; k <= FREE; k++)
        assert_int_equal(first.of[k], 0);
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
    check("resnet20", 16);
    if (full()) /* the stand-in takes seconds for a step */
        check("resnet50", 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_waits_for_nothing),
    };

    return cmocka_run_group_tests_name("cuda_steps", tests, NULL, NULL);
}
