/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kernel as the driver runs it, against its body run by the host: the same bits. */
#include "../unit.h"
#include "gpu_kernels.h"

#include <plait/optim.h>

#include <host.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 100003, TENSORS = 7, MOST_PIECES = 256, TABLES = 1 << 16, LINE = 16 };

/* Data from 0 to `data`; tables, with addresses in them, after it. */
static struct room room;
static size_t data;

/*
 * Where arrays begin: one after the other, so that no two neighbours are aligned alike and elements go one by one; on lines of 16
 * bytes, which are accessed whole; one element before a line, so that whole lines come after a first element.
 */
static enum layout { PACKED, ON_LINES, BEFORE_LINES, NLAYOUT } layout;

static size_t up_to_line(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The `index`-th array of `count` elements of `size` bytes each, where all have room for elements of `widest`. */
static size_t array_start(size_t index, size_t count, size_t widest, size_t size)
{
    if (layout == PACKED)
        return index * count * widest;
    return index * (up_to_line(count * widest) + LINE) + (layout == BEFORE_LINES ? LINE - size : 0);
}

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
    data = (bytes + 63) / 64 * 64;
    assert_true(room_make(&room, data + TABLES));
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
            fail_msg("%s, %u blocks, layout %d: at byte %zu the device has %a, the host %a", kernel_name(k), blocks,
                     (int)layout, i, (double)a, (double)b);
    }
    free(got);
}

/* ---- Kernels of the collectives ------------------------------------------------------------------------------- */

static enum plait_dtype type;
static enum plait_op op;
static uint32_t nsrc;
static size_t count;
static uint64_t wide; /* as in struct plait_cuda_list */
static bool wide_dst;

static void build_reduce(char *base, void *argument)
{
    struct plait_cuda_list a = { .wide = wide, .op = (uint32_t)op, .wide_dst = wide_dst };
    const struct plait_cuda_item item = { .count = count, .times = 1 };
    const size_t size = plait_dtype_size(type), widest = wide != 0 || wide_dst ? sizeof(float) : size;
    void *const dst = base + array_start(0, count, widest, wide_dst ? widest : size);
    const void *table[64];

    a.divisor = op == PLAIT_AVG ? 3 : 0;
    for (uint32_t s = 0; s < nsrc; s++)
        table[s] = base + array_start(s + 1, count, widest, (wide >> s & 1) != 0 ? widest : size);
    plait_cuda_list_add(&a, (uint32_t)size, table, nsrc, &dst, 1, &item);
    plait_cuda_list_cut(&a, (uint32_t)size, 16);
    memcpy(argument, &a, sizeof a);
}

/* Few elements of many sources, so that the test takes no longer. */
static size_t count_for(uint32_t sources)
{
    return sources <= 2 ? COUNT : 6003;
}

static const uint32_t numbers[] = { 1, 2, 4, 5, 8, 9, 33 };
enum { NNUMBER = sizeof numbers / sizeof *numbers };

static void reduce_in_every_layout(size_t widest, enum plait_op first, enum plait_op last)
{
    count = count_for(nsrc);
    for (layout = 0; layout < NLAYOUT; layout++) {
        begin((nsrc + 1) * (up_to_line(count * widest) + LINE));
        for (op = first; op <= last; op++)
            run_both((enum plait_cuda_kernel)type, nsrc == 2 ? 3 : 16, build_reduce, 0);
        room_free(&room);
    }
}

static void reductions_of_every_type_operator_and_number_of_sources(void **state)
{
    wide = 0;
    wide_dst = false;
    for (type = 0; type < PLAIT_NDTYPE; type++)
        for (uint32_t i = 0; i < NNUMBER; i++) {
            nsrc = numbers[i];
            reduce_in_every_layout(plait_dtype_size(type), PLAIT_SUM, PLAIT_AVG);
        }
}

static void reductions_with_float32_partial_sums(void **state)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3, PLAIT_FLOAT8E5M2 };

    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t i = 0; i < NNUMBER; i++)
            for (uint32_t which = 0; which < 4; which++) {
                type = types[t];
                nsrc = numbers[i];
                wide = which == 0 ? 0 : which == 1 ? 1 : 0x5555555555555555 << which % 2;
                wide_dst = which != 1;
                reduce_in_every_layout(sizeof(float), PLAIT_SUM, PLAIT_SUM);
            }
}

