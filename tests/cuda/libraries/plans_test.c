/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVIDIA's own cuDNN plans every convolution of the networks, without a GPU: for GPUs as CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
 * describes them. So attributes, types and counts are what cuDNN wants, and an engine is found for each shape. Where
 * there is no cuDNN from 9.8 on, the tests skip.
 */
#include "../../unit.h"

#include "convolution.h"
#include "find.h"
#include "libraries.h"
#include "network.h"
#include "nvjpeg12.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct described { /* a GPU */
    const char *name;
    int capability, multiprocessors, shared, reserved, blocks, threads, l2;
    long long memory;
};

static const struct described h200 = { "NVIDIA H200", 900, 132, 232448, 1024, 32, 2048, 62914560, 150109880320 };
static const struct described a100 = { "NVIDIA A100", 800, 108, 166912, 1024, 32, 2048, 41943040, 85174583296 };
static const struct described t4 = { "Tesla T4", 750, 40, 65536, 0, 16, 1024, 4194304, 15843721216 };

static struct libraries *open_described(const struct described *g)
{
    struct libraries *l = NULL;
    const char *why;
    char json[1024];

    snprintf(
        json, sizeof json,
        "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"deviceName\": \"%s\", "
        "\"cudaDeviceId\": 0, \"deviceVer\": %d, \"multiProcessorCount\": %d, \"driverVer\": 13000, "
        "\"maxSharedMemoryPerBlockOptin\": %d, \"totalGlobalMem\": %lld, \"regsPerBlock\": 65536, "
        "\"smClockRateKHz\": 1500000, \"memClockRateKHz\": 2000000, \"l2CacheSize\": %d, \"warpSize\": 32, "
        "\"maxSharedMemoryPerBlock\": 49152, \"reservedSharedMemoryPerBlock\": %d, \"maxRegistersPerSM\": 65536, "
        "\"pciDeviceId\": 0, \"maxCtasPerSM\": %d, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": %d, "
        "\"isTccDriver\": 0, \"supportCoopLaunch\": 1}",
        g->name, g->capability, g->multiprocessors, g->shared, g->memory, g->l2, g->reserved, g->blocks, g->threads);
    why = libraries_describe(json, NULL, &l);
    if (why != NULL) {
        print_message("no plans without a GPU: %s\n", why);
        skip();
    }
    return l;
}

static struct device_convolution shape_of(const struct network *network, const struct node *node, uint32_t batch)
{
    const struct value in = network->values[node->in], out = network->values[node->out];

    return (struct device_convolution){ batch,        in.channels,  out.channels, in.height,    in.width,
                                        node->kernel, node->stride, node->pad,    node->in == 0 };
}

struct tally {
    unsigned plans;
    size_t most;
};

static void plan(struct libraries *l, const struct device_convolution *shape, const struct convolution_wants *wants,
                 struct tally *tally)
{
    for (int pass = CONVOLUTION_FORWARD; pass <= CONVOLUTION_BACK_WEIGHTS; pass++) {
        const struct convolution *before = l->convolutions;
        struct convolution *c;
        const char *why = convolution_find(l, shape, (enum convolution_pass)pass, wants, &c);

        if (why != NULL)
            fail_msg("%s", why);
        if (l->convolutions != before && getenv("PLAIT_TEST_SHOW") != NULL)
            print_message("%ux%ux%ux%u to %u, %ux%u/%u, %d, pass %d: %s, %zu bytes\n", shape->n, shape->height,
                          shape->width, shape->in, shape->out, shape->kernel, shape->kernel, shape->stride,
                          (int)wants->precision, pass, convolution_engine(c), convolution_workspace(c));
        tally->plans += l->convolutions != before;
        tally->most = convolution_workspace(c) > tally->most ? convolution_workspace(c) : tally->most;
    }
}

static void plan_network(const struct described *gpu, const char *name, uint32_t pixels, uint32_t batch,
                         struct convolution_wants wants)
{
    struct libraries *l = open_described(gpu);
    struct network *network = network_create(name, 1000, pixels);
    struct tally tally = { 0, 0 };

    wants.most_workspace = (size_t)1 << 30;
    for (uint32_t k = 0; k < network->nnode; k++)
        if (network->nodes[k].kind == NODE_CONVOLUTION) {
            const struct device_convolution shape = shape_of(network, &network->nodes[k], batch);
            plan(l, &shape, &wants, &tally);
        }
    assert_true(tally.plans >= 20);
    print_message("cuDNN %s, %s, %s of %u images, precision %d%s: %u plans, at most %zu MiB of workspace\n",
                  l->cudnn_version, gpu->name, name, batch, (int)wants.precision, wants.tf32 ? " (TF32)" : "",
                  tally.plans, tally.most >> 20);
    network_destroy(network);
    libraries_destroy(l);
}

static void cudnn_plans_every_network_in_every_precision(void **state)
{
    static const struct {
        const char *name;
        uint32_t pixels, batch;
    } networks[] = { { "resnet20", 32, 128 }, { "resnet50", 224, 64 }, { "resnet152", 224, 32 } };

    for (int n = 0; n < 3; n++)
        for (int p = PRECISION_FP32; p <= PRECISION_FP16; p++)
            plan_network(&h200, networks[n].name, networks[n].pixels, networks[n].batch,
                         (struct convolution_wants){ .precision = (enum precision)p });
}

