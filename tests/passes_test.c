/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes over gradients: past the caches or not, at any alignment and length, with every kernel set, the same bits. */
#include "unit.h"

#include "fusion/pass.h"

#include <math.h>
#include <string.h>

enum { MOST = 1000, ROOM = MOST * 8 + 256 };
static const char *const isas[] = { "scalar", "avx2", "avx512" };
static _Alignas(64) unsigned char from[ROOM], want[ROOM], got[ROOM];

static uint64_t state = 88172645463325252;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Bytes whose floats are numbers, in every type. */
static void fill(enum plait_dtype type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float f = (float)(int32_t)next() * 0x1p-31f;
        const double d = (double)f;
        if (type == PLAIT_FLOAT64)
            memcpy(from + 8 * i, &d, 8);
        else if (type == PLAIT_FLOAT32)
            memcpy(from + 4 * i, &f, 4);
        else
            plait_kernels_find("scalar")->narrow[type](from + plait_dtype_size(type) * i, &f, 1, 1);
    }
}

static const enum plait_dtype pairs[][2] = {
    { PLAIT_FLOAT32, PLAIT_FLOAT16 },  { PLAIT_FLOAT32, PLAIT_BFLOAT16 }, { PLAIT_FLOAT16, PLAIT_FLOAT32 },
    { PLAIT_BFLOAT16, PLAIT_FLOAT32 }, { PLAIT_FLOAT32, PLAIT_FLOAT32 },  { PLAIT_FLOAT64, PLAIT_FLOAT64 },
    { PLAIT_FLOAT16, PLAIT_FLOAT16 },
};

static void every_alignment_and_length_gives_the_same_bits_and_nothing_outside(void **unused)
{
    for (unsigned trial = 0; trial < 6000; trial++) {
        const enum plait_dtype *pair = pairs[trial % 7];
        const size_t size = plait_dtype_size(pair[1]), n = trial < 1500 ? trial / 7 : next() % MOST;
        const size_t start = 64 + next() % (64 / size) * size;
        const double factor = trial % 3 == 0 ? 1 : 0.37;
        const struct plait_vector in = { from, pair[0] };
        double first = 0, square;

        fill(pair[0], n);
        memset(want, 0xa5, sizeof want);
        plait_pass(plait_kernels_find("scalar"), (struct plait_vector){ want + start, pair[1] }, in, n, factor, false,
                   &first);
        for (unsigned k = 0; k < 6; k++) {
            const struct plait_kernels *kernels = plait_kernels_find(isas[k % 3]);
            const struct plait_vector out = { got + start, pair[1] };
            if (kernels == NULL)
                continue;
            memset(got, 0xa5, sizeof got);
            assert_true(plait_pass(kernels, out, in, n, factor, k < 3, &square));
            assert_memory_equal(got, want, sizeof got);
            assert_memory_equal(&square, &first, sizeof square);
            memset(got, 0xa5, sizeof got);
            plait_pass(kernels, out, in, n, factor, k < 3, NULL);
            assert_memory_equal(got, want, sizeof got);
            square = plait_pass_squares(kernels, want + start, pair[1], n);
            assert_memory_equal(&square, &first, sizeof square);
        }
    }
}

static void what_is_not_finite_is_seen_wherever_it_is(void **unused)
{
    for (size_t n = 1; n < MOST; n += 1 + n / 3)
        for (unsigned trial = 0; trial < 30; trial++) {
            const struct plait_kernels *k = plait_kernels_find("");
            const float bad = trial % 2 ? INFINITY : NAN;
            double square;
            fill(PLAIT_FLOAT32, n);
            memcpy(from + 4 * (next() % n), &bad, sizeof bad);
            assert_false(plait_pass(k, (struct plait_vector){ got + 64, trial % 3 ? PLAIT_FLOAT16 : PLAIT_FLOAT32 },
                                    (struct plait_vector){ from, PLAIT_FLOAT32 }, n, 0.5, trial % 5 < 3, &square));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_and_length_gives_the_same_bits_and_nothing_outside),
        cmocka_unit_test(what_is_not_finite_is_seen_wherever_it_is),
    };

    return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
