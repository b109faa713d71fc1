/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kernel as the driver runs it, against its body run by the host: the same bits. */
#include "gpu_kernels.h"

#include <host.h>

#include <plait/optim.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 100003, TENSORS = 7, MOST_PIECES = 256, TABLES = 1 << 16 };

/* Data from 0 to `data`; tables, with addresses in them, after it. */
static struct room room;
static size_t data;

static const char *kernel_name(enum plait_cuda_kernel k)
{
    static const char *const names[] = {
#define PLAIT_X(name, args, threads) #name,
        PLAIT_CUDA_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
    };

    return names[k];
}

static void begin(size_t bytes)
{
    data = bytes;
    assert_true(room_make(&room, bytes + TABLES));
}

/*
 * The host's tables are copied to the device with its addresses: `build` fills tables and argument for memory that
 * begins at `base`, and writes tables to room.host in both cases.
 */
static void run_both(enum plait_cuda_kernel k, unsigned blocks, void (*build)(char *base, void *argument), double most)
{
    const struct plait_cuda_host *host = plait_cuda_host_find(kernel_name(k));
    char *got = malloc(data);
    _Alignas(16) char argument[4096];

    assert_true(got != NULL && host != NULL && host->bytes <= sizeof argument);
    memset(argument, 0, sizeof argument);
    build((char *)(uintptr_t)room.device, argument);
    assert_true(room_copy_in(&room, data, TABLES));
    assert_true(gpu_launch(k, blocks, argument) && gpu_wait());
    memset(argument, 0, sizeof argument);
    build(room.host, argument);
    host->run(argument, blocks);
    assert_true(room_copy_out(&room, got, 0, data));
    for (size_t i = 0; i < data; i += 4) {
        float a, b;
        memcpy(&a, got + i, 4);
        memcpy(&b, room.host + i, 4);
        if (memcmp(got + i, room.host + i, 4) != 0 && !(fabs((double)a - (double)b) <= most * fabs((double)b)))
            fail_msg("%s, %u blocks: at byte %zu the device has %a, the host %a", kernel_name(k), blocks, i, (double)a,
                     (double)b);
    }
    free(got);
}

/* ---- Kernels of the collectives ------------------------------------------------------------------------------- */

static enum plait_dtype type;
static enum plait_op op;
static uint32_t nsrc;

static void build_reduce(char *base, void *argument)
{
    struct plait_cuda_reduce a = { .dst = base, .count = COUNT, .nsrc = nsrc, .op = (uint32_t)op };

    a.divisor = op == PLAIT_AVG ? 3 : 0;
    for (uint32_t s = 0; s < nsrc; s++)
        a.source[s] = base + (s + 1) * (size_t)COUNT * plait_dtype_size(type);
    memcpy(argument, &a, sizeof a);
}

static void reductions_of_every_type_and_operator(void **state)
{
    (void)state;
    for (type = 0; type < PLAIT_NDTYPE; type++)
        for (op = PLAIT_SUM; op <= PLAIT_AVG; op++)
            for (nsrc = 2; nsrc <= 5; nsrc += 3) {
                begin((nsrc + 1) * (size_t)(COUNT + 1) * plait_dtype_size(type));
                run_both((enum plait_cuda_kernel)type, nsrc == 2 ? 3 : gpu_most_blocks(), build_reduce, 0);
                room_free(&room);
            }
}

static void build_scale(char *base, void *argument)
{
    const float two = 2;
    struct plait_cuda_scale a = { .dst = base, .src = base + 4 * COUNT, .count = COUNT, .type = PLAIT_FLOAT32 };

    memcpy(&a.scalar, &two, sizeof two);
    memcpy(argument, &a, sizeof a);
}

static void build_copy(char *base, void *argument)
{
    const struct plait_cuda_copy a = { .dst = base, .src = base + 4 * COUNT + 4, .bytes = 4 * COUNT - 5 };

    memcpy(argument, &a, sizeof a);
}

static void build_copies(char *base, void *argument)
{
    struct plait_cuda_copies a = { .n = PLAIT_CUDA_COPIES };
    const size_t each = 4 * COUNT / PLAIT_CUDA_COPIES;

    for (uint32_t i = 0; i < a.n; i++)
        a.copy[i] = (struct plait_cuda_copy){ base + i * each, base + 4 * COUNT + i * each + i % 3, each - i % 5 };
    memcpy(argument, &a, sizeof a);
}

static void scaling_and_copying(void **state)
{
    (void)state;
    begin(8 * COUNT + 64);
    run_both(PLAIT_CUDA_KERNEL_plait_scale, 5, build_scale, 0);
    run_both(PLAIT_CUDA_KERNEL_plait_copy, 7, build_copy, 0);
    run_both(PLAIT_CUDA_KERNEL_plait_copies, 9, build_copies, 0);
    room_free(&room);
}

/* ---- Kernels of many tensors ------------------------------------------------------------------------------------ */

static size_t length(uint32_t tensor)
{
    return 1 + tensor * (size_t)7001;
}

