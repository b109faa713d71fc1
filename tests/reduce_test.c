/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every kernel set against a naive reference, and against the scalar set bit for bit.
 *
 *     reduce_test [SEED]
 */
#include "random.h"
#include "reduce/reduce.h"
#include "reduce_reference.h"
#include "tier.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

static const char *const isas[] = { "scalar", "avx2", "avx512" };
static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
static const enum plait_dtype narrows[] = { PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3, PLAIT_FLOAT8E5M2 };
static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_PROD, PLAIT_MAX, PLAIT_MIN };
static const uint32_t divisors[] = { 0, 1, 2, 3, 5, 64 };

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAXSRC = 1024, GUARD = 64 };

static uint64_t seed, state;

static uint64_t draw(void)
{
    return random_next(&state);
}

struct call {
    enum plait_dtype type;
    enum plait_op op;
    uint32_t nsrc, divisor;
    size_t count;
    bool mixed, wide_dst;
    uint64_t wide_src;
};

static bool wide(const struct call *c, uint32_t s)
{
    return c->mixed && is_narrow(c->type) && s < 64 && (c->wide_src >> s & 1) != 0;
}

static enum plait_dtype src_type(const struct call *c, uint32_t s)
{
    return wide(c, s) ? PLAIT_FLOAT32 : c->type;
}

static enum plait_dtype dst_type(const struct call *c)
{
    return c->mixed && is_narrow(c->type) && c->wide_dst ? PLAIT_FLOAT32 : c->type;
}

static uint64_t expected(const struct call *c, const void *const *src, size_t i)
{
    const enum plait_dtype type = is_narrow(c->type) ? PLAIT_FLOAT32 : c->type;
    uint64_t x[MAXSRC], result;

    if (c->nsrc == 1 && c->divisor == 0 && src_type(c, 0) == dst_type(c))
        return element(src[0], dst_type(c), i);
    for (uint32_t s = 0; s < c->nsrc; s++) {
        x[s] = element(src[s], src_type(c, s), i);
        if (is_narrow(src_type(c, s)))
            x[s] = of_f32((float)narrow_value(c->type, x[s]));
    }
    result = expression(type, c->op, x, c->nsrc);
    if (c->divisor != 0)
        result = divide(type, result, c->divisor);
    return is_narrow(dst_type(c)) ? narrow_bits(c->type, f32(result)) : result;
}

/* Inputs: any bits; special values; numbers near 1, where the order of a sum shows. */

static uint64_t special(enum plait_dtype type)
{
    const unsigned bits = 8 * (unsigned)plait_dtype_size(type);
    const unsigned digits = type == PLAIT_FLOAT64 ? 52 : type == PLAIT_FLOAT32 ? 23 : (unsigned)format_of(type).digits;
    const uint64_t sign = (draw() & 1) << (bits - 1);
    const uint64_t infinity = ((UINT64_C(1) << (bits - 1 - digits)) - 1) << digits;
    const uint64_t fraction = draw() & ((UINT64_C(1) << digits) - 1);

    switch (draw() % 8) {
    case 0:
        return sign;
    case 1:
        return sign | infinity;
    case 2:
        return sign | infinity | 1 | fraction;
    case 3:
        return sign | fraction;
    case 4:
        return sign | 1;
    case 5:
        return sign | (infinity - 1);
    default:
        return sign | UINT64_C(1) << digits | fraction;
    }
}

static uint64_t moderate(enum plait_dtype type)
{
    const double v = ((double)(draw() >> 11) * 0x1p-52 - 1.0) * ldexp(1, (int)(draw() % 8) - 4);

    if (type == PLAIT_FLOAT64)
        return of_f64(v);
    return type == PLAIT_FLOAT32 ? of_f32((float)v) : narrow_bits(type, v);
}

static uint64_t input(enum plait_dtype type, unsigned kind)
{
    if (is_integer(type))
        return kind % 4 == 2 ? draw() % 16 - 8 : draw();
    switch (kind % 4) {
    case 0:
        return draw();
    case 1:
        return special(type);
    case 2:
        return moderate(type);
    default:
        return draw() % 16 == 0 ? special(type) : moderate(type);
    }
}

/*
 * Arrays of `count` elements. Each lies in a slot between two pages that may not be accessed: it ends at the one, begins
 * at the other, or is at a random element of a cache line. So a read beyond it ends the test too.
 */

enum { PAGE = 4096, SLOT = 16 * PAGE, NSLOT = MAXSRC + 8 };

struct array {
    unsigned char *memory, *data; /* memory: the slot */
    size_t bytes;
};

static struct {
    unsigned char *memory[NSLOT];
    unsigned free;
} slots;

