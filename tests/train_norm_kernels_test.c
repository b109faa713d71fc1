/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm's kernels, as the host runs them, agree with sums in float64 and with oneDNN. */
#include "device.h"
#include "train_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A batch norm, and what it must give ---- */

enum {
    X,
    ADDEND,
    Y,
    DIFF_Y,
    DIFF_MORE,
    DIFF_X,
    NLARGE,
    MEAN = NLARGE,
    VARIANCE,
    SCALE,
    SHIFT,
    DIFF_SCALE,
    DIFF_SHIFT,
    NARRAY
};

struct norm {
    uint64_t rows;
    uint32_t channels;
    enum plait_dtype type;
    enum train_fused fused;
    bool more;              /* the gradient of y has two parts; ADD_RELU */
    struct array a[NARRAY]; /* [rows][channels], from MEAN on [channels] */
    double *want[NARRAY];
    struct array given; /* DIFF_Y before */
    void *scratch;
};

static struct norm norm_make(uint64_t rows, uint32_t channels, enum plait_dtype type, enum train_fused fused,
                             bool aligned)
{
    struct norm n = { .rows = rows, .channels = channels, .type = type, .fused = fused, .more = true };

    for (unsigned k = 0; k < NARRAY; k++) {
        const uint64_t count = k < NLARGE ? rows * channels : channels;

        n.a[k] = array_make(k < NLARGE ? type : PLAIT_FLOAT32, count, aligned);
        n.want[k] = calloc(count, sizeof(double));
    }
    n.scratch = aligned_alloc(16, kernel_norm_scratch(rows, channels, type));
    return n;
}

/* Numbers with this mean and deviation; about half of what is normalised is positive. */
static void norm_draw(struct norm *n, uint64_t seed, double mean, double deviation)
{
    array_draw(&n->a[X], &seed, mean, deviation);
    array_draw(&n->a[ADDEND], &seed, 0, 1);
    array_draw(&n->a[DIFF_Y], &seed, 0.25, 1);
    array_draw(&n->a[DIFF_MORE], &seed, 0, 1);
    n->given = array_copy(&n->a[DIFF_Y]);
    array_draw(&n->a[SCALE], &seed, 1, 0.5);
    array_draw(&n->a[SHIFT], &seed, 0, 0.5);
}

static void norm_free(struct norm *n)
{
    for (unsigned k = 0; k < NARRAY; k++) {
        array_free(&n->a[k]);
        free(n->want[k]);
    }
    array_free(&n->given);
    free(n->scratch);
}

static struct kernel_norm call_of(const struct norm *n)
{
    return (struct kernel_norm){ .rows = n->rows,
                                 .channels = n->channels,
                                 .type = n->type,
                                 .fused = n->fused,
                                 .x = n->a[X].at,
                                 .addend = n->fused == TRAIN_ADD_RELU ? n->a[ADDEND].at : NULL,
                                 .y = n->a[Y].at,
                                 .diff_y = n->a[DIFF_Y].at,
                                 .diff_more = n->fused == TRAIN_ADD_RELU && n->more ? n->a[DIFF_MORE].at : NULL,
                                 .diff_x = n->a[DIFF_X].at,
                                 .mean = n->a[MEAN].at,
                                 .variance = n->a[VARIANCE].at,
                                 .scale = n->a[SCALE].at,
                                 .shift = n->a[SHIFT].at,
                                 .diff_scale = n->a[DIFF_SCALE].at,
                                 .diff_shift = n->a[DIFF_SHIFT].at,
                                 .scratch = n->scratch };
}

static void norm_run(const struct norm *n, uint32_t grid, double count)
{
    const struct train_launcher l = on_host(grid);
    const struct kernel_norm call = call_of(n);

    memset(n->scratch, 0xff, kernel_norm_scratch(n->rows, n->channels, n->type));
    kernel_norm_measure(&l, &call);
    kernel_norm_forward(&l, &call);
    memset(n->scratch, 0xff, kernel_norm_scratch(n->rows, n->channels, n->type));
    kernel_norm_back_sums(&l, &call);
    kernel_norm_back(&l, &call, count);
}

