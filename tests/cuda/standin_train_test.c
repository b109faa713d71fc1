/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in for CUDA's driver knows what the training program's kernels read and write: it sees another stream that
 * writes to the first or the last element of an array of theirs, or reads a result, without an order.
 */
#include "../../train/cuda/kernels/launch.h"
#include "standin_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 11, SIZE = 4, ROWS = 50, CHANNELS = 8, TENSOR = ROWS * CHANNELS * SIZE, VECTOR = CHANNELS * SIZE };
enum { IMAGES = 2, SIDE = 6, OUT = 3, INPUT = IMAGES * SIDE * SIDE * CHANNELS, OUTPUT = IMAGES * OUT * OUT * CHANNELS };

static const struct kernel_norm norm = {
    .rows = ROWS, .channels = CHANNELS, .type = PLAIT_FLOAT32, .fused = TRAIN_RELU
};
static const struct kernel_pool largest = { IMAGES, CHANNELS, SIDE, SIDE, 3, 2, 1, PLAIT_FLOAT32, false };
static const struct kernel_pool average = { IMAGES, CHANNELS, SIDE, SIDE, 3, 2, 1, PLAIT_FLOAT32, true };
static const struct kernel_weights weights = { 5, 8, 9 };
static const struct kernel_loss loss = { ROWS, CHANNELS, NULL, NULL, 0.1 };

/* ---- Calls, with the arrays at a[] ---- */

static void measure(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm;

    n.x = a[0], n.mean = a[1], n.variance = a[2], n.scratch = a[3];
    kernel_norm_measure(l, &n);
}

static struct kernel_norm norm_with(void *const *a)
{
    struct kernel_norm n = norm;

    n.x = a[0], n.mean = a[1], n.variance = a[2], n.scale = a[3], n.shift = a[4];
    return n;
}

static void forward(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm_with(a);

    n.y = a[5];
    kernel_norm_forward(l, &n);
}

static void back_sums(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm_with(a);

    n.diff_y = a[5], n.diff_scale = a[6], n.diff_shift = a[7], n.scratch = a[8];
    kernel_norm_back_sums(l, &n);
}

static void forward_add(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm_with(a);

    n.fused = TRAIN_ADD_RELU, n.y = a[5], n.addend = a[6];
    kernel_norm_forward(l, &n);
}

static void back_sums_add(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm_with(a);

    n.fused = TRAIN_ADD_RELU, n.diff_y = a[5], n.diff_scale = a[6], n.diff_shift = a[7], n.scratch = a[8];
    n.y = a[9], n.diff_more = a[10];
    kernel_norm_back_sums(l, &n);
}

static void back(const struct train_launcher *l, void *const *a)
{
    struct kernel_norm n = norm_with(a);

    n.diff_y = a[5], n.diff_scale = a[6], n.diff_shift = a[7], n.diff_x = a[8];
    kernel_norm_back(l, &n, ROWS);
}

static void pool(const struct train_launcher *l, void *const *a)
{
    kernel_pool_forward(l, &largest, a[0], a[1], a[2]);
}

static void pool_back(const struct train_launcher *l, void *const *a)
{
    kernel_pool_back(l, &largest, a[0], a[1], a[2]);
}

static void pool_average(const struct train_launcher *l, void *const *a)
{
    kernel_pool_forward(l, &average, a[0], a[1], NULL);
}

static void pool_average_back(const struct train_launcher *l, void *const *a)
{
    kernel_pool_back(l, &average, a[0], NULL, a[1]);
}

static void sum(const struct train_launcher *l, void *const *a)
{
    kernel_add(l, PLAIT_FLOAT32, ROWS, a[0], a[1]);
}

static void infinite(const struct train_launcher *l, void *const *a)
{
    kernel_infinite(l, PLAIT_FLOAT32, ROWS, a[0], a[1]);
}

