/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kernel of the training program as the driver runs it, against its body run by the host: the same bits. */
#include "../random.h"
#include "../unit.h"
#include "gpu_kernels.h"

#include "../../train/cuda/kernels/host.h"
#include "../../train/cuda/kernels/images.h"
#include "../../train/cuda/kernels/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 23 };

static struct room room;
static void *functions[TRAIN_NKERNEL];

/* ---- Launchers ---- */

static void on_device(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    assert_true(gpu_run(functions[kernel], train_kernels[kernel].name, TRAIN_THREADS, blocks, argument));
}

static void on_host(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    train_cuda_host_find(train_kernels[kernel].name)->run(argument, blocks);
}

/* ---- What is run: calls on arrays that take their places in memory one after the other ---- */

static struct place {
    const struct train_launcher *l;
    char *at;
    enum plait_dtype type;
    bool aligned;
} place;

static void *take(size_t bytes)
{
    char *start = place.at + (place.aligned ? 0 : 8);

    place.at += (bytes + 31) / 16 * 16;
    return start;
}

static void *take_elements(uint64_t n)
{
    return take(n * (place.type == PLAIT_FLOAT32 ? 4 : 2));
}

static void norm_of(uint64_t rows, uint32_t channels, enum train_fused fused)
{
    const size_t vector = channels * sizeof(float), tensor = rows * channels;
    struct kernel_norm n = { .rows = rows, .channels = channels, .type = place.type, .fused = fused };

    n.x = take_elements(tensor), n.y = take_elements(tensor);
    n.diff_y = take_elements(tensor), n.diff_x = take_elements(tensor);
    if (fused == TRAIN_ADD_RELU)
        n.addend = take_elements(tensor), n.diff_more = take_elements(tensor);
    n.mean = take(vector), n.variance = take(vector), n.scale = take(vector), n.shift = take(vector);
    n.diff_scale = take(vector), n.diff_shift = take(vector);
    n.scratch = take(kernel_norm_scratch(rows, channels, place.type));
    kernel_norm_measure(place.l, &n);
    kernel_norm_forward(place.l, &n);
    kernel_norm_back_sums(place.l, &n);
    kernel_norm_back(place.l, &n, fused == TRAIN_RELU ? 0 : (double)rows);
}

static void norms(void)
{
    norm_of(2003, 64, TRAIN_RELU);
    norm_of(101, 264, TRAIN_NOTHING);
    norm_of(301, 10, TRAIN_RELU);
    norm_of(1501, 64, TRAIN_ADD_RELU);
    norm_of(301, 10, TRAIN_ADD_RELU);
}

static void pool_of(struct kernel_pool p)
{
    const uint64_t in = (uint64_t)p.n * p.height * p.width * p.channels;
    const uint64_t out = (uint64_t)p.n * ((p.height + 2 * p.pad - p.kernel) / p.stride + 1) *
                         ((p.width + 2 * p.pad - p.kernel) / p.stride + 1) * p.channels;
    void *x = take_elements(in), *y = take_elements(out), *diff_y = take_elements(out), *diff_x = take_elements(in);
    uint8_t *won = take(kernel_pool_workspace(&p));

    kernel_pool_forward(place.l, &p, x, y, won);
    kernel_pool_back(place.l, &p, diff_y, won, diff_x);
}

static void pools(void)
{
    pool_of((struct kernel_pool){ 3, 64, 15, 16, 3, 2, 1, place.type, false });
    pool_of((struct kernel_pool){ 3, 264, 7, 7, 7, 1, 0, place.type, true });
    pool_of((struct kernel_pool){ 2, 10, 9, 9, 3, 2, 1, place.type, false });
    pool_of((struct kernel_pool){ 2, 10, 9, 9, 3, 2, 1, place.type, true });
}

