/* SPDX-License-Identifier: BSD-3-Clause */
/* Pooling's kernels, as the host runs them, agree with plain loops, and with oneDNN. */
#include "device.h"
#include "train_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t pooled(const struct kernel_pool *p, uint32_t size)
{
    return (size + 2 * p->pad - p->kernel) / p->stride + 1;
}

struct pool {
    struct kernel_pool p;
    uint32_t height, width; /* of the output */
    struct array x, y, diff_y, diff_x, won;
    double *want_y, *want_x;
};

static struct pool pool_make(struct kernel_pool p, bool aligned)
{
    struct pool all = { .p = p, .height = pooled(&p, p.height), .width = pooled(&p, p.width) };
    const uint64_t in = (uint64_t)p.n * p.height * p.width * p.channels;
    const uint64_t out = (uint64_t)p.n * all.height * all.width * p.channels;

    assert_int_equal(kernel_pool_workspace(&p), p.average ? 0 : out);
    all.x = array_make(p.type, in, aligned);
    all.diff_x = array_make(p.type, in, aligned);
    all.y = array_make(p.type, out, aligned);
    all.diff_y = array_make(p.type, out, aligned);
    all.won = array_make(PLAIT_UINT8, out, aligned);
    all.want_y = calloc(out, sizeof(double));
    all.want_x = calloc(in, sizeof(double));
    return all;
}

static void pool_free(struct pool *all)
{
    array_free(&all->x);
    array_free(&all->y);
    array_free(&all->diff_x);
    array_free(&all->diff_y);
    array_free(&all->won);
    free(all->want_y);
    free(all->want_x);
}

static void pool_run(struct pool *all, uint32_t grid)
{
    const struct train_launcher l = on_host(grid);

    kernel_pool_forward(&l, &all->p, all->x.at, all->y.at, all->won.at);
    kernel_pool_back(&l, &all->p, all->diff_y.at, all->won.at, all->diff_x.at);
}

/* One output: of all that is in its window, in order. */
static void want_of(struct pool *all, uint32_t image, uint32_t y, uint32_t x, uint32_t c)
{
    const struct kernel_pool *p = &all->p;
    const uint64_t out = (((uint64_t)image * all->height + y) * all->width + x) * p->channels + c;
    const double diff = array_get(&all->diff_y, out);
    uint64_t at[256], n = 0, best = 0;
    double sum = 0;

    for (uint32_t k = 0; k < p->kernel * p->kernel; k++) {
        const uint32_t h = y * p->stride + k / p->kernel - p->pad, w = x * p->stride + k % p->kernel - p->pad;

        if (h < p->height && w < p->width)
            at[n++] = (((uint64_t)image * p->height + h) * p->width + w) * p->channels + c;
    }
    for (uint64_t k = 0; k < n; k++) {
        const double v = array_get(&all->x, at[k]), most = array_get(&all->x, at[best]);

        sum += v;
        best = !isnan(most) && (v > most || isnan(v)) ? k : best;
    }
    all->want_y[out] = p->average ? sum / (double)n : array_get(&all->x, at[best]);
    for (uint64_t k = 0; k < n; k++)
        if (p->average || k == best)
            all->want_x[at[k]] += p->average ? diff / (double)n : diff;
}

static void pool_check(struct pool *all)
{
    const uint32_t pixels = all->height * all->width;

    for (uint64_t k = 0; k < all->y.n; k++)
        want_of(all, (uint32_t)(k / all->p.channels / pixels), (uint32_t)(k / all->p.channels % pixels / all->width),
                (uint32_t)(k / all->p.channels % all->width), (uint32_t)(k % all->p.channels));
    assert_near(&all->y, all->want_y, all->p.average ? 1e-6 : 0);
    assert_near(&all->diff_x, all->want_x, 1e-6);
}