/* The gradient of what is normalised. After a residual sum it is stored, where y, as it is stored, is above 0. */
static double gradient_wanted(struct norm *n, uint64_t k, double y)
{
    const double given = array_get(&n->given, k), more = n->more ? array_get(&n->a[DIFF_MORE], k) : 0;

    n->want[DIFF_Y][k] = n->fused != TRAIN_ADD_RELU ? given : array_get(&n->a[Y], k) > 0 ? given + more : 0;
    return n->fused == TRAIN_RELU && y <= 0 ? 0 : array_get(&n->a[DIFF_Y], k);
}

/* Statistics and sums are of what is there; the rest follows from their results, which are rounded. */
static void channel_wanted(struct norm *n, uint32_t c, double count)
{
    const double mean = array_get(&n->a[MEAN], c), scale = array_get(&n->a[SCALE], c);
    const double deviation = sqrt(array_get(&n->a[VARIANCE], c) + NORM_EPSILON);
    const double share = count > 0 ? 1 / count : 0;

    for (uint64_t k = c; k < n->rows * n->channels; k += n->channels)
        n->want[MEAN][c] += array_get(&n->a[X], k) / (double)n->rows;
    for (uint64_t k = c; k < n->rows * n->channels; k += n->channels) {
        const double x = array_get(&n->a[X], k), normal = (x - mean) / deviation;
        const double addend = n->fused == TRAIN_ADD_RELU ? array_get(&n->a[ADDEND], k) : 0;
        const double y = normal * scale + array_get(&n->a[SHIFT], c) + addend, g = gradient_wanted(n, k, y);

        n->want[VARIANCE][c] += pow(x - n->want[MEAN][c], 2) / (double)n->rows;
        n->want[Y][k] = n->fused != TRAIN_NOTHING && y < 0 ? 0 : y;
        n->want[DIFF_SHIFT][c] += g;
        n->want[DIFF_SCALE][c] += g * normal;
        n->want[DIFF_X][k] = scale / deviation *
                             (g - share * (array_get(&n->a[DIFF_SHIFT], c) + normal * array_get(&n->a[DIFF_SCALE], c)));
    }
}

/* `deviation` is of x, which the error of its rounded mean is a part of. */
static void norm_check(struct norm *n, double mean, double deviation, double count)
{
    const double moved = 0x1p-20 * (1 + fabs(mean) / deviation / 16), sums = 4e-6 * sqrt((double)n->rows);

    for (uint32_t c = 0; c < n->channels; c++)
        channel_wanted(n, c, count);
    for (uint32_t c = 0; c < n->channels; c++) {
        const double variance = array_get(&n->a[VARIANCE], c), wanted = n->want[VARIANCE][c];
        const double off = fabs(array_get(&n->a[MEAN], c) - n->want[MEAN][c]);

        if (!(off <= 1e-6 * deviation + 0x1p-23 * fabs(mean)) || !(fabs(variance - wanted) <= 2e-5 * wanted))
            fail_msg("channel %u: mean off by %g, variance %.9g instead of %.9g", c, off, variance, wanted);
    }
    assert_near(&n->a[Y], n->want[Y], 8 * moved);
    assert_near(&n->a[DIFF_Y], n->want[DIFF_Y], 1e-7); /* and one rounding */
    assert_near(&n->a[DIFF_SHIFT], n->want[DIFF_SHIFT], sums);
    assert_near(&n->a[DIFF_SCALE], n->want[DIFF_SCALE], sums + moved * (double)n->rows / 16);
    assert_near(&n->a[DIFF_X], n->want[DIFF_X], 16 * moved * (1 / deviation));
}

static const struct {
    uint64_t rows;
    uint32_t channels;
} shapes[] = { { 1, 3 },     { 1, 16 },    { 7, 10 },   { 7, 64 },    { 100, 100 }, { 100, 16 },
               { 1000, 64 }, { 49, 2048 }, { 2500, 3 }, { 40000, 8 }, { 3000, 264 } };