static void map_slots(void)
{
    unsigned char *all = mmap(NULL, NSLOT * (SLOT + PAGE) + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (all == MAP_FAILED)
        abort();
    for (; slots.free < NSLOT; slots.free++) {
        slots.memory[slots.free] = all + PAGE + slots.free * (SLOT + PAGE);
        if (mprotect(slots.memory[slots.free], SLOT, PROT_READ | PROT_WRITE) != 0)
            abort();
    }
}

/* From GUARD bytes before an array to GUARD bytes after it, as far as its slot goes. */
static unsigned char *guards_begin(const struct array *a)
{
    return a->data == a->memory ? a->data : a->data - GUARD;
}

static unsigned char *guards_end(const struct array *a)
{
    unsigned char *end = a->data + a->bytes, *slot_end = a->memory + SLOT;

    return slot_end - end < GUARD ? slot_end : end + GUARD;
}

static struct array array_make(enum plait_dtype type, size_t count)
{
    const size_t size = plait_dtype_size(type);
    struct array a = { .bytes = count * size };

    assert_true(slots.free > 0 && a.bytes + 2 * GUARD <= SLOT);
    a.memory = slots.memory[--slots.free];
    switch (draw() % 3) {
    case 0:
        a.data = a.memory;
        break;
    case 1:
        a.data = a.memory + SLOT - a.bytes;
        break;
    default:
        a.data = a.memory + GUARD + draw() % (GUARD / size) * size;
    }
    for (unsigned char *p = guards_begin(&a); p < guards_end(&a); p++)
        *p = 0xa5;
    return a;
}

static void array_free(const struct array *a)
{
    slots.memory[slots.free++] = a->memory;
}

static bool guards_hold(const struct array *a)
{
    for (const unsigned char *p = guards_begin(a); p < guards_end(a); p++)
        if (*p != 0xa5 && (p < a->data || p >= a->data + a->bytes))
            return false;
    return true;
}

/* The operands of a call. */
struct inputs {
    struct array array[MAXSRC];
    const void *src[MAXSRC];
};

static void inputs_make(struct inputs *in, const struct call *c, unsigned kind)
{
    for (uint32_t s = 0; s < c->nsrc; s++) {
        in->array[s] = array_make(src_type(c, s), c->count);
        in->src[s] = in->array[s].data;
        for (size_t i = 0; i < c->count; i++)
            set_element(in->array[s].data, src_type(c, s), i, input(src_type(c, s), kind));
    }
}

static void inputs_free(struct inputs *in, const struct call *c)
{
    for (uint32_t s = 0; s < c->nsrc; s++)
        array_free(&in->array[s]);
}

static void run(const struct plait_kernels *k, const struct call *c, void *dst, const void *const *src)
{
    const struct plait_how how = { .divisor = c->divisor };
    const enum plait_op op = c->divisor != 0 ? PLAIT_AVG : c->op;

    if (c->mixed)
        plait_reduce_mixed(k, c->type, op, dst, c->wide_dst, src, c->wide_src, c->nsrc, c->count, &how);
    else
        plait_reduce_find(k, c->type, op)(dst, src, c->nsrc, c->count, &how);
}

static void assert_bits(const struct plait_kernels *k, const struct call *c, size_t i, uint64_t got, uint64_t want)
{
    if (got != want)
        fail_msg("seed %llu: %s %s %s nsrc=%u divisor=%u count=%zu mixed=%d wide_dst=%d wide_src=%#llx: "
                 "[%zu] is %#llx, not %#llx",
                 (unsigned long long)seed, k->isa, plait_dtype_name(c->type), plait_op_name(c->op), c->nsrc, c->divisor,
                 c->count, c->mixed, c->wide_dst, (unsigned long long)c->wide_src, i, (unsigned long long)got,
                 (unsigned long long)want);
}

/* Run every set into a separate array, then into each source in turn; compare all with the reference. */
static void check(const struct call *c, unsigned kind, bool in_place)
{
    struct inputs in;
    struct array dst = array_make(dst_type(c), c->count), want = array_make(dst_type(c), c->count);

    inputs_make(&in, c, kind);
    for (size_t i = 0; i < c->count; i++)
        set_element(want.data, dst_type(c), i, expected(c, in.src, i));
    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        if (k == NULL)
            continue;
        memset(dst.data, 0xa5, dst.bytes);
        run(k, c, dst.data, in.src);
        for (size_t i = 0; i < c->count; i++)
            assert_bits(k, c, i, element(dst.data, dst_type(c), i), element(want.data, dst_type(c), i));
        assert_true(guards_hold(&dst));
        for (uint32_t a = 0; in_place && a < c->nsrc; a++) {
            if (src_type(c, a) != dst_type(c))
                continue;
            memcpy(dst.data, in.array[a].data, dst.bytes);
            run(k, c, in.array[a].data, in.src);
            for (size_t i = 0; i < c->count; i++)
                assert_bits(k, c, i, element(in.array[a].data, dst_type(c), i), element(want.data, dst_type(c), i));
            assert_true(guards_hold(&in.array[a]));
            memcpy(in.array[a].data, dst.data, dst.bytes);
        }
    }
    inputs_free(&in, c);
    array_free(&dst);
    array_free(&want);
}

