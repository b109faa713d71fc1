/* SPDX-License-Identifier: BSD-3-Clause */
/* The other kernels, as the host runs them, agree with the CPU's device, or with plain loops. */
#include "device.h"
#include "train_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Counts around what a line, a block and a chunk have; the last one is of many blocks. */
static const uint64_t counts[] = { 1, 3, 7, 8, 9, 100, 1023, 4097, 8192, 100003 };
enum { NCOUNT = sizeof counts / sizeof *counts };

static enum precision precision_of(enum plait_dtype type)
{
    return type == PLAIT_BFLOAT16 ? PRECISION_BF16 : PRECISION_FP32;
}

/* Quiet NaN, both infinities, the smallest denormal, the largest one, the largest number, minus zero. */
static const uint32_t special[3][7] = {
    { 0x7fc00000, 0x7f800000, 0xff800000, 0x00000001, 0x007fffff, 0x7f7fffff, 0x80000000 },
    { 0x7fc0, 0x7f80, 0xff80, 0x0001, 0x007f, 0x7f7f, 0x8000 },
    { 0x7e00, 0x7c00, 0xfc00, 0x0001, 0x03ff, 0x7bff, 0x8000 },
};

static struct array drawn(unsigned t, uint64_t n, bool aligned, uint64_t seed, bool specials)
{
    struct array a = array_make(types[t], n, aligned);

    array_draw(&a, &seed, 0, 1);
    for (uint64_t k = 0; specials && k < n; k += 1 + random_below(&seed, 20))
        array_set_bits(&a, k, special[t][random_below(&seed, 7)]);
    return a;
}

/* ---- Element by element ---- */

static void check_sums(unsigned t, uint64_t n, bool aligned, uint32_t grid)
{
    struct array a = drawn(t, n, aligned, 1, true), b = drawn(t, n, aligned, 2, true), cpu = array_copy(&a);
    const struct train_launcher l = on_host(grid);
    double *want = calloc(n, sizeof *want);

    for (uint64_t k = 0; k < n; k++)
        want[k] = rounded(types[t], (double)((float)array_get(&a, k) + (float)array_get(&b, k)));
    kernel_add(&l, types[t], n, a.at, b.at);
    assert_near(&a, want, 0);
    if (types[t] != PLAIT_FLOAT16) {
        struct device *device =
            device_cpu.create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 });

        device_cpu.add(device, (struct elements){ precision_of(types[t]), n }, cpu.at, b.at);
        for (uint64_t k = 0; k < n; k++)
            want[k] = array_get(&cpu, k);
        assert_near(&a, want, 0);
        device_cpu.destroy(device);
    }
    free(want);
    array_free(&a);
    array_free(&b);
    array_free(&cpu);
}

static void sums_agree_with_the_cpus_device(void **state)
{
    for (unsigned c = 0; c < NCOUNT; c++)
        for (unsigned t = 0; t < 3; t++)
            check_sums(t, counts[c], (c + t) % 3 != 0, grids[c % NGRID]);
}

static void one_infinity_or_nan_is_found_wherever_it_is(void **state)
{
    for (unsigned c = 0; c < NCOUNT; c++)
        for (unsigned t = 0; t < 6; t++) {
            struct array a = array_make(types[t % 3], counts[c], t < 3);
            const struct train_launcher l = on_host(grids[c % NGRID]);
            uint64_t seed = c;
            uint32_t found = 7;

            array_draw(&a, &seed, 0, 1);
            array_set_bits(&a, counts[c] / 2, special[t % 3][5]); /* the largest number, and the next */
            kernel_infinite(&l, types[t % 3], a.n, a.at, &found);
            assert_int_equal(found, 0);
            for (unsigned k = 0; k < 9; k++) {
                const uint64_t at = k == 0 ? 0 : k == 1 ? a.n - 1 : random_below(&seed, (uint32_t)a.n);
                const double kept = array_get(&a, at);

                array_set_bits(&a, at, special[t % 3][k % 3]);
                kernel_infinite(&l, types[t % 3], a.n, a.at, &found);
                assert_int_equal(found, 1);
                array_set(&a, at, kept);
            }
            kernel_infinite(&l, types[t % 3], a.n, a.at, &found);
            assert_int_equal(found, 0);
            array_free(&a);
        }
}

