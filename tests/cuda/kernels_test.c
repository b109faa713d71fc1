/* SPDX-License-Identifier: BSD-3-Clause */
/* The device kernels' bodies, run by the host, against the CPU kernels: the same bits, and nothing written outside. */
#include "../random.h"
#include "../unit.h"

#include <copy_body.h>
#include <fusion/pass.h>
#include <host.h>
#include <math.h>
#include <reduce/reduce.h>
#include <stdio.h>
#include <string.h>

enum { SOURCES = 70, MOST = 700, ROOM = MOST * 8 + 128 };

static uint64_t seed = 7;
static _Alignas(64) unsigned char sources[SOURCES][ROOM], want[ROOM], got[ROOM];

/* Asking the processor takes long in a virtual machine. */
static const struct plait_kernels *cpu(void)
{
    static const struct plait_kernels *found;

    if (found == NULL)
        found = plait_kernels_find("");
    return found;
}

static uint64_t draw(uint64_t below)
{
    return random_next(&seed) % below;
}

static void run(const char *name, const void *argument, uint32_t nblock)
{
    const struct plait_cuda_host *kernel = plait_cuda_host_find(name);

    assert_non_null(kernel);
    kernel->run(argument, nblock);
}

/* Half of them any bits: infinities, NaNs and denormals are among them; half numbers between -4 and 4. */
static void fill(unsigned char *p, size_t bytes, enum plait_dtype type)
{
    const size_t size = plait_dtype_size(type);

    for (size_t i = 0; i + size <= bytes; i += size) {
        const uint64_t any = random_next(&seed);
        const float f = (float)(int32_t)any * 0x1p-29f;
        const double d = (double)f;
        if (type < PLAIT_FLOAT16 || any >> 63 != 0)
            memcpy(p + i, &any, size);
        else if (type == PLAIT_FLOAT64)
            memcpy(p + i, &d, sizeof d);
        else if (type == PLAIT_FLOAT32)
            memcpy(p + i, &f, sizeof f);
        else
            cpu()->narrow[type](p + i, &f, 1, 1);
    }
}

/* ---- Reduction -------------------------------------------------------------------------------------------- */

struct job {
    enum plait_dtype type;
    enum plait_op op;
    uint32_t nsrc, divisor;
    size_t count;
    uint64_t wide;
    bool wide_dst, in_place;
    size_t start[SOURCES + 1]; /* bytes; the last is of dst */
    uint32_t nblock;
};

static void reduce_both(const struct job *j)
{
    const struct plait_how how = { .divisor = j->divisor };
    struct plait_cuda_list a = { .wide = j->wide, .op = j->op, .divisor = j->divisor, .wide_dst = j->wide_dst };
    const struct plait_cuda_item item = { .count = j->count, .times = 1 };
    const uint32_t size = (uint32_t)plait_dtype_size(j->type);
    const void *table[SOURCES];
    const uint32_t same = j->nsrc - 1; /* the source that dst is, in place */
    char name[64];

    for (uint32_t s = 0; s < j->nsrc; s++) {
        const bool wide = s < 64 && (j->wide >> s & 1) != 0;
        fill(sources[s] + j->start[s], j->count * (wide ? 4 : plait_dtype_size(j->type)),
             wide ? PLAIT_FLOAT32 : j->type);
        table[s] = sources[s] + j->start[s];
    }
    const size_t start = j->in_place ? j->start[same] : j->start[SOURCES];
    memset(want, 0xa5, sizeof want);
    memset(got, 0xa5, sizeof got);
    if (j->in_place) {
        memcpy(want, sources[same], sizeof want);
        memcpy(got, sources[same], sizeof got);
    }
    void *const dst = got + start;
    if (j->in_place)
        table[same] = want + start;
    plait_reduce_mixed(cpu(), j->type, j->op, want + start, j->wide_dst, table, j->wide, j->nsrc, j->count, &how);
    if (j->in_place)
        table[same] = dst;
    assert_true(plait_cuda_list_add(&a, size, table, j->nsrc, &dst, 1, &item));
    plait_cuda_list_cut(&a, size, 2);
    snprintf(name, sizeof name, "plait_reduce_%s", plait_dtype_name(j->type));
    run(name, &a, j->nblock);
    if (memcmp(got, want, sizeof got) != 0)
        fail_msg("%s %s of %u sources, %zu elements, divisor %u, wide %#llx %d, in place %d", plait_dtype_name(j->type),
                 plait_op_name(j->op), j->nsrc, j->count, j->divisor, (unsigned long long)j->wide, j->wide_dst,
                 j->in_place);
}