static size_t some_count(void)
{
    return draw() % 16 == 0 ? 1000 + draw() % 3000 : draw() % 201;
}

static uint32_t some_divisor(enum plait_op op)
{
    return op == PLAIT_SUM ? divisors[draw() % LENGTH(divisors)] : 0;
}

/* Tests. */

static void sets_are_found_by_name(void **unused)
{
    assert_non_null(plait_kernels_find(""));
    assert_string_equal(plait_kernels_find("scalar")->isa, "scalar");
    assert_null(plait_kernels_find("sse9"));
    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        if (k == NULL)
            print_message("%s: not supported here, not tested\n", isas[s]);
        else
            assert_string_equal(k->isa, isas[s]);
    }
    print_message("best set: %s\n", plait_kernels_find("")->isa);
}

static void only_supported_cells_are_filled(void **unused)
{
    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        for (int type = 0; k != NULL && type < PLAIT_NDTYPE; type++) {
            const bool known = plait_dtype_size((enum plait_dtype)type) != 0;
            const bool half = is_narrow((enum plait_dtype)type);

            for (int op = 0; op < PLAIT_NOP; op++)
                assert_int_equal(k->reduce[type][op] != NULL, known && op < PLAIT_PREMULSUM);
            assert_int_equal(k->scale[type] != NULL, known);
            assert_int_equal(k->widen[type] != NULL, half);
            assert_int_equal(k->narrow[type] != NULL, half);
        }
    }
}

static void every_half_widens_and_comes_back(void **unused)
{
    static unsigned char in[2 * 65536], back[2 * 65536];
    static float out[65536];

    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        for (size_t t = 0; k != NULL && t < LENGTH(narrows); t++) {
            const unsigned n = 2 * (unsigned)narrow_sign(narrows[t]);
            const struct call c = { .type = narrows[t], .nsrc = 1, .count = n };

            for (unsigned i = 0; i < n; i++)
                set_element(in, narrows[t], i, i);
            k->widen[narrows[t]](out, in, n, 1);
            k->narrow[narrows[t]](back, out, n, 1);
            for (unsigned i = 0; i < n; i++) {
                const double v = narrow_value(narrows[t], i);

                assert_bits(k, &c, i, element(out, PLAIT_FLOAT32, i), of_f32((float)v));
                const bool kept = plait_dtype_size(narrows[t]) == 2 ? !isnan(v) : isfinite(v);
                assert_bits(k, &c, i, element(back, narrows[t], i), kept ? i : narrow_bits(narrows[t], v));
            }
        }
    }
}

/* Around every value: itself, the point half way to the next one, and the floats beside them. */
static void narrowing_rounds_to_nearest_even(void **unused)
{
    enum { N = 65536 * 8 };
    float *in = malloc(N * sizeof *in);
    void *out = malloc(N * sizeof(uint16_t));

    assert_true(in != NULL && out != NULL);
    for (size_t t = 0; t < LENGTH(narrows); t++) {
        const enum plait_dtype type = narrows[t];
        const unsigned n = 2 * (unsigned)narrow_sign(type);
        const struct call c = { .type = type, .nsrc = 1, .count = n * 8 };

        for (unsigned i = 0; i < n; i++) {
            const double here = narrow_value(type, i), next = narrow_value(type, (i + 1) % n);
            const double beyond = ldexp(1, format_of(type).greatest + 1);
            const float middle = (float)((here + (isfinite(next) ? next : copysign(beyond, here))) / 2);
            float *f = in + (size_t)i * 8;

            f[0] = (float)here;
            f[1] = middle;
            f[2] = nextafterf(middle, INFINITY);
            f[3] = nextafterf(middle, -INFINITY);
            f[4] = nextafterf((float)here, INFINITY);
            f[5] = nextafterf((float)here, -INFINITY);
            f[6] = f32(draw());
            f[7] = f32(special(PLAIT_FLOAT32));
        }
        for (size_t s = 0; s < LENGTH(isas); s++) {
            const struct plait_kernels *k = plait_kernels_find(isas[s]);

            if (k == NULL)
                continue;
            k->narrow[type](out, in, c.count, 1);
            for (size_t i = 0; i < c.count; i++)
                assert_bits(k, &c, i, element(out, type, i), narrow_bits(type, in[i]));
        }
    }
    free(in);
    free(out);
}

