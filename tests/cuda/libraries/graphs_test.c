/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of a GPU (train/device.h): what is recorded runs when it is repeated; and what a recording cannot have. */
#include "device.h"
#include "gpu.h"

#include "../../child.h"
#include "../../unit.h"
#include "../standin_ask.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100 };
static const struct elements elements = { PRECISION_FP32, N };

static unsigned long long calls(const char *name)
{
    unsigned long long (*named)(const char *name);

    *(void **)&named = dlsym(dlopen(getenv("PLAIT_CUDA_DRIVER"), RTLD_NOW), "standin_named");
    return named(name);
}

static struct device *create(float *at[2])
{
    float host[N];
    struct device *device = device_cuda.create(&(struct device_options){ .threads = 1 });

    for (int k = 0; k < N; k++)
        host[k] = (float)k;
    for (int k = 0; k < 2; k++) {
        at[k] = device_cuda.alloc(device, sizeof host);
        device_cuda.copy_in(device, at[k], host, sizeof host);
    }
    return device;
}

/* As a thread that decodes images. */
static void *allocate_there(void *device)
{
    void *memory;

    device_cuda.begin(device);
    assert_null(gpu_alloc(&(struct gpu){ 0 }, N, &memory));
    gpu_free(memory);
    return NULL;
}

static void is_times(struct device *device, const float *at, int times)
{
    float host[N];

    device_cuda.copy_out(device, host, at, sizeof host);
    for (int k = 0; k < N; k++)
        assert_true(host[k] == (float)(times * k));
}

static void what_is_recorded_runs_when_it_is_repeated(void **state)
{
    const unsigned long long dropped = calls("cuGraphExecDestroy"), captured = calls("cuGraphDestroy");
    float *at[2];
    struct device *device = create(at);
    struct device_graph *graphs[2];
    pthread_t other;

    for (int k = 0; k < 2; k++) {
        device_cuda.record_begin(device);
        for (int n = 0; n <= k; n++)
            device_cuda.add(device, elements, at[0], at[1]);
        assert_int_equal(pthread_create(&other, NULL, allocate_there, device), 0);
        pthread_join(other, NULL);
        graphs[k] = device_cuda.record_end(device);
    }
    is_times(device, at[0], 1);
    device_cuda.replay(device, graphs[1]);
    device_cuda.add(device, elements, at[0], at[1]);
    device_cuda.replay(device, graphs[0]);
    device_cuda.replay(device, graphs[1]);
    is_times(device, at[0], 1 + 2 + 1 + 1 + 2);
    device_cuda.destroy(device);
    assert_int_equal(calls("cuGraphExecDestroy") - dropped, 2);
    assert_int_equal(calls("cuGraphDestroy") - captured, 2);
}

static void wait_in_a_recording(void)
{
    float *at[2];
    struct device *device = create(at);

    device_cuda.record_begin(device);
    device_cuda.synchronize(device);
}

static void allocate_in_a_recording(void)
{
    float *at[2];
    struct device *device = create(at);

    device_cuda.record_begin(device);
    device_cuda.alloc(device, N);
}

static void what_waits_or_allocates_in_a_recording_is_named_with_the_remedy(void **state)
{
    static const struct {
        void (*call)(void);
        const char *what;
    } cases[] = { { wait_in_a_recording, "cannot wait for the GPU" },
                  { allocate_in_a_recording, "cannot allocate memory of the GPU" } };
    char text[1024], wanted[200];

    for (int k = 0; k < 2; k++) {
        assert_int_equal(child_run(cases[k].call, text, sizeof text), 1);
        snprintf(wanted, sizeof wanted,
                 "--device cuda: %s: an error (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), while a CUDA graph was "
                 "recorded: use --no-graph",
                 cases[k].what);
        if (strstr(text, wanted) == NULL)
            fail_msg("%s", text);
    }
}

static void fail_after_a_recording(void)
{
    void (*arm)(unsigned long long n, int error);
    float *at[2];
    struct device *device = create(at);

    device_cuda.record_begin(device);
    device_cuda.add(device, elements, at[0], at[1]);
    device_cuda.record_end(device);
    *(void **)&arm = dlsym(dlopen(getenv("PLAIT_CUDA_DRIVER"), RTLD_NOW), "standin_arm");
    arm(1, 999);
    device_cuda.synchronize(device);
}

static void what_fails_after_a_recording_is_not_called_its_fault(void **state)
{
    char text[1024];

    assert_int_equal(child_run(fail_after_a_recording, text, sizeof text), 1);
    if (strstr(text, "cannot wait for the GPU") == NULL || strstr(text, "graph") != NULL)
        fail_msg("%s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_or_allocates_in_a_recording_is_named_with_the_remedy), /* forks: before streams */
        cmocka_unit_test(what_fails_after_a_recording_is_not_called_its_fault),
        cmocka_unit_test(what_is_recorded_runs_when_it_is_repeated),
    };

    return cmocka_run_group_tests_name("cuda_graphs", tests, NULL, NULL);
}