static void conversions_round_to_nearest_even(void **state)
{
    for (unsigned c = 0; c < NCOUNT; c++)
        for (unsigned k = 0; k < 2 * 9; k++) {
            const bool aligned = k < 9;
            const unsigned from = k % 9 / 3, to = k % 3;
            struct array a = drawn(from, counts[c], aligned, k, true), b = drawn(to, counts[c], true, k + 1, false);
            double *want = calloc(a.n, sizeof *want);
            const struct train_launcher l = on_host(grids[c % NGRID]);

            for (uint64_t i = 0; i < a.n; i++)
                want[i] = rounded(types[to], array_get(&a, i));
            kernel_convert(&l, a.n, types[from], a.at, types[to], b.at, false);
            for (uint64_t i = 0; i < a.n; i++)
                if (array_get(&b, i) != want[i] && !(isnan(want[i]) && isnan(array_get(&b, i))))
                    fail_msg("%g becomes %g", array_get(&a, i), array_get(&b, i));
            if (types[to] == PLAIT_FLOAT32) {
                for (uint64_t i = 0; i < a.n; i++)
                    want[i] = (double)((float)want[i] + (float)array_get(&a, i));
                kernel_convert(&l, a.n, types[from], a.at, types[to], b.at, true);
                assert_near(&b, want, 0);
            }
            free(want);
            array_free(&a);
            array_free(&b);
        }
}

/* In the order of train/image.c: x * factor - offset, each rounded. */
static void images_become_normal(void **state)
{
    static const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };
    float factor[3], offset[3];

    for (unsigned k = 0; k < 3; k++) {
        factor[k] = (float)(1 / (255 * deviation[k]));
        offset[k] = (float)(mean[k] / deviation[k]);
    }
    for (unsigned c = 0; c < NCOUNT; c++)
        for (unsigned t = 0; t < 6; t++) {
            const uint64_t n = 3 * counts[c];
            struct array from = array_make(PLAIT_UINT8, n, t < 3), to = array_make(types[t % 3], n, true);
            const struct train_launcher l = on_host(grids[c % NGRID]);

            for (uint64_t k = 0; k < n; k++)
                array_set(&from, k, (double)(k * 37 % 256));
            kernel_images(&l, n, from.at, factor, offset, types[t % 3], to.at);
            for (uint64_t k = 0; k < n; k++) {
                const float scaled = (float)array_get(&from, k) * factor[k % 3];
                const float normal = scaled - offset[k % 3];
                assert_true(array_get(&to, k) == rounded(types[t % 3], (double)normal));
            }
            array_free(&from);
            array_free(&to);
        }
}

static void vectors_are_scaled_and_moved(void **state)
{
    for (unsigned c = 0; c < NCOUNT; c++) {
        const uint64_t n = counts[c];
        struct array a = drawn(0, n, true, 1, false), b = drawn(0, n, true, 2, false), old = array_copy(&a);
        const struct train_launcher l = on_host(grids[c % NGRID]);
        double *factors = calloc(n, sizeof *factors);

        kernel_move_vector(&l, n, a.at, b.at, 0.1F, 0.25F);
        for (uint64_t k = 0; k < n; k++) {
            float want = (float)array_get(&old, k);
            want += 0.1F * (0.25F * (float)array_get(&b, k) - want);
            assert_true(array_get(&a, k) == (double)want);
            factors[k] = 1 + (double)k / 7;
        }
        kernel_scale_vector(&l, n, b.at, factors, a.at);
        for (uint64_t k = 0; k < n; k++)
            assert_true(array_get(&a, k) == (double)(float)(array_get(&b, k) * factors[k]));
        kernel_scale_vector(&l, n, b.at, factors, b.at);
        assert_equal_bits(&a, &b);
        free(factors);
        array_free(&a);
        array_free(&b);
        array_free(&old);
    }
}