/* What NCCL's conversions do, spelled out. */
static void eight_bit_floats_saturate_and_keep_nan(void **unused)
{
    static const struct {
        enum plait_dtype type;
        float in;
        uint8_t out;
    } cases[] = {
        { PLAIT_FLOAT8E4M3, 448, 0x7e },        { PLAIT_FLOAT8E4M3, 463, 0x7e },
        { PLAIT_FLOAT8E4M3, 464, 0x7e },        { PLAIT_FLOAT8E4M3, 1e30f, 0x7e },
        { PLAIT_FLOAT8E4M3, -INFINITY, 0xfe },  { PLAIT_FLOAT8E4M3, NAN, 0x7f },
        { PLAIT_FLOAT8E4M3, 0x1p-9f, 0x01 },    { PLAIT_FLOAT8E4M3, 0x1p-10f, 0x00 },
        { PLAIT_FLOAT8E4M3, 0x1.8p-10f, 0x01 }, { PLAIT_FLOAT8E4M3, -0x1p-20f, 0x80 },
        { PLAIT_FLOAT8E4M3, -0.0f, 0x80 },      { PLAIT_FLOAT8E4M3, 1.0625f, 0x38 },
        { PLAIT_FLOAT8E5M2, 57344, 0x7b },      { PLAIT_FLOAT8E5M2, 61440, 0x7b },
        { PLAIT_FLOAT8E5M2, 1e30f, 0x7b },      { PLAIT_FLOAT8E5M2, -INFINITY, 0xfb },
        { PLAIT_FLOAT8E5M2, NAN, 0x7e },        { PLAIT_FLOAT8E5M2, 0x1p-16f, 0x01 },
        { PLAIT_FLOAT8E5M2, 0x1p-17f, 0x00 },   { PLAIT_FLOAT8E5M2, -0x1.8p-17f, 0x81 },
        { PLAIT_FLOAT8E5M2, -0.0f, 0x80 },      { PLAIT_FLOAT8E5M2, 1.125f, 0x3c },
    };

    for (size_t s = 0; s < LENGTH(isas); s++)
        for (size_t i = 0; i < LENGTH(cases) && plait_kernels_find(isas[s]) != NULL; i++) {
            const struct plait_kernels *k = plait_kernels_find(isas[s]);
            float in[33];
            uint8_t out[33];

            for (size_t e = 0; e < LENGTH(in); e++)
                in[e] = cases[i].in;
            k->narrow[cases[i].type](out, in, LENGTH(in), 1);
            for (size_t e = 0; e < LENGTH(in); e++)
                if (out[e] != cases[i].out)
                    fail_msg("%s %s: %a is %#x, not %#x", k->isa, plait_dtype_name(cases[i].type), (double)cases[i].in,
                             out[e], cases[i].out);
        }
}