/* All starts alike, so that there are whole lines, or each its own. */
static void draw_starts(struct job *j, size_t size)
{
    const size_t all = draw(16 / size) * size;
    const bool alike = draw(3) != 0;

    for (uint32_t s = 0; s <= SOURCES; s++)
        j->start[s] = alike ? all : draw(16 / size) * size;
}

static const uint32_t numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32, 33, SOURCES };
enum { NNUMBER = sizeof numbers / sizeof *numbers };

static void every_type_and_operator_gives_the_bits_of_the_cpu(void **state)
{
    static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_PROD, PLAIT_MAX, PLAIT_MIN, PLAIT_AVG };

    for (uint32_t type = 0; type < PLAIT_NDTYPE; type++)
        for (uint32_t o = 0; o < 5; o++)
            for (uint32_t trial = 0; trial < 3 * NNUMBER; trial++) {
                struct job j = { .type = type, .op = ops[o], .nsrc = numbers[trial % NNUMBER] };
                j.count = trial < NNUMBER ? draw(40) : draw(MOST);
                j.divisor = ops[o] == PLAIT_AVG ? 1 + (uint32_t)draw(100) : 0;
                j.in_place = draw(2) != 0;
                j.nblock = 1 + (uint32_t)draw(3);
                draw_starts(&j, plait_dtype_size(type));
                reduce_both(&j);
            }
}

static void operands_and_results_of_more_width_too(void **state)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3, PLAIT_FLOAT8E5M2 };

    for (uint32_t trial = 0; trial < 40 * NNUMBER; trial++) {
        struct job j = { .type = types[trial % 4], .op = draw(4), .nsrc = numbers[trial % NNUMBER] };
        j.count = draw(MOST);
        j.wide = random_next(&seed) & random_next(&seed);
        j.wide_dst = draw(2) != 0;
        j.divisor = j.op == PLAIT_SUM && draw(2) != 0 ? 3 : 0;
        j.nblock = 1 + (uint32_t)draw(3);
        draw_starts(&j, 4);
        reduce_both(&j);
    }
}

/* ---- Lists ------------------------------------------------------------------------------------------------ */

enum { BLOCK = 100, NADDRESS = 6 }; /* most elements of a block; operands or results of an item, at most */

/* Write the item's expected results, made of `sources`, into the bytes of `to`, block after block. */
static void list_expect(const struct plait_cuda_list *a, enum plait_dtype type, const struct plait_cuda_item *item,
                        const size_t *in, const size_t *out)
{
    const struct plait_how how = { .divisor = a->divisor };
    const size_t size = plait_dtype_size(type);

    for (uint32_t k = 0; k < item->times; k++) {
        const size_t on = k * item->count * size;
        const uint32_t nsrc = item->gathers ? 1 : item->nsrc, first = item->gathers ? k : 0;
        const uint32_t ndst = item->gathers || item->times == 1 ? item->ndst : 1, result = item->gathers ? 0 : k;
        const void *table[NADDRESS];
        for (uint32_t s = 0; s < nsrc; s++)
            table[s] = sources[first + s] + in[first + s] + item->in + (item->gathers ? 0 : on);
        for (uint32_t d = 0; d < ndst; d++)
            plait_reduce_mixed(cpu(), type, a->op, want + out[result + d] + item->out + (item->gathers ? on : 0), false,
                               table, 0, nsrc, item->count, &how);
    }
}