static void statistics_and_gradients_agree_with_sums_in_float64(void **state)
{
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned t = 0; t < 3; t++)
            for (unsigned kind = 0; kind < 6; kind++) {
                struct norm n = norm_make(shapes[s].rows, shapes[s].channels, types[t], (enum train_fused)(kind % 3),
                                          kind < 3 || s % 2 == 0);

                n.more = (s + t) % 3 != 0;
                norm_draw(&n, 1 + s, 3, 2);
                norm_run(&n, UINT32_MAX, (double)n.rows);
                norm_check(&n, 3, 2, (double)n.rows);
                norm_free(&n);
            }
}

static void a_mean_far_above_the_deviation_keeps_the_variance(void **state)
{
    struct norm n = norm_make(5000, 16, PLAIT_FLOAT32, TRAIN_RELU, true);

    norm_draw(&n, 5, 1000, 0.25);
    norm_run(&n, UINT32_MAX, 5000);
    norm_check(&n, 1000, 0.25, 5000);
    norm_free(&n);
}

static void equal_numbers_have_no_variance(void **state)
{
    struct norm n = norm_make(300, 10, PLAIT_BFLOAT16, TRAIN_NOTHING, true);

    norm_draw(&n, 6, 7, 0);
    norm_run(&n, UINT32_MAX, 300);
    for (uint32_t c = 0; c < 10; c++) {
        assert_true(array_get(&n.a[MEAN], c) == 7 && array_get(&n.a[VARIANCE], c) == 0);
        assert_true(array_get(&n.a[Y], c) == rounded(PLAIT_BFLOAT16, array_get(&n.a[SHIFT], c)));
    }
    norm_free(&n);
}

static void given_statistics_are_constants_of_the_backward_pass(void **state)
{
    for (unsigned t = 0; t < 3; t++) {
        struct norm n = norm_make(333, 64, types[t], t == 1 ? TRAIN_ADD_RELU : TRAIN_RELU, true);

        norm_draw(&n, 7, 1, 2);
        norm_run(&n, UINT32_MAX, 0);
        norm_check(&n, 1, 2, 0);
        norm_free(&n);
    }
}

/* As synchronised batch norm does: sums of all ranks, and their number of values. */
static void more_values_than_rows_lessen_the_correction(void **state)
{
    struct norm n = norm_make(333, 64, PLAIT_FLOAT32, TRAIN_NOTHING, true);

    norm_draw(&n, 8, 1, 2);
    norm_run(&n, UINT32_MAX, 4 * 333);
    norm_check(&n, 1, 2, 4 * 333);
    norm_free(&n);
}

static void any_number_of_blocks_gives_the_same_bits(void **state)
{
    for (unsigned t = 0; t < 3; t++) {
        struct norm n[NGRID];

        for (unsigned g = 0; g < NGRID; g++) {
            n[g] = norm_make(20000, 24, types[t], (enum train_fused)t, t < 2);
            norm_draw(&n[g], 9, 1, 2);
            norm_run(&n[g], grids[g], 20000);
            for (unsigned k = 0; k < NARRAY; k++)
                assert_equal_bits(&n[0].a[k], &n[g].a[k]);
        }
        for (unsigned g = 0; g < NGRID; g++)
            norm_free(&n[g]);
    }
}

static void results_may_take_the_place_of_inputs(void **state)
{
    struct norm n = norm_make(1000, 64, PLAIT_BFLOAT16, TRAIN_RELU, true);
    const struct train_launcher l = on_host(UINT32_MAX);

    norm_draw(&n, 10, 1, 2);
    norm_run(&n, UINT32_MAX, 1000);
    struct array x = array_copy(&n.a[X]), diff = array_copy(&n.a[DIFF_Y]);
    struct kernel_norm call = call_of(&n);
    call.diff_y = call.diff_x = diff.at;
    kernel_norm_back(&l, &call, 1000);
    assert_equal_bits(&diff, &n.a[DIFF_X]);
    call.x = call.y = x.at;
    kernel_norm_forward(&l, &call);
    assert_equal_bits(&x, &n.a[Y]);
    array_free(&x);
    x = array_copy(&n.a[X]);
    call.fused = TRAIN_ADD_RELU;
    call.addend = n.a[ADDEND].at;
    call.x = n.a[X].at;
    call.y = n.a[Y].at;
    kernel_norm_forward(&l, &call);
    call.x = call.y = x.at;
    kernel_norm_forward(&l, &call);
    assert_equal_bits(&x, &n.a[Y]);
    array_free(&x);
    array_free(&diff);
    norm_free(&n);
}