static void cudnn_plans_tf32_and_sums_in_any_order(void **state)
{
    plan_network(&h200, "resnet50", 224, 64, (struct convolution_wants){ .precision = PRECISION_FP32, .tf32 = true });
    plan_network(&h200, "resnet50", 224, 64,
                 (struct convolution_wants){ .precision = PRECISION_BF16, .nondeterministic = true });
}

static void cudnn_plans_for_older_gpus_and_odd_sizes(void **state)
{
    plan_network(&a100, "resnet50", 224, 64, (struct convolution_wants){ .precision = PRECISION_BF16 });
    plan_network(&t4, "resnet50", 224, 32, (struct convolution_wants){ .precision = PRECISION_FP16 });
    plan_network(&t4, "resnet50", 161, 3, (struct convolution_wants){ .precision = PRECISION_FP32 });
    plan_network(&h200, "resnet50", 161, 3, (struct convolution_wants){ .precision = PRECISION_BF16 });
}

static struct convolution *found(struct libraries *l, struct convolution_wants wants, enum convolution_pass pass)
{
    const struct device_convolution shape = { 64, 64, 64, 56, 56, 3, 1, 1, false };
    struct convolution *c;

    assert_null(convolution_find(l, &shape, pass, &wants, &c));
    return c;
}

/* fp32 takes no tensor cores unless TF32 is wanted; bf16 does. Fewer bytes of workspace are kept to. */
static void engines_are_what_is_wanted(void **state)
{
    struct libraries *l = open_described(&h200);
    struct convolution_wants wants = { PRECISION_FP32, false, false, (size_t)1 << 30 };
    const struct convolution *exact = found(l, wants, CONVOLUTION_FORWARD);

    assert_null(strstr(convolution_engine(exact), "(tensor cores)"));
    wants.most_workspace = 0;
    assert_int_equal(convolution_workspace(found(l, wants, CONVOLUTION_FORWARD)), 0);
    wants = (struct convolution_wants){ PRECISION_FP32, true, false, (size_t)1 << 30 };
    assert_non_null(strstr(convolution_engine(found(l, wants, CONVOLUTION_FORWARD)), "(tensor cores)"));
    wants.precision = PRECISION_BF16;
    assert_non_null(strstr(convolution_engine(found(l, wants, CONVOLUTION_BACK_WEIGHTS)), "(tensor cores)"));
    libraries_destroy(l);
}

static void bf16_on_a_gpu_without_it_is_refused(void **state)
{
    const struct convolution_wants wants = { PRECISION_BF16, false, false, (size_t)1 << 30 };
    const struct device_convolution shape = { 64, 64, 64, 56, 56, 3, 1, 1, false };
    struct libraries *l = open_described(&t4);
    struct convolution *c;
    const char *why = convolution_find(l, &shape, CONVOLUTION_FORWARD, &wants, &c);

    assert_non_null(why);
    assert_non_null(strstr(why, "has no plan for the 3x3 convolution with stride 1 of 64x56x56x64 to 64 channels in "
                                "bf16, forward"));
    libraries_destroy(l);
}

/* Everything but the run itself is as it is with a GPU; without one there is no handle. */
static void a_run_without_a_gpu_gets_as_far_as_its_execution(void **state)
{
    struct libraries *l = open_described(&h200);
    struct convolution *c =
        found(l, (struct convolution_wants){ PRECISION_BF16, false, false, (size_t)1 << 30 }, CONVOLUTION_BACK_DATA);
    char memory[64];
    const char *why = convolution_run(c, memory, memory + 16, memory + 32, memory + 48);

    assert_non_null(why);
    assert_non_null(strstr(why, "cudnnBackendExecute of cuDNN 9."));
    libraries_destroy(l);
}

static void cublas_has_the_functions_that_are_used(void **state)
{
    const struct found f = find_library("libcublas.so.13", NULL);

    if (f.handle == NULL) {
        print_message("no cuBLAS 13 here: %s\n", f.why);
        skip();
    }
#define PLAIT_X(name, symbol, result, arguments) assert_non_null(dlsym(f.handle, symbol));
    CUBLAS12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
}

static void nvjpeg_has_the_functions_that_are_used(void **state)
{
    const struct found f = find_library("libnvjpeg.so.13", NULL);
    struct nvjpeg_functions functions;
    int major = 0;

    if (f.handle == NULL) {
        print_message("no nvJPEG 13 here: %s\n", f.why);
        skip();
    }
#define PLAIT_X(name, symbol, result, arguments)         \
    *(void **)&functions.name = dlsym(f.handle, symbol); \
    assert_non_null(functions.name);
    NVJPEG12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
    assert_int_equal(functions.property(BLAS_MAJOR_VERSION, &major), NVJPEG12_STATUS_SUCCESS);
    assert_int_equal(major, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_plans_every_network_in_every_precision),
        cmocka_unit_test(cudnn_plans_tf32_and_sums_in_any_order),
        cmocka_unit_test(cudnn_plans_for_older_gpus_and_odd_sizes),
        cmocka_unit_test(engines_are_what_is_wanted),
        cmocka_unit_test(bf16_on_a_gpu_without_it_is_refused),
        cmocka_unit_test(a_run_without_a_gpu_gets_as_far_as_its_execution),
        cmocka_unit_test(cublas_has_the_functions_that_are_used),
        cmocka_unit_test(nvjpeg_has_the_functions_that_are_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