/* Two items: results of the second lie behind those of the first. */
static void list_trial(uint32_t trial)
{
    const enum plait_dtype type = trial % PLAIT_NDTYPE;
    const uint32_t size = (uint32_t)plait_dtype_size(type), half = (uint32_t)(ROOM / 2 / 16 * 16);
    struct plait_cuda_list a = { .op = draw(5) };
    size_t in[2][NADDRESS], out[2][NADDRESS];
    char name[64];

    a.divisor = a.op == PLAIT_AVG ? 3 : 0;
    memset(want, 0xa5, sizeof want);
    memset(got, 0xa5, sizeof got);
    for (uint32_t s = 0; s < NADDRESS; s++)
        fill(sources[s], ROOM, type);
    for (uint32_t i = 0; i < 2; i++) {
        const size_t alike = draw(2) != 0 ? 0 : 1, unit = 16 / size;
        struct plait_cuda_item item = { .in = draw(5) * size, .times = 1 + draw(3), .gathers = draw(2) != 0 };
        const uint32_t nsrc = item.gathers ? item.times : 1 + draw(NADDRESS);
        const uint32_t ndst = item.gathers || item.times == 1 ? 1 + draw(3) : item.times;
        const size_t each = half / 3 / 16 * 16; /* bytes of a result */
        const void *src[NADDRESS];
        void *dst[NADDRESS];
        item.out = alike != 0 ? item.in : draw(5) * size;
        item.count = draw((each - 9 * 16) / item.times / size);
        for (uint32_t s = 0; s < nsrc; s++)
            src[s] = sources[s] + (in[i][s] = alike != 0 ? 0 : draw(unit) * size);
        for (uint32_t d = 0; d < ndst; d++)
            dst[d] = got + (out[i][d] = i * half + d * each + (alike != 0 ? 0 : draw(unit) * size));
        assert_true(plait_cuda_list_add(&a, size, src, nsrc, dst, ndst, &item));
        list_expect(&a, type, &a.item[i], in[i], out[i]);
    }
    snprintf(name, sizeof name, "plait_reduce_%s", plait_dtype_name(type));
    const uint32_t blocks = plait_cuda_list_cut(&a, size, 1 + (uint32_t)draw(30));
    run(name, &a, blocks);
    assert_memory_equal(got, want, sizeof got);
}

static void lists_make_every_block_of_their_items(void **state)
{
    for (uint32_t trial = 0; trial < 200 * PLAIT_NDTYPE; trial++)
        list_trial(trial);
}

static void a_list_takes_what_fits_and_no_more(void **state)
{
    struct plait_cuda_list a = { .nitem = 0 };
    const struct plait_cuda_item item = { .count = 1, .times = 1 };
    const void *src[PLAIT_CUDA_SLOTS];
    void *const dst = got;
    uint32_t n = 0;

    for (uint32_t s = 0; s < PLAIT_CUDA_SLOTS; s++)
        src[s] = sources[0] + s;
    assert_false(plait_cuda_list_add(&a, 1, src, PLAIT_CUDA_SLOTS - 5, &dst, 1, &item));
    assert_int_equal(a.nitem + a.used, 0);
    assert_true(plait_cuda_list_add(&a, 1, src, PLAIT_CUDA_SLOTS - 6, &dst, 1, &item));
    assert_false(plait_cuda_list_add(&a, 1, src, 1, &dst, 1, &item));
    for (a = (struct plait_cuda_list){ .nitem = 0 }; plait_cuda_list_add(&a, 1, &src[n], 1, &dst, 1, &item); n++)
        ;
    assert_int_equal(n, (PLAIT_CUDA_SLOTS - 1) / 6); /* five for an item, one for its operand; the result is the same */
    assert_int_equal(a.nitem, n);
    for (uint32_t i = 0; i < n; i++)
        assert_true(a.slot[a.item[i].src] == (uintptr_t)src[i] && a.slot[a.item[i].dst] == (uintptr_t)dst);
}