static void convert(const struct train_launcher *l, void *const *a)
{
    kernel_convert(l, ROWS, PLAIT_BFLOAT16, a[0], PLAIT_FLOAT32, a[1], true);
}

static void images(const struct train_launcher *l, void *const *a)
{
    kernel_images(l, 96, a[0], (const float[3]){ 1, 1, 1 }, (const float[3]){ 0 }, PLAIT_FLOAT32, a[1]);
}

static void crop(const struct train_launcher *l, void *const *a)
{
    kernel_crop(l, &(struct train_crop){ .from = a[0],
                                         .values = a[1],
                                         .grey = a[2],
                                         .to = a[3],
                                         .box_width = 8,
                                         .box_height = 4,
                                         .width = 8,
                                         .height = 4,
                                         .side = 4,
                                         .brightness = 1,
                                         .contrast = 1,
                                         .saturation = 1 });
}

static void scale_vector(const struct train_launcher *l, void *const *a)
{
    kernel_scale_vector(l, ROWS, a[0], a[1], a[2]);
}

static void move_vector(const struct train_launcher *l, void *const *a)
{
    kernel_move_vector(l, ROWS, a[0], a[1], 0.5F, 1);
}

static void sum_rows(const struct train_launcher *l, void *const *a)
{
    kernel_sum_rows(l, ROWS, CHANNELS, a[0], PLAIT_FLOAT32, a[1], true);
}

static void fill_rows(const struct train_launcher *l, void *const *a)
{
    kernel_fill_rows(l, ROWS, CHANNELS, a[0], a[1]);
}

static void reorder(const struct train_launcher *l, void *const *a)
{
    kernel_weights(l, &weights, PLAIT_FLOAT32, a[0], PLAIT_BFLOAT16, a[1]);
}

static void reorder_back(const struct train_launcher *l, void *const *a)
{
    kernel_weights_back(l, &weights, PLAIT_BFLOAT16, a[0], PLAIT_FLOAT32, a[1], true);
}

static struct kernel_loss loss_with(void *const *a)
{
    struct kernel_loss k = loss;

    k.logits = a[0], k.labels = a[1];
    return k;
}

static void loss_forward(const struct train_launcher *l, void *const *a)
{
    const struct kernel_loss k = loss_with(a);

    kernel_loss(l, &k, a[2], a[3]);
}

static void loss_back(const struct train_launcher *l, void *const *a)
{
    const struct kernel_loss k = loss_with(a);

    kernel_loss_back(l, &k, 1, a[2], a[3]);
}

/* bytes: of the arrays; uses: r is only read, w is written */
static struct call {
    const char *uses;
    void (*call)(const struct train_launcher *l, void *const *a);
    size_t bytes[MOST];
} calls[] = {
    /* The first three and the last but one have scratch memory, too. */
    { "rwww", measure, { TENSOR, VECTOR, VECTOR } },
    { "rrrrrrwww", back_sums, { TENSOR, VECTOR, VECTOR, VECTOR, VECTOR, TENSOR, VECTOR, VECTOR } },
    { "rrrrrwwwwrr",
      back_sums_add,
      { TENSOR, VECTOR, VECTOR, VECTOR, VECTOR, TENSOR, VECTOR, VECTOR, 0, TENSOR, TENSOR } },
    { "rrrrrw", forward, { TENSOR, VECTOR, VECTOR, VECTOR, VECTOR, TENSOR } },
    { "rrrrrwr", forward_add, { TENSOR, VECTOR, VECTOR, VECTOR, VECTOR, TENSOR, TENSOR } },
    { "rrrrrrrrw", back, { TENSOR, VECTOR, VECTOR, VECTOR, VECTOR, TENSOR, VECTOR, VECTOR, TENSOR } },
    { "rww", pool, { INPUT * SIZE, OUTPUT *SIZE, OUTPUT } },
    { "rrw", pool_back, { OUTPUT * SIZE, OUTPUT, INPUT *SIZE } },
    { "rw", pool_average, { INPUT * SIZE, OUTPUT *SIZE } },
    { "rw", pool_average_back, { OUTPUT * SIZE, INPUT *SIZE } },
    { "wr", sum, { ROWS * SIZE, ROWS *SIZE } },
    { "rw", infinite, { ROWS * SIZE, SIZE } },
    { "rw", convert, { ROWS * 2, ROWS *SIZE } },
    { "rw", images, { 96, 96 * SIZE } },
    { "rwww", crop, { 96, 48 * SIZE, 4 * 8, 48 } },
    { "rrw", scale_vector, { ROWS * SIZE, ROWS * 8, ROWS *SIZE } },
    { "wr", move_vector, { ROWS * SIZE, ROWS *SIZE } },
    { "rw", sum_rows, { TENSOR, VECTOR } },
    { "rw", fill_rows, { VECTOR, TENSOR } },
    { "rw", reorder, { 360 * SIZE, 360 * 2 } },
    { "rw", reorder_back, { 360 * 2, 360 * SIZE } },
    { "rrww", loss_forward, { TENSOR, ROWS *SIZE, sizeof(struct train_loss_sums) } },
    { "rrrw", loss_back, { TENSOR, ROWS *SIZE, 8, TENSOR } },
};