/* ---- Matrices ---- */

static void sums_over_rows_agree_with_the_cpus_device(void **state)
{
    static const uint64_t shapes[][2] = { { 1, 1 }, { 1, 1000 }, { 2, 10 }, { 7, 33 }, { 100, 1000 }, { 1001, 3 } };
    struct device *device = device_cpu.create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 });

    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned k = 0; k < 4; k++) { /* the last one adds */
            const uint64_t rows = shapes[s][0], columns = shapes[s][1];
            struct array from = drawn(0, rows * columns, true, s, false), to = drawn(k % 3, columns, true, 9, false);
            struct array cpu = array_copy(&to);
            const struct train_launcher l = on_host(grids[s % NGRID]);
            double *want = calloc(columns, sizeof *want);

            for (uint64_t i = 0; i < columns; i++)
                want[i] = k == 3 ? array_get(&to, i) : 0;
            for (uint64_t i = 0; i < rows * columns; i++)
                want[i % columns] += array_get(&from, i);
            kernel_sum_rows(&l, rows, columns, from.at, types[k % 3], to.at, k == 3);
            assert_near(&to, want, k == 3 ? 0x1p-22 : 0);
            if (types[k % 3] == PLAIT_FLOAT32) {
                device_cpu.sum(device, &(struct device_sum){ cpu.at, PRECISION_FP32, k == 3, from.at, rows, columns });
                for (uint64_t i = 0; i < columns; i++)
                    want[i] = array_get(&cpu, i);
                assert_near(&to, want, 1e-5);
            }
            free(want);
            array_free(&from);
            array_free(&to);
            array_free(&cpu);
        }
    device_cpu.destroy(device);
}

static void rows_are_filled(void **state)
{
    struct array from = drawn(0, 1001, true, 1, false), to = array_make(PLAIT_FLOAT32, 70 * 1001, true);

    for (unsigned g = 0; g < NGRID; g++) {
        const struct train_launcher l = on_host(grids[g]);

        memset(to.at, 0, to.n * to.size);
        kernel_fill_rows(&l, 70, 1001, from.at, to.at);
        for (uint64_t k = 0; k < to.n; k++)
            assert_true(array_get(&to, k) == array_get(&from, k % 1001));
    }
    array_free(&from);
    array_free(&to);
}

/* Element k of the plain order, in the other one. */
static uint64_t other_of(const struct kernel_weights *w, uint64_t k)
{
    const uint64_t o = k / w->inner / w->in, i = k / w->inner % w->in;

    return (o * w->inner + k % w->inner) * w->in + i;
}

static void check_weights(const struct kernel_weights *w, unsigned from, unsigned to, uint32_t grid)
{
    const uint64_t n = (uint64_t)w->out * w->in * w->inner;
    struct array plain = drawn(from, n, true, 1, false), other = array_make(types[to], n, true);
    struct array back = array_make(types[from], n, true), sum = drawn(0, n, true, 5, false), old = array_copy(&sum);
    const struct train_launcher l = on_host(grid);

    kernel_weights(&l, w, types[from], plain.at, types[to], other.at);
    for (uint64_t k = 0; k < n; k++)
        assert_true(array_get(&other, other_of(w, k)) == rounded(types[to], array_get(&plain, k)));
    kernel_weights_back(&l, w, types[to], other.at, types[from], back.at, false);
    kernel_weights_back(&l, w, types[to], other.at, PLAIT_FLOAT32, sum.at, true);
    for (uint64_t k = 0; k < n; k++) {
        const float v = (float)array_get(&other, other_of(w, k));
        assert_true(array_get(&back, k) == rounded(types[from], (double)v));
        assert_true(array_get(&sum, k) == (double)((float)array_get(&old, k) + v));
    }
    array_free(&plain);
    array_free(&other);
    array_free(&back);
    array_free(&sum);
    array_free(&old);
}