static void a_scalar_multiplies_now_or_when_the_kernel_runs(void **state)
{
    for (uint32_t trial = 0; trial < 30 * PLAIT_NDTYPE; trial++) {
        const enum plait_dtype type = trial % PLAIT_NDTYPE;
        const size_t size = plait_dtype_size(type), start = draw(2) * size, to = draw(2) * size;
        struct plait_cuda_scale a = { .count = draw(MOST), .type = type };
        unsigned char late[8];

        fill(sources[0], ROOM, type);
        fill(late, sizeof late, type);
        memset(want, 0xa5, sizeof want);
        memset(got, 0xa5, sizeof got);
        cpu()->scale[type](want + to, sources[0] + start, a.count, late);
        a.dst = got + to;
        a.src = sources[0] + start;
        if (draw(2) != 0)
            a.late = late;
        else
            memcpy(&a.scalar, late, size);
        run("plait_scale", &a, 2);
        assert_memory_equal(got, want, sizeof got);
    }
}

static void run_copy(void *to, const void *from, size_t bytes, uint32_t nblock)
{
    const struct plait_cuda_item item = { .count = bytes, .times = 1 };
    struct plait_cuda_list a = { .nitem = 0 };

    assert_true(plait_cuda_list_add(&a, 1, &from, 1, &to, 1, &item));
    plait_cuda_list_cut(&a, 1, nblock);
    run("plait_copy", &a, nblock);
}

static void bytes_are_copied_from_anywhere_to_anywhere(void **state)
{
    for (uint32_t trial = 0; trial < 1000; trial++) {
        const size_t from = draw(17), to = draw(3) != 0 ? from : draw(17);
        const size_t bytes = draw(trial < 500 ? 64 : ROOM - 32);

        fill(sources[0], ROOM, PLAIT_UINT8);
        memset(want, 0xa5, sizeof want);
        memset(got, 0xa5, sizeof got);
        memcpy(want + to, sources[0] + from, bytes);
        run_copy(got + to, sources[0] + from, bytes, 1 + (uint32_t)draw(3));
        assert_memory_equal(got, want, sizeof got);
    }
}

/* Each width of access, with a part before it and one after it. */
static void bytes_are_copied_whatever_both_addresses_are(void **state)
{
    fill(sources[0], ROOM, PLAIT_UINT8);
    for (size_t from = 0; from < 16; from++)
        for (size_t to = 0; to < 16; to++) {
            const unsigned width = 1U << plait_copy_shift(got + to, sources[0] + from);
            assert_true(width <= 16 && from % width == to % width);
            assert_true(width == 16 || from % (2 * width) != to % (2 * width)); /* and no wider one */
            for (size_t bytes = 0; bytes < 90; bytes++) {
                memset(want, 0xa5, 128);
                memset(got, 0xa5, 128);
                memcpy(want + to, sources[0] + from, bytes);
                run_copy(got + to, sources[0] + from, bytes, 1);
                assert_memory_equal(got, want, 128);
            }
        }
}