static void elements(void)
{
    enum { COUNT = 100003 };

    void *a = take_elements(COUNT);
    kernel_add(place.l, place.type, COUNT, a, take_elements(COUNT));
    kernel_infinite(place.l, place.type, COUNT, take_elements(COUNT), take(4));
    kernel_images(place.l, 30003, take(30003), (const float[3]){ 1, 2, 3 }, (const float[3]){ 0.1F, 0.2F, 0.3F },
                  place.type, take_elements(30003));
    kernel_convert(place.l, 10007, place.type, take_elements(10007), PLAIT_FLOAT32, take(4 * 10007), true);
    kernel_convert(place.l, 10007, PLAIT_FLOAT32, take(4 * 10007), place.type, take_elements(10007), false);
    kernel_move_vector(place.l, 1003, take(4 * 1003), take(4 * 1003), 0.1F, 0.7F);
    double *factors = take(8 * 1003);
    kernel_scale_vector(place.l, 1003, take(4 * 1003), factors, take(4 * 1003));
}

static void crops(void)
{
    for (uint32_t side = 64; side <= 320; side += 208) {
        struct train_crop c = {
            .from = take(200 * 150 * 3), .width = 200, .height = 150, .side = side, .flip = side > 64
        };
        c.values = take(4 * 3 * side * side), c.grey = take(8 * side), c.to = take(3 * side * side);
        c.x = 20, c.y = 30, c.box_width = 180, c.box_height = 115;
        c.brightness = 1.1F, c.contrast = 0.8F, c.saturation = 0.9F;
        kernel_crop(place.l, &c);
    }
}

static void matrices(void)
{
    static const struct kernel_weights w[] = { { 5, 600, 9 }, { 7, 64, 1 }, { 2, 3, 5000 } };

    for (unsigned k = 0; k < 3; k++) {
        const uint64_t n = (uint64_t)w[k].out * w[k].in * w[k].inner;
        float *plain = take(n * 4);
        void *other = take_elements(n);
        kernel_weights(place.l, &w[k], PLAIT_FLOAT32, plain, place.type, other);
        kernel_weights_back(place.l, &w[k], place.type, other, PLAIT_FLOAT32, plain, true);
    }
    kernel_sum_rows(place.l, 101, 1003, take(4 * 101 * 1003), place.type, take_elements(1003), false);
    kernel_fill_rows(place.l, 101, 103, take(4 * 103), take(4 * 101 * 103));
}

/* ---- Both, and what they leave ---- */

/* Numbers from 0.5 to 4 or 8 with either sign, as the type has them. */
static void fill(enum plait_dtype type)
{
    uint64_t seed = type;

    for (size_t i = 0; i < BYTES / 4; i++) {
        const uint32_t draw = (uint32_t)random_next(&seed), sign = draw & 0x80008000;
        const uint32_t first = type == PLAIT_FLOAT16 ? 0x38003800 : 0x3f003f00;
        const uint32_t bits = sign | (first + (draw >> 16 & 0x180) % 0x181 + ((draw & 0x1ff) % 0x180 << 16));
        memcpy(room.host + 4 * i, &bits, 4);
    }
    assert_true(room_copy_in(&room, 0, BYTES));
}

static void run(void (*calls)(void), enum plait_dtype type, bool aligned)
{
    const struct train_launcher device = { on_device, NULL, gpu_most_blocks() / 8 }, host = { on_host, NULL, 3 };

    fill(type);
    place = (struct place){ &device, (char *)(uintptr_t)room.device, type, aligned };
    calls();
    assert_true(gpu_wait());
    place = (struct place){ &host, room.host, type, aligned };
    calls();
    assert_true(place.at < room.host + BYTES);
}

static void expect_same_bits(void (*calls)(void))
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16 };
    char *got = malloc(BYTES);

    for (unsigned k = 0; k < 6; k++) {
        run(calls, types[k % 3], k < 3);
        assert_true(room_copy_out(&room, got, 0, BYTES));
        for (size_t i = 0; i < BYTES; i += 4)
            if (memcmp(got + i, room.host + i, 4) != 0) {
                uint32_t a, b;
                memcpy(&a, got + i, 4);
                memcpy(&b, room.host + i, 4);
                fail_msg("type %d, aligned %d: at byte %zu the device has %08x, the host %08x", (int)types[k % 3],
                         k < 3, i, a, b);
            }
    }
    free(got);
}