/* The first two are ResNet's. */
static const struct kernel_pool shapes[] = {
    { 2, 64, 12, 12, 3, 2, 1, 0, false }, { 3, 64, 7, 7, 7, 1, 0, 0, true },     { 2, 3, 9, 7, 3, 2, 1, 0, false },
    { 1, 10, 5, 11, 3, 2, 1, 0, true },   { 2, 16, 8, 8, 2, 2, 0, 0, false },    { 2, 100, 6, 5, 3, 1, 1, 0, true },
    { 1, 8, 17, 1, 1, 1, 0, 0, false },   { 1, 16, 20, 20, 16, 3, 8, 0, false }, { 1, 2048, 4, 4, 4, 1, 0, 0, true },
    { 1, 24, 13, 13, 5, 3, 2, 0, true },  { 1, 16, 5, 5, 2, 3, 0, 0, false },    { 1, 16, 5, 5, 2, 3, 0, 0, true },
};

static void windows_of_any_shape_agree_with_plain_loops(void **state)
{
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned t = 0; t < 6; t++) {
            struct kernel_pool p = shapes[s];
            uint64_t seed = s + 1;

            p.type = types[t % 3];
            struct pool all = pool_make(p, t < 3);
            array_draw(&all.x, &seed, 0, 2);
            array_draw(&all.diff_y, &seed, 0, 1);
            pool_run(&all, UINT32_MAX);
            pool_check(&all);
            pool_free(&all);
        }
}

/* Many equal ones, NaNs and infinities, as bits of each type: quiet NaN, both infinities. */
static void the_first_of_equal_maxima_wins_and_a_nan_stays(void **state)
{
    static const uint32_t special[3][3] = { { 0x7fc00000, 0x7f800000, 0xff800000 },
                                            { 0x7fc0, 0x7f80, 0xff80 },
                                            { 0x7e00, 0x7c00, 0xfc00 } };

    for (unsigned t = 0; t < 3; t++) {
        struct pool all = pool_make((struct kernel_pool){ 2, 32, 14, 14, 3, 2, 1, types[t], false }, true);
        uint64_t seed = 3;

        for (uint64_t k = 0; k < all.x.n; k++) {
            const uint32_t draw = random_below(&seed, 40);
            array_set(&all.x, k, (double)random_below(&seed, 3) - 2);
            if (draw < 3)
                array_set_bits(&all.x, k, special[t][draw]);
        }
        array_draw(&all.diff_y, &seed, 0, 1);
        pool_run(&all, UINT32_MAX);
        pool_check(&all);
        pool_free(&all);
    }
}

static void evaluation_needs_no_workspace(void **state)
{
    struct pool all = pool_make((struct kernel_pool){ 2, 32, 14, 14, 3, 2, 1, PLAIT_BFLOAT16, false }, true);
    const struct train_launcher l = on_host(UINT32_MAX);
    uint64_t seed = 4;

    array_draw(&all.x, &seed, 0, 1);
    pool_run(&all, UINT32_MAX);
    struct array y = array_copy(&all.y);
    memset(all.y.at, 0, all.y.n * all.y.size);
    kernel_pool_forward(&l, &all.p, all.x.at, all.y.at, NULL);
    assert_equal_bits(&y, &all.y);
    array_free(&y);
    pool_free(&all);
}

static void any_number_of_blocks_gives_the_same_bits(void **state)
{
    for (unsigned average = 0; average < 2; average++) {
        struct pool all[NGRID];

        for (unsigned g = 0; g < NGRID; g++) {
            uint64_t seed = 5;
            all[g] = pool_make((struct kernel_pool){ 3, 24, 10, 9, 3, 2, 1, PLAIT_FLOAT16, average }, true);
            array_draw(&all[g].x, &seed, 0, 1);
            array_draw(&all[g].diff_y, &seed, 0, 1);
            pool_run(&all[g], grids[g]);
            assert_equal_bits(&all[0].y, &all[g].y);
            assert_equal_bits(&all[0].won, &all[g].won);
            assert_equal_bits(&all[0].diff_x, &all[g].diff_x);
        }
        for (unsigned g = 0; g < NGRID; g++)
            pool_free(&all[g]);
    }
}

/* ---- The CPU's device ---- */

/* Of [n][channels][height][width]; element k of the NHWC one. */
static size_t plain_of(size_t k, size_t channels, size_t pixels)
{
    return (k / channels / pixels * channels + k % channels) * pixels + k / channels % pixels;
}

/* A tensor of the CPU's device, in its fastest layout. */
struct plain {
    struct device *device;
    const struct device_layout *plain, *fastest;
    size_t channels, pixels, n;
    void *at;
};