static void every_pair_of_bytes_agrees_with_the_reference(void **unused)
{
    static uint8_t a[65536], b[65536], out[65536];
    const void *const src[2] = { a, b };

    for (size_t i = 0; i < LENGTH(a); i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    for (size_t t = 0; t < LENGTH(types); t++)
        for (size_t o = 0; o < LENGTH(ops) && plait_dtype_size(types[t]) == 1; o++) {
            const struct call c = { .type = types[t], .op = ops[o], .nsrc = 2, .count = LENGTH(a) };

            for (size_t s = 0; s < LENGTH(isas); s++) {
                const struct plait_kernels *k = plait_kernels_find(isas[s]);

                if (k == NULL)
                    continue;
                run(k, &c, out, src);
                for (size_t i = 0; i < LENGTH(a); i++)
                    assert_bits(k, &c, i, out[i], expected(&c, src, i));
            }
        }
}

static uint64_t product(enum plait_dtype type, uint64_t a, uint64_t b)
{
    if (!is_narrow(type))
        return combine(type, PLAIT_PROD, a, b);
    const uint64_t x = of_f32((float)narrow_value(type, a)), y = of_f32((float)narrow_value(type, b));
    return narrow_bits(type, f32(combine(PLAIT_FLOAT32, PLAIT_PROD, x, y)));
}

static void scaling_multiplies_and_rounds_to_the_type(void **unused)
{
    for (size_t s = 0; s < LENGTH(isas); s++)
        for (size_t t = 0; t < LENGTH(types) && plait_kernels_find(isas[s]) != NULL; t++)
            for (unsigned trial = 0; trial < 60; trial++) {
                const struct plait_kernels *k = plait_kernels_find(isas[s]);
                const struct call c = { .type = types[t], .op = PLAIT_PROD, .nsrc = 2, .count = trial * 3 };
                struct array in = array_make(types[t], c.count), out = array_make(types[t], c.count);
                char scalar[9]; /* at an odd address */
                const uint64_t by = input(types[t], trial);

                set_element(scalar + 1, types[t], 0, by);
                for (size_t i = 0; i < c.count; i++)
                    set_element(in.data, types[t], i, input(types[t], trial / 4));
                k->scale[types[t]](out.data, in.data, c.count, scalar + 1);
                for (size_t i = 0; i < c.count; i++)
                    assert_bits(k, &c, i, element(out.data, types[t], i),
                                product(types[t], element(in.data, types[t], i), element(scalar + 1, types[t], 0)));
                k->scale[types[t]](in.data, in.data, c.count, scalar + 1);
                assert_memory_equal(in.data, out.data, out.bytes);
                assert_true(guards_hold(&in) && guards_hold(&out));
                array_free(&in);
                array_free(&out);
            }
}

/* x -> a x + b modulo 2^32, the pair in 64 bits: associative, not commutative. `in` is applied after `inout`. */
static void compose(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    uint64_t *f = inout;
    const uint64_t *g = in;

    assert_int_equal(type, PLAIT_UINT64);
    assert_true(count > 0);
    ++*(unsigned *)context;
    for (size_t i = 0; i < count; i++) {
        const uint32_t a = (uint32_t)(f[i] >> 32), b = (uint32_t)f[i];
        const uint32_t c = (uint32_t)(g[i] >> 32), d = (uint32_t)g[i];
        f[i] = (uint64_t)(c * a) << 32 | (uint32_t)(c * b + d);
    }
}

static void user_functions_combine_in_the_order_of_the_sources(void **unused)
{
    static struct inputs in;

    for (unsigned trial = 0; trial < (full() ? 400 : light() ? 50 : 150); trial++) {
        unsigned calls = 0;
        const struct plait_how how = { .type = PLAIT_UINT64, .combine = compose, .context = &calls };
        const struct call c = {
            .type = PLAIT_UINT64, .op = PLAIT_USER, .nsrc = 1 + trial % 20, .count = trial % 5 == 0 ? 2000 : trial
        };
        struct array want = array_make(c.type, c.count);
        const uint32_t place = trial % (c.nsrc + 1); /* dst: one of the sources, or apart */
        struct array apart = array_make(c.type, c.count);

        inputs_make(&in, &c, trial);
        memcpy(want.data, in.src[0], want.bytes);
        for (uint32_t s = 1; s < c.nsrc && c.count > 0; s++)
            compose(want.data, in.src[s], c.count, c.type, &calls);
        calls = 0;
        const struct array *dst = place < c.nsrc ? &in.array[place] : &apart;
        plait_reduce_find(plait_kernels_find(""), c.type, c.op)(dst->data, in.src, c.nsrc, c.count, &how);
        assert_memory_equal(dst->data, want.data, want.bytes);
        assert_true(guards_hold(dst) && (calls > 0) == (c.nsrc > 1 && c.count > 0));
        inputs_free(&in, &c);
        array_free(&want);
        array_free(&apart);
    }
}

/* However the copy lies to the original within a page; and nothing beside it. */
static void copies_are_copies(void **unused)
{
    enum { MOST = 9000, ROOM = MOST + 4096 + 128 };
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 2048, 2049, 2111, 4096, MOST };
    static const size_t apart[] = { 0, 1, 4, 15, 16, 63, 64, 4095 };
    static unsigned char from[ROOM], to[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    for (unsigned s = 0; s < LENGTH(isas); s++)
        for (size_t n = 0; n < LENGTH(sizes) && plait_kernels_find(isas[s]) != NULL; n++)
            for (size_t a = 0; a < LENGTH(apart); a++) {
                const struct plait_kernels *k = plait_kernels_find(isas[s]);
                void (*const ways[])(void *, const void *, size_t) = { k->copy, k->stream, NULL };
                const size_t base = (uintptr_t)from % 4096, at = (4096 + base + apart[a] - (uintptr_t)to % 4096) % 4096;
                for (unsigned w = 0; w < LENGTH(ways) && at + sizes[n] < ROOM; w++) {
                    memset(to, 0xaa, sizeof to);
                    if (ways[w] != NULL)
                        ways[w](to + at, from, sizes[n]);
                    else
                        plait_copy(k, to + at, from, sizes[n]);
                    assert_memory_equal(to + at, from, sizes[n]);
                    for (size_t i = 0; i < ROOM; i++)
                        assert_true((i >= at && i < at + sizes[n]) || to[i] == 0xaa);
                }
            }
}

static void conversions_stay_within_their_arrays(void **unused)
{
    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        for (size_t n = 0; k != NULL && n <= 200; n++) {
            for (size_t t = 0; t < LENGTH(narrows); t++) {
                struct array half = array_make(narrows[t], n), full = array_make(PLAIT_FLOAT32, n);
                const struct call c = { .type = narrows[t], .nsrc = 1, .count = n };

                for (size_t i = 0; i < n; i++)
                    set_element(full.data, PLAIT_FLOAT32, i, input(PLAIT_FLOAT32, (unsigned)n));
                k->narrow[narrows[t]](half.data, (const float *)(void *)full.data, n, 1);
                for (size_t i = 0; i < n; i++)
                    assert_bits(k, &c, i, element(half.data, narrows[t], i),
                                narrow_bits(narrows[t], f32(element(full.data, PLAIT_FLOAT32, i))));
                k->widen[narrows[t]]((float *)(void *)full.data, half.data, n, 1);
                for (size_t i = 0; i < n; i++)
                    assert_bits(k, &c, i, element(full.data, PLAIT_FLOAT32, i),
                                of_f32((float)narrow_value(narrows[t], element(half.data, narrows[t], i))));
                assert_true(guards_hold(&half) && guards_hold(&full));
                array_free(&half);
                array_free(&full);
            }
        }
    }
}