/* ---- A call in one stream, an access in another one ---- */

static const struct call *now;
static struct {
    unsigned array;
    bool last, reads;
} other;

static void launch_in(void *context, enum train_kernel k, uint32_t blocks, const void *argument)
{
    union {
        const void *from;
        void *to;
    } any = { argument };

    ok(launch(kernel(train_kernels[k].name), any.to, blocks, context));
}

static void run(void)
{
    const struct place p = start();
    const struct train_launcher l = { launch_in, p.streams[0], 2 };
    void *a[MOST];

    for (unsigned k = 0; k < strlen(now->uses); k++) {
        cu_address at;
        ok(cuMemAlloc_v2(&at, now->bytes[k]));
        ok(cuMemsetD32_v2(at, 0, now->bytes[k] / 4));
        a[k] = (void *)(uintptr_t)at;
    }
    now->call(&l, a);
    if (other.array < MOST) {
        const cu_address at = (uintptr_t)a[other.array] + (other.last ? now->bytes[other.array] - 4 : 0);
        if (other.reads)
            cuMemcpyAsync(p.b, at, 4, p.streams[1]);
        else
            cuMemsetD32Async(at, 0, 1, p.streams[1]);
    }
    ok(cuStreamSynchronize(p.streams[0]));
    ok(cuStreamSynchronize(p.streams[1]));
}

static void every_call_runs_on_exactly_its_arrays(void **state)
{
    other.array = MOST;
    for (now = calls; now < calls + sizeof calls / sizeof *calls; now++)
        expect_life(run);
}

static void an_access_without_an_order_is_a_race(void **state)
{
    for (now = calls; now < calls + sizeof calls / sizeof *calls; now++)
        for (other.array = 0; other.array < strlen(now->uses); other.array++)
            for (unsigned k = 0; k < 3; k++) {
                other.last = k != 0;
                other.reads = k == 2;
                if (other.reads && now->uses[other.array] == 'r')
                    expect_life(run);
                else
                    expect_death(run, "a race", "train_");
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_runs_on_exactly_its_arrays),
        cmocka_unit_test(an_access_without_an_order_is_a_race),
    };

    assert_true(argc > 1);
    load(argv[1]);
    calls[0].bytes[3] = calls[1].bytes[8] = calls[2].bytes[8] = kernel_norm_scratch(ROWS, CHANNELS, PLAIT_FLOAT32);
    calls[sizeof calls / sizeof *calls - 2].bytes[3] = kernel_loss_scratch(ROWS);
    return cmocka_run_group_tests_name("stand-in for CUDA: kernels of the training program", tests, NULL, NULL);
}