static void a_nan_stays_in_its_channel(void **state)
{
    struct norm n = norm_make(500, 64, PLAIT_FLOAT16, TRAIN_RELU, true);

    norm_draw(&n, 11, 1, 2);
    array_set_bits(&n.a[X], 64 * 77 + 5, 0x7e01);
    array_set_bits(&n.a[X], 64 * 78 + 6, 0x7c00);
    norm_run(&n, UINT32_MAX, 500);
    for (uint32_t c = 0; c < 64; c++) {
        const bool nan = c == 5 || c == 6;
        assert_true(isnan(array_get(&n.a[VARIANCE], c)) == nan);
        assert_true(isnan(array_get(&n.a[Y], 64 * 77 + c)) == nan);
        assert_true(isnan(array_get(&n.a[DIFF_X], 64 * 77 + c)) == nan);
    }
    norm_free(&n);
}

/* ---- The CPU's device ---- */

struct cpu {
    struct device *device;
    const struct device_layout *fastest;
    struct device_op *to, *from; /* plain to fastest, and back */
    void *plain, *scratch;
};

enum { IMAGES = 3, CHANNELS = 16, SIDE = 11, PIXELS = SIDE * SIDE, COUNT = IMAGES * CHANNELS * PIXELS };

static struct cpu cpu_make(void)
{
    const uint32_t shape[4] = { IMAGES, CHANNELS, SIDE, SIDE };
    struct cpu c = { .device =
                         device_cpu.create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 }) };

    c.fastest = device_cpu.layout(c.device, ORDER_FASTEST, PRECISION_FP32, 4, shape);
    const struct device_layout *plain = device_cpu.layout(c.device, ORDER_PLAIN, PRECISION_FP32, 4, shape);
    c.to = device_cpu.reorder(c.device, plain, c.fastest, false);
    c.from = device_cpu.reorder(c.device, c.fastest, plain, false);
    c.plain = device_cpu.alloc(c.device, plain->bytes);
    c.scratch = device_cpu.alloc(c.device, (size_t)1 << 20);
    return c;
}

/* Between NHWC and the CPU's layout. */
static uint32_t plain_place(uint32_t k)
{
    return (k / CHANNELS / PIXELS * CHANNELS + k % CHANNELS) * PIXELS + k / CHANNELS % PIXELS;
}

static void *cpu_put(struct cpu *c, const struct array *a)
{
    void *to = device_cpu.alloc(c->device, c->fastest->bytes);

    for (uint32_t k = 0; k < COUNT; k++)
        ((float *)c->plain)[plain_place(k)] = (float)array_get(a, k);
    device_cpu.run(c->to, (void *[NARG]){ [ARG_SRC] = c->plain, [ARG_DST] = to }, c->scratch);
    return to;
}

static void cpu_compare(struct cpu *c, void *from, const struct array *a, double most)
{
    double *want = calloc(COUNT, sizeof *want);

    device_cpu.run(c->from, (void *[NARG]){ [ARG_SRC] = from, [ARG_DST] = c->plain }, c->scratch);
    for (uint32_t k = 0; k < COUNT; k++)
        want[k] = (double)((const float *)c->plain)[plain_place(k)];
    assert_near(a, want, most);
    free(want);
}

static void vector_compare(const float *values, const struct array *a, double most)
{
    double want[CHANNELS];

    for (unsigned i = 0; i < CHANNELS; i++)
        want[i] = (double)values[i];
    assert_near(a, want, most);
}

/*
 * The CPU computes in float32 with the kernels' numbers. Kernels round the gradient of the addend before they use it:
 * that moves sums over the rows.
 */