static void copies_are_cut_into_chunks(void **state)
{
    enum { BYTES = 8 * PLAIT_CUDA_CHUNK };
    static _Alignas(16) unsigned char from[BYTES], to[BYTES], expected[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    for (uint32_t nblock = 1; nblock < 10; nblock++) {
        struct plait_cuda_copies a = { .n = 3 };
        const size_t bytes[] = { 3 * PLAIT_CUDA_CHUNK + 5, 2 * PLAIT_CUDA_CHUNK, 77 };
        memset(to, 0, BYTES);
        memset(expected, 0, BYTES);
        for (size_t i = 0, at = 0; i < 3; at += bytes[i++] + 9) {
            a.copy[i] = (struct plait_cuda_copy){ to + at, from + at, bytes[i] };
            memcpy(expected + at, from + at, bytes[i]);
        }
        run("plait_copies", &a, nblock);
        assert_memory_equal(to, expected, BYTES);
    }
}

static void many_copies_are_one_launch(void **state)
{
    enum { EACH = ROOM / 8 };
    for (uint32_t trial = 0; trial < 200; trial++) {
        struct plait_cuda_copies a = { .n = 1 + (uint32_t)draw(8) };

        fill(sources[0], ROOM, PLAIT_UINT8);
        memset(want, 0xa5, sizeof want);
        memset(got, 0xa5, sizeof got);
        for (uint32_t i = 0; i < a.n; i++) {
            const size_t from = draw(ROOM - EACH), to = i * EACH + draw(17);
            a.copy[i] = (struct plait_cuda_copy){ got + to, sources[0] + from, draw(4) == 0 ? 0 : draw(EACH - 17) };
            memcpy(want + to, sources[0] + from, a.copy[i].bytes);
        }
        run("plait_copies", &a, 1 + (uint32_t)draw(5));
        assert_memory_equal(got, want, sizeof got);
    }
}

/* ---- Fusion ----------------------------------------------------------------------------------------------- */

enum { TENSORS = 6, LONG = 9000, PIECES = 64, PAYLOAD = TENSORS * (LONG + 64) };

static _Alignas(64) unsigned char payload[2][PAYLOAD * 8], tensor[2][TENSORS][LONG * 8 + 64];

struct fused {
    struct plait_cuda_tensor tensors[TENSORS];
    struct plait_cuda_piece pieces[PIECES];
    size_t count[TENSORS];
    struct plait_cuda_pack a;
    double late;
};

/* Which types may go together: docs of struct plait_cuda_tensor. */
static enum plait_dtype draw_type(enum plait_dtype type)
{
    static const enum plait_dtype narrow[] = { PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3, PLAIT_FLOAT8E5M2 };

    if (draw(2) != 0)
        return type;
    if (type == PLAIT_FLOAT32)
        return narrow[draw(4)];
    return type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type >= PLAIT_FLOAT8E4M3 ? PLAIT_FLOAT32 : type;
}

/* Tensors of any length in one payload, at any element. The factor is 1, or known when the kernel runs. */
static void draw_fused(struct fused *f, enum plait_dtype type)
{
    struct plait_cuda_piece *end = f->pieces;
    uint64_t at = 0;

    memset(f, 0, sizeof *f);
    for (uint32_t t = 0; t < TENSORS; t++) {
        struct plait_cuda_tensor *x = &f->tensors[t];
        x->type = draw_type(type);
        x->data = tensor[1][t] + draw(2) * plait_dtype_size(x->type);
        x->at = at;
        f->count[t] = t == 0 ? LONG : draw(t % 2 ? 100 : LONG);
        at += f->count[t] + draw(2) * (64 - f->count[t] % 64);
        end = plait_cuda_cut(end, t, f->count[t]);
    }
    assert_in_range(end - f->pieces, 1, PIECES);
    f->late = type < PLAIT_FLOAT16 || draw(2) != 0 ? 1 : 0.37;
    f->a = (struct plait_cuda_pack){ .tensors = f->tensors,
                                     .pieces = f->pieces,
                                     .payload = payload[1],
                                     .type = type,
                                     .npiece = (uint32_t)(end - f->pieces),
                                     .factor = f->late };
    if (draw(2) != 0) {
        f->a.factor = 3;
        f->a.late = &f->late;
    }
}

/* The same place in the copy that the CPU works on. */
static void *other(const struct fused *f, uint32_t t)
{
    return tensor[0][t] + ((unsigned char *)f->tensors[t].data - tensor[1][t]);
}

static void fill_both(void *one, void *two, size_t bytes, enum plait_dtype type)
{
    fill(one, bytes, type);
    memcpy(two, one, bytes);
}

static void tensors_are_packed_as_the_cpu_does(void **state)
{
    for (uint32_t trial = 0; trial < 4 * PLAIT_NDTYPE; trial++) {
        struct fused f;

        draw_fused(&f, trial % PLAIT_NDTYPE);
        const uint32_t skipped = (uint32_t)draw(TENSORS);
        memset(payload, 0xa5, sizeof payload);
        for (uint32_t t = 0; t < TENSORS; t++) {
            const struct plait_cuda_tensor *x = &f.tensors[t];
            char *to = (char *)payload[0] + x->at * plait_dtype_size(f.a.type);
            fill_both(x->data, other(&f, t), f.count[t] * plait_dtype_size(x->type), x->type);
            if (t == skipped)
                memset(to, 0, f.count[t] * plait_dtype_size(f.a.type));
            else
                plait_pass(cpu(), (struct plait_vector){ to, f.a.type }, (struct plait_vector){ other(&f, t), x->type },
                           f.count[t], f.late, false, NULL);
        }
        f.tensors[skipped].data = NULL;
        run("plait_pack", &f.a, 1 + (uint32_t)draw(f.a.npiece + 2));
        assert_memory_equal(payload[1], payload[0], sizeof payload[0]);
    }
}

static void tensors_are_unpacked_as_the_cpu_does(void **state)
{
    for (uint32_t trial = 0; trial < 4 * PLAIT_NDTYPE; trial++) {
        struct fused f;

        draw_fused(&f, trial % PLAIT_NDTYPE);
        memset(tensor, 0xa5, sizeof tensor);
        fill_both(payload[0], payload[1], PAYLOAD * plait_dtype_size(f.a.type), f.a.type);
        for (uint32_t t = 0; t < TENSORS; t++)
            plait_pass(cpu(), (struct plait_vector){ other(&f, t), f.tensors[t].type },
                       (struct plait_vector){ payload[0] + f.tensors[t].at * plait_dtype_size(f.a.type), f.a.type },
                       f.count[t], f.late, false, NULL);
        run("plait_unpack", &f.a, 1 + (uint32_t)draw(f.a.npiece + 2));
        assert_memory_equal(tensor[1], tensor[0], sizeof tensor[0]);
        assert_memory_equal(payload[1], payload[0], sizeof payload[0]);
    }
}

/* Small whole numbers: sums of their squares are exact in any order. */
static void fill_whole(const struct fused *f)
{
    const size_t size = plait_dtype_size(f->a.type);

    for (size_t i = 0; i < PAYLOAD; i++) {
        const float v = (float)((int)draw(9) - 4);
        const double d = (double)v;
        if (f->a.type == PLAIT_FLOAT64)
            memcpy(payload[1] + i * size, &d, size);
        else if (f->a.type == PLAIT_FLOAT32)
            memcpy(payload[1] + i * size, &v, size);
        else
            cpu()->narrow[f->a.type](payload[1] + i * size, &v, 1, 1);
    }
}

static double squares_of(const struct fused *f, uint32_t piece)
{
    const struct plait_cuda_piece *p = &f->pieces[piece];
    const struct plait_cuda_tensor *t = &f->tensors[p->of];

    return plait_pass_squares(cpu(), (char *)t->data + p->start * plait_dtype_size(t->type), t->type, p->count);
}

static void squares_and_what_is_not_finite_are_seen(void **state)
{
    for (uint32_t trial = 0; trial < 60; trial++) {
        static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT64 };
        double squares[PIECES];
        uint32_t infinite = 0;
        struct fused f;

        draw_fused(&f, types[trial % 4]);
        f.a.late = NULL;
        f.a.factor = draw(2) != 0 ? 2 : 1;
        f.a.squares = squares;
        f.a.infinite = &infinite;
        fill_whole(&f);
        run("plait_unpack", &f.a, 1 + (uint32_t)draw(f.a.npiece));
        for (uint32_t p = 0; p < f.a.npiece; p++)
            assert_true(squares[p] == squares_of(&f, p));
        assert_int_equal(infinite, 0);

        const uint32_t t = (uint32_t)draw(TENSORS);
        if (f.count[t] == 0)
            continue;
        const size_t size = plait_dtype_size(f.a.type);
        memset(payload[1] + (f.tensors[t].at + draw(f.count[t])) * size, 0xff, size); /* a NaN */
        run("plait_unpack", &f.a, 1 + (uint32_t)draw(f.a.npiece));
        assert_int_equal(infinite, 1);
    }
}