/* The last ones have tiles of one in, and more than a tile holds. */
static void weights_change_their_order_and_come_back(void **state)
{
    static const struct kernel_weights shapes[] = { { 64, 3, 49 },  { 5, 64, 9 },   { 3, 600, 9 },  { 7, 64, 1 },
                                                    { 10, 1, 25 },  { 2, 17, 3 },   { 1, 5000, 4 }, { 2, 3, 2500 },
                                                    { 2, 3, 5000 }, { 1, 100, 121 } };

    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned k = 0; k < 9; k++)
            check_weights(&shapes[s], k / 3, k % 3, grids[(s + k) % NGRID]);
}

/* ---- The loss ---- */

struct lossy {
    struct kernel_loss loss;
    struct array logits;
    int32_t *labels;
};

static struct lossy lossy_make(uint32_t n, uint32_t nclass, double smoothing, uint64_t seed)
{
    struct lossy l = { { n, nclass, NULL, NULL, smoothing }, drawn(0, (uint64_t)n * nclass, true, seed, false), NULL };

    l.labels = calloc(n, sizeof *l.labels);
    for (uint64_t k = 0; k < l.logits.n; k++) /* many are equal */
        array_set(&l.logits, k, k % 3 == 0 ? 4 * array_get(&l.logits, k) : round(2 * array_get(&l.logits, k)));
    for (uint32_t k = 0; k < n; k++)
        l.labels[k] = k % 5 == 4 ? -1 : (int32_t)random_below(&seed, nclass);
    l.loss.logits = l.logits.at;
    l.loss.labels = l.labels;
    return l;
}

static void lossy_check(const struct lossy *l, uint32_t grid)
{
    struct loss loss = { l->loss.n, l->loss.nclass, l->loss.logits, l->loss.labels, l->loss.smoothing, 2, NULL };
    const struct train_launcher launcher = on_host(grid);
    struct train_loss_sums got = { 100, 10, 20, 30 };
    struct array gradient = array_make(PLAIT_FLOAT32, l->logits.n, true), wanted = array_copy(&gradient);
    double *want = calloc(l->logits.n, sizeof *want), scale = 8;
    void *scratch = malloc(kernel_loss_scratch(l->loss.n));
    struct model_result result = { 0 };

    device_cpu.loss(NULL, &loss, &result);
    kernel_loss(&launcher, &l->loss, &got, scratch);
    if (!(fabs(got.loss - 100 - result.loss) <= 1e-9 * (1 + fabs(result.loss))) &&
        !(isnan(got.loss) && isnan(result.loss)) && got.loss != result.loss)
        fail_msg("%u classes: the loss is %.17g instead of %.17g", l->loss.nclass, got.loss - 100, result.loss);
    assert_true(got.n == 10 + result.n && got.top1 == 20 + result.top1 && got.top5 == 30 + result.top5);
    for (unsigned k = 0; k < 2; k++) {
        loss.scale = k == 0 ? NULL : &scale;
        device_cpu.loss_back(NULL, &loss, wanted.at);
        for (uint64_t i = 0; i < wanted.n; i++)
            want[i] = array_get(&wanted, i);
        kernel_loss_back(&launcher, &l->loss, 0.5, k == 0 ? NULL : &scale, gradient.at);
        assert_near(&gradient, want, 1e-9);
    }
    free(scratch);
    free(want);
    array_free(&gradient);
    array_free(&wanted);
}

static void lossy_free(struct lossy *l)
{
    array_free(&l->logits);
    free(l->labels);
}