static struct plain plain_make(struct device *device, uint32_t n, uint32_t channels, uint32_t height, uint32_t width)
{
    const uint32_t shape[4] = { n, channels, height, width };
    struct plain p = { device,
                       device_cpu.layout(device, ORDER_PLAIN, PRECISION_FP32, 4, shape),
                       device_cpu.layout(device, ORDER_FASTEST, PRECISION_FP32, 4, shape),
                       channels,
                       (size_t)height * width,
                       (size_t)n * channels * height * width,
                       NULL };

    p.at = device_cpu.alloc(device, p.fastest->bytes);
    return p;
}

static void plain_put(struct plain *p, const struct array *a)
{
    float *plain = device_cpu.alloc(p->device, p->plain->bytes);

    for (size_t k = 0; k < p->n; k++)
        plain[plain_of(k, p->channels, p->pixels)] = ((const float *)a->at)[k];
    device_cpu.run(device_cpu.reorder(p->device, p->plain, p->fastest, false),
                   (void *[NARG]){ [ARG_SRC] = plain, [ARG_DST] = p->at }, NULL);
}

static void plain_compare(struct plain *p, const struct array *a)
{
    float *plain = device_cpu.alloc(p->device, p->plain->bytes);
    double *want = calloc(p->n, sizeof *want);

    device_cpu.run(device_cpu.reorder(p->device, p->fastest, p->plain, false),
                   (void *[NARG]){ [ARG_SRC] = p->at, [ARG_DST] = plain }, NULL);
    for (size_t k = 0; k < p->n; k++)
        want[k] = (double)plain[plain_of(k, p->channels, p->pixels)];
    assert_near(a, want, 1e-6);
    free(want);
}

static void the_cpus_device_gives_the_same(void **state)
{
    for (unsigned s = 0; s < 2; s++) {
        struct kernel_pool p = shapes[s];
        const struct device_pool shape = { p.n, p.channels, p.height, p.width, p.kernel, p.stride, p.pad, p.average };
        struct device *device =
            device_cpu.create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 });
        uint64_t seed = 6;

        p.type = PLAIT_FLOAT32;
        struct pool all = pool_make(p, true);
        struct plain x = plain_make(device, p.n, p.channels, p.height, p.width), diff_x = x;
        struct plain y = plain_make(device, p.n, p.channels, all.height, all.width), diff_y = y;
        struct device_op *forward = device_cpu.pool(device, &shape, true);
        struct device_op *back = device_cpu.back(forward, ARG_DIFF_SRC);
        const struct device_layout *workspace = forward->layouts[ARG_WORKSPACE];

        diff_x.at = device_cpu.alloc(device, x.fastest->bytes);
        diff_y.at = device_cpu.alloc(device, y.fastest->bytes);
        array_draw(&all.x, &seed, 0, 1);
        array_draw(&all.diff_y, &seed, 0, 1);
        pool_run(&all, UINT32_MAX);
        plain_put(&x, &all.x);
        plain_put(&diff_y, &all.diff_y);
        void *at[NARG] = { [ARG_SRC] = x.at,
                           [ARG_DST] = y.at,
                           [ARG_WORKSPACE] = workspace == NULL ? NULL : device_cpu.alloc(device, workspace->bytes),
                           [ARG_DIFF_DST] = diff_y.at,
                           [ARG_DIFF_SRC] = diff_x.at };
        void *scratch = device_cpu.alloc(device, device->scratch);
        device_cpu.run(forward, at, scratch);
        device_cpu.run(back, at, scratch);
        plain_compare(&y, &all.y);
        plain_compare(&diff_x, &all.diff_x);
        pool_free(&all);
        device_cpu.destroy(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_any_shape_agree_with_plain_loops),
        cmocka_unit_test(the_first_of_equal_maxima_wins_and_a_nan_stays),
        cmocka_unit_test(evaluation_needs_no_workspace),
        cmocka_unit_test(any_number_of_blocks_gives_the_same_bits),
        cmocka_unit_test(the_cpus_device_gives_the_same),
    };

    return cmocka_run_group_tests_name("train pool kernels", tests, NULL, NULL);
}