static void what_lies_in_the_payload_is_looked_at_there(void **state)
{
    double squares[PIECES];
    struct fused f;

    draw_fused(&f, PLAIT_FLOAT32);
    for (uint32_t t = 0; t < TENSORS; t++)
        f.tensors[t] = (struct plait_cuda_tensor){ payload[1] + f.tensors[t].at * 4, f.tensors[t].at, PLAIT_FLOAT32 };
    f.a.late = NULL;
    f.a.factor = 1;
    f.a.squares = squares;
    fill_whole(&f);
    memcpy(payload[0], payload[1], sizeof payload[0]);
    run("plait_unpack", &f.a, 3);
    assert_memory_equal(payload[1], payload[0], sizeof payload[0]);
    for (uint32_t p = 0; p < f.a.npiece; p++)
        assert_true(squares[p] == squares_of(&f, p));
}

/* ---- Accesses --------------------------------------------------------------------------------------------- */

/* Number of 16-byte accesses of a run. */
static uint64_t lines_of(const char *name, const void *argument, uint32_t nblock)
{
    plait_cuda_nline = 0;
    run(name, argument, nblock);
    return plait_cuda_nline;
}

/* On lines, every byte read and every byte written is in one access of 16. */
static void what_lies_on_lines_moves_by_lines_alone(void **state)
{
    static const enum plait_dtype types[][2] = {
        { PLAIT_FLOAT32, PLAIT_BFLOAT16 },  { PLAIT_FLOAT32, PLAIT_FLOAT16 },  { PLAIT_FLOAT32, PLAIT_FLOAT8E4M3 },
        { PLAIT_FLOAT32, PLAIT_FLOAT32 },   { PLAIT_BFLOAT16, PLAIT_FLOAT32 }, { PLAIT_BFLOAT16, PLAIT_BFLOAT16 },
        { PLAIT_FLOAT8E5M2, PLAIT_FLOAT32 }
    };
    static const uint64_t counts[] = { 64, 4096, 432, 8192 };
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++)
        for (uint32_t c = 0; c < 4; c++)
            for (uint32_t factor = 1; factor <= 2; factor++) {
                struct plait_cuda_tensor t = { tensor[1][0], 64, types[i][0] };
                struct plait_cuda_piece pieces[PIECES];
                const struct plait_cuda_pack a = { .tensors = &t,
                                                   .pieces = pieces,
                                                   .payload = payload[1],
                                                   .factor = factor,
                                                   .type = types[i][1],
                                                   .npiece =
                                                       (uint32_t)(plait_cuda_cut(pieces, 0, counts[c]) - pieces) };
                const uint64_t bytes = counts[c] * (plait_dtype_size(types[i][0]) + plait_dtype_size(types[i][1]));
                memset(tensor, 0, sizeof tensor);
                memset(payload, 0, sizeof payload);
                assert_int_equal(lines_of("plait_pack", &a, 2) * 16, bytes);
                assert_int_equal(lines_of("plait_unpack", &a, 2) * 16, bytes);
            }
}