static void batch_norm_gives_the_hosts_bits(void **state)
{
    expect_same_bits(norms);
}

static void pooling_gives_the_hosts_bits(void **state)
{
    expect_same_bits(pools);
}

static void elements_give_the_hosts_bits(void **state)
{
    expect_same_bits(elements);
}

static void crops_give_the_hosts_bits(void **state)
{
    expect_same_bits(crops);
}

static void matrices_give_the_hosts_bits(void **state)
{
    expect_same_bits(matrices);
}

/* ---- The loss: exp() and log() are not the host's to the last bit ---- */

enum { IMAGES = 301, CLASSES = 1000 };

static struct {
    float *gradient;
    struct train_loss_sums *sums; /* added to what is there */
} losses;

static void both_losses(void)
{
    struct kernel_loss k = { IMAGES, CLASSES, NULL, NULL, 0.1 };

    k.labels = take(IMAGES * 4), k.logits = take(IMAGES * CLASSES * 4);
    losses.gradient = take(IMAGES * CLASSES * 4), losses.sums = take(sizeof *losses.sums);
    kernel_loss(place.l, &k, losses.sums, take(kernel_loss_scratch(IMAGES)));
    kernel_loss_back(place.l, &k, 2, NULL, losses.gradient);
}

static void the_loss_is_the_hosts(void **state)
{
    const struct train_launcher device = { on_device, NULL, 7 }, host = { on_host, NULL, 3 };
    float *gradient = malloc((size_t)IMAGES * CLASSES * 4);
    struct train_loss_sums sums;

    fill(PLAIT_FLOAT32);
    for (int32_t k = 0; k < IMAGES; k++) {
        const int32_t label = k % 7 == 6 ? -1 : k * 37 % CLASSES;
        memcpy(room.host + sizeof label * (size_t)k, &label, sizeof label);
    }
    assert_true(room_copy_in(&room, 0, BYTES));
    place = (struct place){ &device, (char *)(uintptr_t)room.device, PLAIT_FLOAT32, true };
    both_losses();
    assert_true(gpu_wait());
    place = (struct place){ &host, room.host, PLAIT_FLOAT32, true };
    both_losses();
    assert_true(room_copy_out(&room, &sums, (size_t)((char *)losses.sums - room.host), sizeof sums));
    assert_true(room_copy_out(&room, gradient, (size_t)((char *)losses.gradient - room.host), IMAGES * CLASSES * 4));
    assert_true(fabs(sums.loss - losses.sums->loss) <= 1e-12 * fabs(losses.sums->loss));
    assert_true(sums.n == losses.sums->n && sums.top1 == losses.sums->top1 && sums.top5 == losses.sums->top5);
    for (size_t k = 0; k < IMAGES * CLASSES; k++)
        if (!(fabs((double)gradient[k] - (double)losses.gradient[k]) <= 1e-6 * (1e-4 + fabs((double)gradient[k]))))
            fail_msg("gradient %zu: %.9g, the host's is %.9g", k, (double)gradient[k], (double)losses.gradient[k]);
    free(gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_gives_the_hosts_bits), cmocka_unit_test(pooling_gives_the_hosts_bits),
        cmocka_unit_test(elements_give_the_hosts_bits),    cmocka_unit_test(matrices_give_the_hosts_bits),
        cmocka_unit_test(crops_give_the_hosts_bits),       cmocka_unit_test(the_loss_is_the_hosts),
    };
    const char *names[TRAIN_NKERNEL];

    for (size_t k = 0; k < TRAIN_NKERNEL; k++)
        names[k] = train_kernels[k].name;
    if (getenv("PLAIT_CUDA_DRIVER") == NULL) {
        puts("PLAIT_CUDA_DRIVER names no driver");
        return 77;
    }
    if (!gpu_open() || !gpu_load(train_cuda_images, names, TRAIN_NKERNEL, functions) || !room_make(&room, BYTES))
        return 1;
    printf("on %s\n", gpu_name());
    return cmocka_run_group_tests_name("kernels of the training program on a GPU", tests, NULL, NULL);
}