/* Reduce-scatters, or all-gathers if nsrc is 1, of four ranks, which have `count` elements of each block. */
static void build_list(char *base, void *argument)
{
    const size_t size = plait_dtype_size(type), each = 4 * up_to_line(count * size);
    struct plait_cuda_item item = { .count = count, .times = 4, .gathers = nsrc == 1 };
    struct plait_cuda_list a = { .op = (uint32_t)op };
    const void *src[8];
    void *dst[8];

    for (uint32_t i = 0; i < 8; i++) {
        src[i] = base + i * each + layout % 3 * size;
        dst[i] = base + (8 + i) * each + layout % 3 * size;
    }
    plait_cuda_list_add(&a, (uint32_t)size, src, nsrc == 1 ? 4 : nsrc, dst, 4, &item);
    item.count = count - 1;
    item.in = item.out = size;
    item.gathers = 0;
    plait_cuda_list_add(&a, (uint32_t)size, src + 4, 2, dst + 4, 4, &item);
    plait_cuda_list_cut(&a, (uint32_t)size, 16);
    memcpy(argument, &a, sizeof a);
}

static void lists_of_blocks(void **state)
{
    for (type = 0; type < PLAIT_NDTYPE; type++) {
        count = 3001;
        op = PLAIT_SUM;
        begin(16 * 4 * up_to_line(count * plait_dtype_size(type)) + LINE);
        for (layout = 0; layout < NLAYOUT; layout++)
            for (nsrc = 1; nsrc <= 8; nsrc += 7)
                run_both((enum plait_cuda_kernel)type, 16, build_list, 0);
        room_free(&room);
    }
}

/* Two, of `type`; of a late one the kernel knows only where it is. */
static bool late;

static void build_scale(char *base, void *argument)
{
    const size_t size = plait_dtype_size(type);
    const uint64_t two = type < PLAIT_FLOAT16 ? 2 : (uint64_t)0x40 << 8 * (size - 1);
    struct plait_cuda_scale a = { .count = count, .type = type };

    a.dst = base + array_start(0, count, size, size);
    a.src = base + array_start(1, count, size, size);
    memcpy(room.host + data, &two, sizeof two);
    if (late)
        a.late = base + data;
    else
        a.scalar = two;
    memcpy(argument, &a, sizeof a);
}

static void scaling_of_every_type(void **state)
{
    count = count_for(5);
    for (type = 0; type < PLAIT_NDTYPE; type++)
        for (layout = 0; layout < NLAYOUT; layout++) {
            begin(2 * (up_to_line(count * plait_dtype_size(type)) + LINE));
            for (uint32_t when = 0; when < 2; when++) {
                late = when != 0;
                run_both(PLAIT_CUDA_KERNEL_plait_scale, 5, build_scale, 0);
            }
            room_free(&room);
        }
}

static void build_copy(char *base, void *argument)
{
    const struct plait_cuda_item item = { .count = 4 * COUNT - 5, .times = 1 };
    const void *const src = base + array_start(1, COUNT, 4, 4);
    void *const dst = base;
    struct plait_cuda_list a = { .nitem = 0 };

    plait_cuda_list_add(&a, 1, &src, 1, &dst, 1, &item);
    plait_cuda_list_cut(&a, 1, 7);
    memcpy(argument, &a, sizeof a);
}

static void build_copies(char *base, void *argument)
{
    struct plait_cuda_copies a = { .n = PLAIT_CUDA_COPIES };
    const size_t each = 4 * COUNT / PLAIT_CUDA_COPIES;

    for (uint32_t i = 0; i < a.n; i++)
        a.copy[i] =
            (struct plait_cuda_copy){ base + i * each, base + up_to_line(4 * COUNT) + i * each + i % 3, each - i % 5 };
    memcpy(argument, &a, sizeof a);
}