static void two_sources_of_any_length_agree_with_the_reference(void **unused)
{
    for (size_t t = 0; t < LENGTH(types); t++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            for (size_t n = 0; n <= 200; n += light() && n > 70 ? 7 : 1)
                check(&(struct call){ .type = types[t], .op = ops[o], .nsrc = 2, .count = n }, (unsigned)n, true);
}

static void any_number_of_sources_agrees_with_the_reference(void **unused)
{
    for (size_t t = 0; t < LENGTH(types); t++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            for (uint32_t n = full() ? 1 : 1 + (uint32_t)(t + o) % 3; n <= 18; n += full() ? 1 : 3)
                for (unsigned kind = 0; kind < 4; kind++)
                    check(&(struct call){ .type = types[t],
                                          .op = ops[o],
                                          .nsrc = n < 18 ? n : 64,
                                          .count = some_count(),
                                          .divisor = some_divisor(ops[o]) },
                          kind, true);
}

static void averages_agree_with_the_reference(void **unused)
{
    static const uint32_t numbers[] = { 1, 2, 3, 4, 5, 8, 64 };

    for (size_t t = 0; t < LENGTH(types); t++)
        for (size_t d = 1; d < LENGTH(divisors); d++)
            for (size_t n = full() ? 0 : (t + d) % 3; n < LENGTH(numbers); n += full() ? 1 : 3)
                for (unsigned kind = 0; kind < 4; kind++)
                    check(&(struct call){ .type = types[t],
                                          .op = PLAIT_SUM,
                                          .nsrc = numbers[n],
                                          .count = some_count(),
                                          .divisor = divisors[d] },
                          kind, true);
}

static void a_thousand_sources_agree_with_the_reference(void **unused)
{
    static const uint32_t numbers[] = { 255, 257, 1000, 1023, 1024 };

    for (size_t t = 0; t < LENGTH(types); t++)
        for (size_t n = 0; n < LENGTH(numbers); n++)
            check(&(struct call){ .type = types[t], .op = PLAIT_SUM, .nsrc = numbers[n], .count = 37 }, 2, false);
}

/* Guards the tests above: if the order did not matter for their inputs, they would prove little. */
static void the_order_of_a_sum_shows(void **unused)
{
    for (uint32_t n = 4; n <= 64; n++) {
        unsigned different = 0;

        for (unsigned trial = 0; trial < 200; trial++) {
            uint64_t x[64], row;

            for (uint32_t i = 0; i < n; i++)
                x[i] = moderate(PLAIT_FLOAT32);
            row = x[0];
            for (uint32_t i = 1; i < n; i++)
                row = combine(PLAIT_FLOAT32, PLAIT_SUM, row, x[i]);
            different += row != expression(PLAIT_FLOAT32, PLAIT_SUM, x, n);
        }
        assert_true(different > 0);
    }
}

static void sets_agree_bit_for_bit_on_long_vectors(void **unused)
{
    const struct plait_kernels *scalar = plait_kernels_find("scalar");
    static struct inputs in;

    for (unsigned trial = 0; trial < 400; trial++) {
        const enum plait_op op = ops[draw() % LENGTH(ops)];
        const struct call c = { .type = types[draw() % LENGTH(types)],
                                .op = op,
                                .nsrc = 1 + draw() % 17,
                                .count = draw() % 6000,
                                .divisor = some_divisor(op) };
        struct array want = array_make(c.type, c.count), got = array_make(c.type, c.count);

        inputs_make(&in, &c, trial);
        run(scalar, &c, want.data, in.src);
        for (size_t s = 1; s < LENGTH(isas); s++) {
            const struct plait_kernels *k = plait_kernels_find(isas[s]);

            if (k == NULL)
                continue;
            run(k, &c, got.data, in.src);
            for (size_t i = 0; i < c.count; i++)
                assert_bits(k, &c, i, element(got.data, c.type, i), element(want.data, c.type, i));
        }
        inputs_free(&in, &c);
        array_free(&want);
        array_free(&got);
    }
}

static void mixed_widths_agree_with_the_reference(void **unused)
{
    for (unsigned trial = 0; trial < (full() ? 4000 : light() ? 500 : 1500); trial++) {
        const enum plait_op op = ops[draw() % LENGTH(ops)];
        struct call c = { .type = narrows[trial % LENGTH(narrows)],
                          .op = op,
                          .nsrc = 1 + draw() % 18,
                          .count = draw() % 301,
                          .divisor = some_divisor(op),
                          .mixed = true,
                          .wide_dst = draw() % 2,
                          .wide_src = draw() };

        if (trial % 16 == 0)
            c.wide_src = trial % 32 == 0 ? 0 : UINT64_MAX;
        if (trial % 16 == 1)
            c.type = types[draw() % LENGTH(types)];
        if (trial % 64 == 2)
            c.nsrc = 33 + draw() % 40;
        check(&c, (unsigned)draw(), true);
    }
}

#ifdef __x86_64__
static void the_callers_environment_does_not_show(void **unused)
{
    /* Flush to zero and denormals are zero; round up; round down; round to zero; overflow not masked. */
    static const uint32_t odd[] = { 0x9fc0, 0x5f80, 0x3f80, 0x7f80, 0xffc0, 0x1b80 };
    static struct inputs in;

    for (size_t o = 0; o < LENGTH(odd); o++) {
        for (unsigned trial = 0; trial < 200; trial++) {
            const enum plait_op op = ops[trial / 8 % LENGTH(ops)];
            const struct call c = { .type = types[trial % LENGTH(types)],
                                    .op = op,
                                    .nsrc = 1 + trial % 5,
                                    .count = 100,
                                    .divisor = some_divisor(op) };
            const uint32_t before = _mm_getcsr();
            struct array want = array_make(c.type, c.count), got = array_make(c.type, c.count);
            uint32_t saved, inside, after;

            inputs_make(&in, &c, trial);
            for (size_t i = 0; i < c.count; i++)
                set_element(want.data, c.type, i, expected(&c, in.src, i));
            for (size_t s = 0; s < LENGTH(isas); s++) {
                const struct plait_kernels *k = plait_kernels_find(isas[s]);

                if (k == NULL)
                    continue;
                _mm_setcsr(odd[o] | 0x20);
                saved = plait_fpenv_enter();
                inside = _mm_getcsr();
                run(k, &c, got.data, in.src);
                plait_fpenv_leave(saved);
                after = _mm_getcsr();
                _mm_setcsr(before);
                assert_int_equal(inside, 0x1fa0);
                assert_int_equal(after & ~0x3fu, odd[o]);
                assert_int_equal(after & 0x20, 0x20);
                for (size_t i = 0; i < c.count; i++)
                    assert_bits(k, &c, i, element(got.data, c.type, i), element(want.data, c.type, i));
            }
            inputs_free(&in, &c);
            array_free(&want);
            array_free(&got);
        }
    }
}

static void the_default_environment_is_left_alone(void **unused)
{
    const uint32_t before = _mm_getcsr();

    plait_fpenv_leave(plait_fpenv_enter());
    assert_int_equal(_mm_getcsr(), before);
}
#endif

static void stream_copies_any_alignment(void **unused)
{
    for (size_t s = 0; s < LENGTH(isas); s++) {
        const struct plait_kernels *k = plait_kernels_find(isas[s]);

        for (unsigned trial = 0; k != NULL && trial < 3000; trial++) {
            const size_t bytes = trial < 1000 ? trial : draw() % 20000;
            struct array from = array_make(PLAIT_UINT8, bytes), to = array_make(PLAIT_UINT8, bytes);

            for (size_t i = 0; i < bytes; i++)
                from.data[i] = (unsigned char)(draw() >> 13);
            k->stream(to.data, from.data, bytes);
            k->stream_end();
            assert_memory_equal(to.data, from.data, bytes);
            if (!guards_hold(&to))
                fail_msg("seed %llu: %s: %zu bytes, but also writes outside", (unsigned long long)seed, k->isa, bytes);
            array_free(&from);
            array_free(&to);
        }
    }
}

static void scaled_conversions_are_a_conversion_and_a_multiplication(void **unused)
{
    for (size_t s = 0; s < LENGTH(isas); s++)
        for (unsigned trial = 0; plait_kernels_find(isas[s]) != NULL && trial < 400; trial++) {
            const struct plait_kernels *k = plait_kernels_find(isas[s]);
            const enum plait_dtype type = narrows[trial % LENGTH(narrows)];
            const size_t n = draw() % 200;
            const float by = trial % 5 == 0 ? 1 : (float)ldexp((double)(draw() % 1000) / 7, (int)(draw() % 20) - 10);
            const struct call c = { .type = type, .nsrc = 1, .count = n };
            const struct call full = { .type = PLAIT_FLOAT32, .nsrc = 1, .count = n };
            struct array half = array_make(type, n), wide = array_make(PLAIT_FLOAT32, n);
            struct array want = array_make(PLAIT_FLOAT32, n), got = array_make(PLAIT_FLOAT32, n);
            struct array narrow_want = array_make(type, n), narrow_got = array_make(type, n);
            float *w = (float *)(void *)want.data, *g = (float *)(void *)got.data;

            for (size_t i = 0; i < n; i++) {
                set_element(half.data, type, i, draw());
                set_element(wide.data, PLAIT_FLOAT32, i, draw());
            }
            k->widen[type](w, half.data, n, 1);
            k->scale[PLAIT_FLOAT32](w, w, n, &by);
            k->widen[type](g, half.data, n, by);
            for (size_t i = 0; i < n; i++)
                assert_bits(k, &full, i, element(got.data, PLAIT_FLOAT32, i), element(want.data, PLAIT_FLOAT32, i));
            k->scale[PLAIT_FLOAT32](w, wide.data, n, &by);
            k->narrow[type](narrow_want.data, w, n, 1);
            k->narrow[type](narrow_got.data, (const float *)(void *)wide.data, n, by);
            for (size_t i = 0; i < n; i++)
                assert_bits(k, &c, i, element(narrow_got.data, type, i), element(narrow_want.data, type, i));
            array_free(&half);
            array_free(&wide);
            array_free(&want);
            array_free(&got);
            array_free(&narrow_want);
            array_free(&narrow_got);
        }
}

/* Numbers near 1, where the order of a sum shows. */
static void squares_and_steps_have_the_same_bits_in_every_set(void **unused)
{
    enum { N = 1000 };
    static float g[N], w[LENGTH(isas)][N], v[LENGTH(isas)][N];

    for (unsigned trial = 0; trial < 300; trial++) {
        const struct plait_update u = { 0.1f, 0.01f, 0.9f, 0.3f, trial % 2 };
        const size_t n = draw() % N;
        double want = 0;

        for (size_t i = 0; i < N; i++) {
            g[i] = (float)(int32_t)draw() * 0x1p-31f;
            w[0][i] = (float)(int32_t)draw() * 0x1p-31f;
            v[0][i] = (float)(int32_t)draw() * 0x1p-31f;
        }
        for (size_t s = 1; s < LENGTH(isas); s++) {
            memcpy(w[s], w[0], sizeof w[s]);
            memcpy(v[s], v[0], sizeof v[s]);
        }
        for (size_t s = 0; s < LENGTH(isas); s++) {
            const struct plait_kernels *k = plait_kernels_find(isas[s]);
            if (k == NULL)
                continue;
            const double got = k->squares(g, n);
            want = s == 0 ? got : want;
            assert_memory_equal(&got, &want, sizeof got);
            k->update(w[s], v[s], g, n, &u);
            assert_memory_equal(w[s], w[0], sizeof w[s]);
            assert_memory_equal(v[s], v[0], sizeof v[s]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_found_by_name),
        cmocka_unit_test(only_supported_cells_are_filled),
        cmocka_unit_test(every_half_widens_and_comes_back),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(eight_bit_floats_saturate_and_keep_nan),
        cmocka_unit_test(every_pair_of_bytes_agrees_with_the_reference),
        cmocka_unit_test(scaling_multiplies_and_rounds_to_the_type),
        cmocka_unit_test(user_functions_combine_in_the_order_of_the_sources),
        cmocka_unit_test(conversions_stay_within_their_arrays),
        cmocka_unit_test(copies_are_copies),
        cmocka_unit_test(two_sources_of_any_length_agree_with_the_reference),
        cmocka_unit_test(any_number_of_sources_agrees_with_the_reference),
        cmocka_unit_test(averages_agree_with_the_reference),
        cmocka_unit_test(a_thousand_sources_agree_with_the_reference),
        cmocka_unit_test(the_order_of_a_sum_shows),
        cmocka_unit_test(sets_agree_bit_for_bit_on_long_vectors),
        cmocka_unit_test(mixed_widths_agree_with_the_reference),
#ifdef __x86_64__
        cmocka_unit_test(the_callers_environment_does_not_show),
        cmocka_unit_test(the_default_environment_is_left_alone),
#endif
        cmocka_unit_test(stream_copies_any_alignment),
        cmocka_unit_test(scaled_conversions_are_a_conversion_and_a_multiplication),
        cmocka_unit_test(squares_and_steps_have_the_same_bits_in_every_set),
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    state = seed;
    map_slots();
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