static void the_loss_agrees_with_the_cpus(void **state)
{
    static const uint32_t classes[] = { 2, 5, 10, 100, 256, 257, 1000 };

    for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++)
        for (unsigned k = 0; k < 6; k++) {
            struct lossy l = lossy_make(k == 0 ? 1 : 13 + 300 * (k == 5), classes[c], k % 2 == 0 ? 0 : 0.1, 10 * c + k);

            lossy_check(&l, grids[k % NGRID]);
            lossy_free(&l);
        }
}

static void a_nan_or_infinity_among_logits_gives_the_cpus_loss(void **state)
{
    static const double specials[] = { NAN, INFINITY, -INFINITY };

    for (unsigned k = 0; k < 3; k++)
        for (uint32_t at = 0; at < 10; at++)
            for (unsigned smooth = 0; smooth < 2; smooth++) {
                struct lossy l = lossy_make(3, 10, smooth * 0.1, at);

                array_set(&l.logits, 10 + at, specials[k]);
                lossy_check(&l, UINT32_MAX);
                lossy_free(&l);
            }
}

static void any_number_of_blocks_gives_the_same_loss(void **state)
{
    struct lossy l = lossy_make(700, 100, 0.1, 3);
    struct train_loss_sums got[NGRID] = { 0 };

    for (unsigned g = 0; g < NGRID; g++) {
        const struct train_launcher launcher = on_host(grids[g]);
        void *scratch = malloc(kernel_loss_scratch(700));

        kernel_loss(&launcher, &l.loss, &got[g], scratch);
        assert_memory_equal(&got[0], &got[g], sizeof got[0]);
        free(scratch);
    }
    lossy_free(&l);
}

/* ---- Counts of 64 bits ---- */

static uint64_t launched;

static void note(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    launched = blocks;
    if (kernel == TRAIN_KERNEL_train_add)
        assert_true(((const struct train_add *)argument)->n == UINT64_C(1) << 36);
    if (kernel == TRAIN_KERNEL_train_norm_sums)
        assert_true(((const struct train_norm *)argument)->cut.npart >= (UINT64_C(1) << 33) / 256 / 64);
}

static void large_tensors_have_a_grid_for_the_device(void **state)
{
    const struct train_launcher l = { note, NULL, 132 };
    const struct kernel_norm n = { .rows = UINT64_C(1) << 33, .channels = 64, .type = PLAIT_BFLOAT16 };

    kernel_add(&l, PLAIT_FLOAT32, UINT64_C(1) << 36, &launched, &launched);
    assert_true(launched >= 132 * 8 && launched <= 132 * 64);
    kernel_norm_measure(&l, &n);
    assert_int_equal(launched, 64 / TRAIN_COMBINED);
    assert_true(kernel_norm_scratch(n.rows, 64, n.type) < n.rows * 64 * 2 / 20);
    kernel_fill_rows(&l, 0, 5, NULL, NULL); /* launches nothing */
    assert_int_equal(launched, 64 / TRAIN_COMBINED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_the_cpus_device),
        cmocka_unit_test(one_infinity_or_nan_is_found_wherever_it_is),
        cmocka_unit_test(conversions_round_to_nearest_even),
        cmocka_unit_test(images_become_normal),
        cmocka_unit_test(vectors_are_scaled_and_moved),
        cmocka_unit_test(sums_over_rows_agree_with_the_cpus_device),
        cmocka_unit_test(rows_are_filled),
        cmocka_unit_test(weights_change_their_order_and_come_back),
        cmocka_unit_test(the_loss_agrees_with_the_cpus),
        cmocka_unit_test(a_nan_or_infinity_among_logits_gives_the_cpus_loss),
        cmocka_unit_test(any_number_of_blocks_gives_the_same_loss),
        cmocka_unit_test(large_tensors_have_a_grid_for_the_device),
    };

    return cmocka_run_group_tests_name("train kernels", tests, NULL, NULL);
}