static uint32_t cut(struct plait_cuda_piece *pieces)
{
    struct plait_cuda_piece *end = pieces;

    for (uint32_t t = 0; t < TENSORS; t++)
        end = plait_cuda_cut(end, t, length(t));
    return (uint32_t)(end - pieces);
}

/* The payload, bfloat16, lies after the tensors. */
static void build_pack(char *base, void *argument)
{
    struct plait_cuda_tensor *tensors = (void *)(room.host + data);
    struct plait_cuda_piece *pieces = (void *)(tensors + TENSORS);
    struct plait_cuda_pack a = { .tensors = (void *)(base + data),
                                 .pieces = (void *)(base + data + sizeof *tensors * TENSORS),
                                 .factor = 0.5,
                                 .type = PLAIT_BFLOAT16 };
    size_t at = 0;

    for (uint32_t t = 0; t < TENSORS; t++) {
        tensors[t] = (struct plait_cuda_tensor){ .data = base + at * 4, .at = at, .type = PLAIT_FLOAT32 };
        at += length(t);
    }
    a.npiece = cut(pieces);
    a.payload = base + at * 4;
    memcpy(argument, &a, sizeof a);
}

static size_t all_elements(void)
{
    size_t n = 0;

    for (uint32_t t = 0; t < TENSORS; t++)
        n += length(t);
    return n;
}

static void packing_and_unpacking(void **state)
{
    (void)state;
    begin(all_elements() * 6 / 4 * 4 + 64);
    run_both(PLAIT_CUDA_KERNEL_plait_pack, 9, build_pack, 0);
    run_both(PLAIT_CUDA_KERNEL_plait_unpack, gpu_most_blocks(), build_pack, 0);
    room_free(&room);
}

/* ---- The optimiser ---------------------------------------------------------------------------------------------- */

/* Gradients, masters and momenta, one after the other; then what the passes leave for each other, in data too. */
static void build_optim(char *base, void *argument)
{
    struct plait_cuda_part *parts = (void *)(room.host + data);
    struct plait_cuda_piece *pieces = (void *)(parts + TENSORS);
    struct plait_cuda_range *ranges = (void *)(pieces + MOST_PIECES);
    struct plait_cuda_piece *end = pieces;
    const size_t n = all_elements(), after = (12 * n + 63) / 64 * 64;
    size_t at = 0;

    for (uint32_t t = 0; t < TENSORS; t++) {
        parts[t] = (struct plait_cuda_part){ .gradient = base + at * 4,
                                             .master = (float *)(void *)(base + (n + at) * 4),
                                             .momentum = (float *)(void *)(base + (2 * n + at) * 4),
                                             .type = PLAIT_FLOAT32,
                                             .tensor = t };
        ranges[t].first = (uint32_t)(end - pieces);
        end = plait_cuda_cut(end, t, length(t));
        ranges[t].count = (uint32_t)(end - pieces) - ranges[t].first;
        at += length(t);
    }
    const struct plait_cuda_optim a = {
        .parts = (void *)(base + ((char *)parts - room.host)),
        .pieces = (void *)(base + ((char *)pieces - room.host)),
        .ranges = (void *)(base + ((char *)ranges - room.host)),
        .gradient_squares = (void *)(base + after),
        .weight_squares = (void *)(base + after + sizeof(double) * MOST_PIECES),
        .sums = (void *)(base + after + sizeof(double) * 2 * MOST_PIECES),
        .updates = (void *)(base + after + sizeof(double) * 3 * MOST_PIECES),
        .result = (void *)(base + after + sizeof(double) * 4 * MOST_PIECES),
        .step = { .lr = 0.1, .factor = 1, .decay = 1e-4 },
        .momentum = 0.9,
        .decay = 1e-4,
        .eta = 0.001,
        .eps = 1e-9,
        .norm_decay = -1,
        .lars = 1,
        .what = PLAIT_CUDA_ADD | PLAIT_CUDA_TRUST,
        .npart = TENSORS,
        .npiece = (uint32_t)(end - pieces),
        .ntensor = TENSORS,
    };
    assert_true(a.npiece <= MOST_PIECES);
    memcpy(argument, &a, sizeof a);
}

static void the_optimisers_three_passes(void **state)
{
    (void)state;
    begin((12 * all_elements() + 63) / 64 * 64 + sizeof(double) * 5 * MOST_PIECES);
    run_both(PLAIT_CUDA_KERNEL_plait_optim_squares, 11, build_optim, 1e-6);
    run_both(PLAIT_CUDA_KERNEL_plait_optim_trust, 1, build_optim, 1e-6);
    run_both(PLAIT_CUDA_KERNEL_plait_optim_update, 11, build_optim, 1e-6);
    room_free(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_of_every_type_and_operator),
        cmocka_unit_test(scaling_and_copying),
        cmocka_unit_test(packing_and_unpacking),
        cmocka_unit_test(the_optimisers_three_passes),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    if (!gpu_open())
        return 1;
    printf("on %s\n", gpu_name());
    return cmocka_run_group_tests_name("kernels by the driver", tests, NULL, NULL);
}
