/* SPDX-License-Identifier: BSD-3-Clause */
/* A plait-train without device code (cuda/kernels/no_images.c) says so first, whatever else is missing. */
#include "child.h"
#include "device.h"
#include "unit.h"

#include <string.h>

static void choose_a_gpu(void)
{
    device_cuda_of(0);
}

static void create_a_device(void)
{
    device_cuda.create(&(struct device_options){ .number = 0 });
}

static void a_build_without_gpus_says_so_before_it_looks_for_a_driver(void **state)
{
    void (*const calls[])(void) = { choose_a_gpu, create_a_device };
    char text[1024];

    for (int k = 0; k < 2; k++) {
        assert_int_equal(child_run(calls[k], text, sizeof text), 1);
        assert_non_null(strstr(text, "--device cuda: this plait-train was built without support for GPUs: configure"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_without_gpus_says_so_before_it_looks_for_a_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
