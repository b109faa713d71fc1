/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that networks plan on a GPU, beside the processors' plan: no more, and hardly less. A GPU keeps no masks of
 * ReLUs, and has one copy of the weights for both passes.
 */
#include "device.h"

#include "../../unit.h"

#include <stdlib.h>

static struct model_memory plan(const struct device_kind *kind, const char *name, bool training)
{
    struct device *device = kind->create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 });
    const struct model_options options = {
        .device = device, .name = name, .nclass = 10, .pixels = 64, .batch = 4, .training = training
    };
    struct model *model = model_create(&options);
    const struct model_memory memory = model_memory(model);

    model_destroy(model);
    kind->destroy(device);
    return memory;
}

static void check(const char *name, bool training)
{
    const struct model_memory cpu = plan(&device_cpu, name, training), gpu = plan(&device_cuda, name, training);

    print_message("%s, %s: activations %zu, processors %zu; weights %zu, %zu\n", name,
                  training ? "training" : "evaluation", gpu.activations, cpu.activations, gpu.weights, cpu.weights);
    assert_true(gpu.activations <= cpu.activations);
    assert_true(gpu.activations > cpu.activations / 100 * 95);
    assert_true(gpu.weights <= cpu.weights);
    assert_true(gpu.weights >= cpu.weights / 100 * 49);
    if (!training)
        assert_int_equal(gpu.weights, cpu.weights);
}

static void networks_plan_the_processors_memory(void **state)
{
    for (const char *const *name = model_names(); *name != NULL; name++) {
        check(*name, false);
        check(*name, true);
    }
}

static void the_ranks_of_a_machine_are_spread_over_its_gpus(void **state)
{
    for (uint32_t rank = 0; rank < 7; rank++)
        assert_int_equal(device_cuda_of(rank), rank % 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ranks_of_a_machine_are_spread_over_its_gpus),
        cmocka_unit_test(networks_plan_the_processors_memory),
    };

    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    return cmocka_run_group_tests_name("cuda_memory", tests, NULL, NULL);
}