/* The same of a reduction or copy whose blocks have the same offset from a line, but for what is before and behind. */
static void blocks_of_one_offset_are_combined_by_lines(void **state)
{
    enum { LINES = 12 };
    static const struct {
        enum plait_dtype type;
        uint32_t nsrc;
        uint64_t wide;
        bool wide_dst;
    } jobs[] = {
        { PLAIT_FLOAT32, 2, 0, false },  { PLAIT_FLOAT32, 4, 0, false },   { PLAIT_FLOAT64, 8, 0, false },
        { PLAIT_UINT8, 3, 0, false },    { PLAIT_BFLOAT16, 2, 0, false },  { PLAIT_BFLOAT16, 8, 0, false },
        { PLAIT_BFLOAT16, 9, 0, false }, { PLAIT_BFLOAT16, 33, 0, false }, { PLAIT_BFLOAT16, 4, 0, true },
        { PLAIT_FLOAT16, 3, 7, false },  { PLAIT_BFLOAT16, 1, 1, false },  { PLAIT_FLOAT32, 1, 0, false },
    };

    for (uint32_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (uint32_t offset = 0; offset < 16; offset += 8) {
            struct plait_cuda_list a = { .wide = jobs[i].wide, .wide_dst = jobs[i].wide_dst };
            const uint32_t size = (uint32_t)plait_dtype_size(jobs[i].type), nsrc = jobs[i].nsrc;
            const bool mixed = jobs[i].wide != 0 || jobs[i].wide_dst;
            const uint64_t in = jobs[i].wide != 0 ? 4 : size, out = jobs[i].wide_dst ? 4 : size;
            const struct plait_cuda_item item = { .count = LINES * 16 / size, .times = 1 };
            const uint32_t units = mixed || offset == 0 ? LINES : LINES - 1;
            const void *src[SOURCES];
            void *const dst = got + (mixed ? 0 : offset);
            char name[64];
            for (uint32_t s = 0; s < nsrc; s++)
                src[s] = sources[s] + (mixed ? 0 : offset);
            memset(sources, 0, sizeof sources);
            assert_true(plait_cuda_list_add(&a, size, src, nsrc, &dst, 1, &item));
            snprintf(name, sizeof name, "plait_reduce_%s", plait_dtype_name(jobs[i].type));
            assert_int_equal(lines_of(name, &a, plait_cuda_list_cut(&a, size, 3)), units * (nsrc * in + out) / size);
        }
}

static void a_kernel_that_is_not_there_is_not_found(void **state)
{
    assert_null(plait_cuda_host_find("plait_reduce"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_gives_the_bits_of_the_cpu),
        cmocka_unit_test(operands_and_results_of_more_width_too),
        cmocka_unit_test(lists_make_every_block_of_their_items),
        cmocka_unit_test(a_list_takes_what_fits_and_no_more),
        cmocka_unit_test(a_scalar_multiplies_now_or_when_the_kernel_runs),
        cmocka_unit_test(bytes_are_copied_from_anywhere_to_anywhere),
        cmocka_unit_test(bytes_are_copied_whatever_both_addresses_are),
        cmocka_unit_test(many_copies_are_one_launch),
        cmocka_unit_test(copies_are_cut_into_chunks),
        cmocka_unit_test(tensors_are_packed_as_the_cpu_does),
        cmocka_unit_test(tensors_are_unpacked_as_the_cpu_does),
        cmocka_unit_test(squares_and_what_is_not_finite_are_seen),
        cmocka_unit_test(what_lies_in_the_payload_is_looked_at_there),
        cmocka_unit_test(what_lies_on_lines_moves_by_lines_alone),
        cmocka_unit_test(blocks_of_one_offset_are_combined_by_lines),
        cmocka_unit_test(a_kernel_that_is_not_there_is_not_found),
    };
    plait_fpenv_enter();
    return cmocka_run_group_tests_name("cuda kernels", tests, NULL, NULL);
}