static void copying(void **state)
{
    begin(8 * COUNT + 64);
    for (layout = 0; layout < NLAYOUT; layout++)
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

/* Elements from one tensor's start to the next one's: on lines a multiple of 16, so whole lines of any type. */
static size_t taken(uint32_t tensor)
{
    return layout == PACKED ? length(tensor) : up_to_line(length(tensor));
}

static size_t all_elements(void)
{
    size_t n = 0;

    for (uint32_t t = 0; t < TENSORS; t++)
        n += taken(t);
    return n;
}

/* What is packed: the tensors' type and the payload's, and its factor. */
static const struct packing {
    enum plait_dtype tensor, payload;
    double factor;
} packings[] = {
    { PLAIT_FLOAT32, PLAIT_BFLOAT16, 0.5 },    { PLAIT_FLOAT32, PLAIT_FLOAT16, 1 },
    { PLAIT_FLOAT32, PLAIT_FLOAT32, 1 },       { PLAIT_FLOAT32, PLAIT_FLOAT32, 0.5 },
    { PLAIT_BFLOAT16, PLAIT_FLOAT32, 2 },      { PLAIT_FLOAT16, PLAIT_FLOAT16, 2 },
    { PLAIT_FLOAT8E4M3, PLAIT_FLOAT32, 0.25 }, { PLAIT_FLOAT64, PLAIT_FLOAT64, 2 },
    { PLAIT_INT32, PLAIT_INT32, 1 },
};
static struct packing packing;

/* The payload lies after the tensors; a late factor after the tables. */
static void build_pack(char *base, void *argument)
{
    struct plait_cuda_tensor *tensors = (void *)(room.host + data);
    struct plait_cuda_piece *pieces = (void *)(tensors + TENSORS);
    char *factor = (char *)(pieces + MOST_PIECES);
    struct plait_cuda_pack a = { .tensors = (void *)(base + data),
                                 .pieces = (void *)(base + data + sizeof *tensors * TENSORS),
                                 .factor = packing.factor,
                                 .type = packing.payload };
    const size_t size = plait_dtype_size(packing.tensor);
    size_t at = 0;

    for (uint32_t t = 0; t < TENSORS; t++) {
        tensors[t] = (struct plait_cuda_tensor){ .data = base + at * size, .at = at, .type = packing.tensor };
        at += taken(t);
    }
    a.npiece = cut(pieces);
    a.payload = base + up_to_line(at * size);
    if (late) {
        memcpy(factor, &packing.factor, sizeof packing.factor);
        a.late = (void *)(base + (factor - room.host));
        a.factor = 0;
    }
    memcpy(argument, &a, sizeof a);
}

static void packing_and_unpacking(void **state)
{
    for (layout = PACKED; layout <= ON_LINES; layout++)
        for (uint32_t i = 0; i < sizeof packings / sizeof *packings; i++) {
            packing = packings[i];
            late = i % 2 != 0;
            begin(all_elements() * (plait_dtype_size(packing.tensor) + plait_dtype_size(packing.payload)) + LINE);
            run_both(PLAIT_CUDA_KERNEL_plait_pack, 9, build_pack, 0);
            run_both(PLAIT_CUDA_KERNEL_plait_unpack, gpu_most_blocks(), build_pack, 0);
            room_free(&room);
        }
}

/* ---- The optimiser ---------------------------------------------------------------------------------------------- */

/* Gradients, masters and momenta, one after the other; then what the passes leave for each other, in data too. */
static void build_optim(char *base, void *argument)
{
    struct plait_cuda_part *parts = (void *)(room.host + data);
    struct plait_cuda_piece *pieces = (void *)(parts + TENSORS);
    struct plait_cuda_range *ranges = (void *)(pieces + MOST_PIECES);
    struct plait_cuda_piece *end = pieces;
    struct plait_loss_scale *scale = (void *)(ranges + TENSORS);
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
        at += taken(t);
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
        .scale = (void *)(base + ((char *)scale - room.host)),
        .step = { .lr = 0.1, .factor = 4, .decay = 1e-4 },
        .momentum = 0.9,
        .decay = 1e-4,
        .eta = 0.001,
        .eps = 1e-9,
        .norm_decay = -1,
        .nrank = 1,
        .lars = 1,
        .what = PLAIT_CUDA_ADD | PLAIT_CUDA_TRUST,
        .npart = TENSORS,
        .npiece = (uint32_t)(end - pieces),
        .ntensor = TENSORS,
    };
    assert_true(a.npiece <= MOST_PIECES);
    *scale = (struct plait_loss_scale){ 4, 2, 0.5, 1, 64, 1, 0, 0 };
    memcpy(argument, &a, sizeof a);
}

static void the_optimisers_three_passes(void **state)
{
    for (layout = PACKED; layout <= ON_LINES; layout++) {
        begin((12 * all_elements() + 63) / 64 * 64 + sizeof(double) * 5 * MOST_PIECES);
        run_both(PLAIT_CUDA_KERNEL_plait_optim_squares, 11, build_optim, 1e-6);
        run_both(PLAIT_CUDA_KERNEL_plait_optim_trust, 1, build_optim, 1e-6);
        run_both(PLAIT_CUDA_KERNEL_plait_optim_update, 11, build_optim, 1e-6);
        room_free(&room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_of_every_type_operator_and_number_of_sources),
        cmocka_unit_test(lists_of_blocks),
        cmocka_unit_test(reductions_with_float32_partial_sums),
        cmocka_unit_test(scaling_of_every_type),
        cmocka_unit_test(copying),
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