static void check_beside_cpu(enum plait_dtype type, enum train_fused fused, bool more)
{
    struct cpu c = cpu_make();
    struct norm n = norm_make(IMAGES * PIXELS, CHANNELS, type, fused, true);
    struct device_op *forward = device_cpu.norm(c.device, c.fastest, NORM_BATCH, (enum device_fused)fused);
    struct device_op *back = device_cpu.back(forward, ARG_DIFF_SRC);
    const double moved = type == PLAIT_FLOAT32 ? 1e-5 : 2 * rounding(type), sums = moved * sqrt(IMAGES * PIXELS);
    float statistics[4][CHANNELS];

    norm_draw(&n, 12, 1, 2);
    n.more = more;
    norm_run(&n, UINT32_MAX, (double)n.rows);
    void *at[NARG] = { [ARG_SRC] = cpu_put(&c, &n.a[X]),
                       [ARG_ADDEND] = cpu_put(&c, &n.a[ADDEND]),
                       [ARG_DST] = device_cpu.alloc(c.device, c.fastest->bytes),
                       [ARG_MEAN] = statistics[0],
                       [ARG_VARIANCE] = statistics[1],
                       [ARG_SCALE] = n.a[SCALE].at,
                       [ARG_SHIFT] = n.a[SHIFT].at,
                       [ARG_WORKSPACE] = device_cpu.alloc(c.device, c.fastest->bytes),
                       [ARG_DIFF_DST] = cpu_put(&c, &n.given),
                       [ARG_DIFF_MORE] = more ? cpu_put(&c, &n.a[DIFF_MORE]) : NULL,
                       [ARG_DIFF_SRC] = device_cpu.alloc(c.device, c.fastest->bytes),
                       [ARG_DIFF_SCALE] = statistics[2],
                       [ARG_DIFF_SHIFT] = statistics[3] };
    assert_true(c.device->scratch <= (size_t)1 << 20);
    device_cpu.run(forward, at, c.scratch);
    device_cpu.run(back, at, c.scratch);
    cpu_compare(&c, at[ARG_DST], &n.a[Y], 1e-5);
    cpu_compare(&c, at[ARG_DIFF_DST], &n.a[DIFF_Y], 1e-7);
    cpu_compare(&c, at[ARG_DIFF_SRC], &n.a[DIFF_X], moved);
    vector_compare(statistics[0], &n.a[MEAN], 1e-5);
    vector_compare(statistics[1], &n.a[VARIANCE], 1e-5);
    vector_compare(statistics[2], &n.a[DIFF_SCALE], sums);
    vector_compare(statistics[3], &n.a[DIFF_SHIFT], sums);
    norm_free(&n);
    device_cpu.destroy(c.device);
}

static void the_cpus_device_gives_the_same(void **state)
{
    assert_true((int)FUSED_RELU == TRAIN_RELU && (int)FUSED_ADD_RELU == TRAIN_ADD_RELU);
    for (unsigned t = 0; t < 3; t++) {
        check_beside_cpu(types[t], TRAIN_NOTHING, false);
        check_beside_cpu(types[t], TRAIN_RELU, false);
        check_beside_cpu(types[t], TRAIN_ADD_RELU, false);
        check_beside_cpu(types[t], TRAIN_ADD_RELU, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_and_gradients_agree_with_sums_in_float64),
        cmocka_unit_test(a_mean_far_above_the_deviation_keeps_the_variance),
        cmocka_unit_test(equal_numbers_have_no_variance),
        cmocka_unit_test(given_statistics_are_constants_of_the_backward_pass),
        cmocka_unit_test(more_values_than_rows_lessen_the_correction),
        cmocka_unit_test(any_number_of_blocks_gives_the_same_bits),
        cmocka_unit_test(results_may_take_the_place_of_inputs),
        cmocka_unit_test(a_nan_stays_in_its_channel),
        cmocka_unit_test(the_cpus_device_gives_the_same),
    };

    return cmocka_run_group_tests_name("train norm kernels", tests, NULL, NULL);
}
