/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-perf's parts: known results, the guard, statistics, the tensor list, the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard.h"
#include "limits.h"
#include "reduce.h"
#include "stats.h"
#include "tensors.h"
#include "verify.h"

#include <stdlib.h>
#include <string.h>

static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
#define NTYPE (sizeof types / sizeof *types)

/* Combine all ranks' inputs in ascending and in descending order, two at a time, in the type itself. */
static void assert_exact(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const struct plait_kernels *k = plait_kernels_find("scalar");
    const plait_reduce_fn reduce = plait_reduce_find(k, type, op);
    struct pattern *p = calloc(nrank, sizeof *p);
    unsigned char *result = malloc(count * 8);

    for (uint32_t r = 0; r < nrank; r++)
        assert_true(pattern_init(&p[r], type, op, nrank, r, count, 7));
    for (uint32_t r = 0; op == PLAIT_PREMULSUM && r < nrank; r++) {
        unsigned char scalar[8];
        pattern_scale(type, r, scalar);
        k->scale[type](p[r].input, p[r].input, count < VERIFY_PERIOD ? count : VERIFY_PERIOD, scalar);
    }
    for (int descending = 0; descending < 2; descending++) {
        pattern_fill(&p[descending ? nrank - 1 : 0], result, count);
        for (uint32_t i = 1; i < nrank; i++) {
            const struct pattern *next = &p[descending ? nrank - 1 - i : i];
            const void *src[2] = { result, next->input };
            reduce(result, src, 2, count, &(struct plait_how){ .divisor = i == nrank - 1 ? nrank : 0 });
        }
        if (pattern_wrong(&p[0], result, count) != 0)
            fail_msg("%s %s of %u ranks is not exact", plait_dtype_name(type), plait_op_name(op), nrank);
    }
    free(result);
    for (uint32_t r = 0; r < nrank; r++)
        pattern_finish(&p[r]);
    free(p);
}

static void known_results_are_exact_for_every_type_operator_and_order(void **state)
{
    static const uint32_t nranks[] = { 1, 2, 3, 7, 16 };

    (void)state;
    for (size_t t = 0; t < NTYPE; t++)
        for (int op = 0; op <= PLAIT_PREMULSUM; op++)
            for (size_t n = 0; n < sizeof nranks / sizeof *nranks; n++)
                assert_exact(types[t], (enum plait_op)op, nranks[n], 2000);
}

static void known_results_are_exact_where_ranks_outnumber_the_type(void **state)
{
    (void)state;
    for (size_t t = 0; t < NTYPE; t++)
        for (int op = 0; op <= PLAIT_PREMULSUM; op++)
            assert_exact(types[t], (enum plait_op)op, 300, 100);
}

static void one_wrong_element_is_counted(void **state)
{
    const size_t count = 3 * VERIFY_PERIOD + 5;
    float *buffer = malloc(count * sizeof *buffer);
    struct pattern p;

    (void)state;
    assert_true(pattern_init(&p, PLAIT_FLOAT32, PLAIT_SUM, 1, 0, count, 1)); /* one rank: the input is the result */
    pattern_fill(&p, buffer, count);
    assert_int_equal(pattern_wrong(&p, buffer, count), 0);
    buffer[count - 1] += 1;
    buffer[VERIFY_PERIOD] += 1;
    assert_int_equal(pattern_wrong(&p, buffer, count), 2);
    assert_int_equal(pattern_changed(&p, buffer, count), 2);
    free(buffer);
    pattern_finish(&p);
}

static void a_shifted_block_shows(void **state)
{
    const size_t count = 1 << 16, block = 1 << 12;
    float *buffer = malloc(count * sizeof *buffer);
    struct pattern p;

    (void)state;
    assert_true(pattern_init(&p, PLAIT_FLOAT32, PLAIT_SUM, 1, 0, count, 1));
    pattern_fill(&p, buffer, count);
    memcpy(buffer, buffer + block, block * sizeof *buffer);
    assert_true(pattern_wrong(&p, buffer, count) > block / 2);
    free(buffer);
    pattern_finish(&p);
}

/* ---- guard ------------------------------------------------------------------------------------- */

struct script {
    const struct calibration *next;
    unsigned bodies;
};

static struct calibration scripted(bool large, void *context)
{
    struct script *s = context;
    (void)large;
    return *s->next++;
}

static bool count_body(void *context)
{
    struct script *s = context;
    s->bodies++;
    return true;
}

static struct guarded run_script(struct script *s)
{
    struct guard g = { .calibrate = scripted, .context = s, .on = true };
    struct guarded out;

    assert_true(guard_run(&g, false, count_body, s, &out));
    return out;
}

static void a_quiet_cell_is_measured_once(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 55e-9, 48e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    (void)state;
    assert_int_equal(g.mode, MODE_NEAR);
    assert_int_equal(s.bodies, 1);
}

static void a_cell_whose_mode_changed_is_repeated(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 250e-9, 50e9 }, { 250e-9, 50e9 }, { 260e-9, 50e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    (void)state;
    assert_int_equal(g.mode, MODE_FAR);
    assert_int_equal(g.attempts, 2);
    assert_int_equal(s.bodies, 2);
}

static void a_cell_that_keeps_changing_is_mixed(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 50e-9, 30e9 }, { 50e-9, 30e9 },
                                     { 50e-9, 50e9 }, { 50e-9, 50e9 }, { 260e-9, 50e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    (void)state;
    assert_int_equal(g.mode, MODE_MIXED);
    assert_int_equal(g.attempts, GUARD_ATTEMPTS);
    assert_int_equal(s.bodies, GUARD_ATTEMPTS);
}

static void a_processor_with_one_speed_has_one_mode(void **state)
{
    struct guard g = { .on = true };

    (void)state;
    for (int ns = 96; ns <= 126; ns += 5) {
        const struct calibration a = { 96e-9, 10e9 }, b = { ns * 1e-9, 10e9 };
        assert_int_equal(guard_judge(&g, &a, &b), MODE_NEAR);
    }
}

static void without_a_guard_there_is_no_mode(void **state)
{
    struct script s = { NULL, 0 };
    struct guard g = { .calibrate = scripted, .context = &s };
    struct guarded out;

    (void)state;
    assert_true(guard_run(&g, false, count_body, &s, &out));
    assert_int_equal(out.mode, MODE_UNKNOWN);
    assert_int_equal(s.bodies, 1);
}

/* ---- the rest ---------------------------------------------------------------------------------- */

static void statistics_of_one_to_a_hundred(void **state)
{
    struct series s = { 0 };

    (void)state;
    for (int i = 100; i > 0; i--)
        series_add(&s, i);
    const struct stats x = stats_of(s.x, s.n);
    assert_float_equal(x.min, 1, 0);
    assert_float_equal(x.max, 100, 0);
    assert_float_equal(x.median, 50.5, 0);
    assert_float_equal(x.mean, 50.5, 1e-9);
    assert_float_equal(x.p95, 95, 0);
    assert_float_equal(x.p99, 99, 0);
    assert_float_equal(median_of(s.x, 3), 99, 0);
    series_finish(&s);
    assert_int_equal(stats_of(NULL, 0).n, 0);
}

/* How many tensors a list has; 0: it is refused. */
static uint32_t tensors_of(const char *text, size_t bytes)
{
    struct tensors t = { NULL, 0 };
    FILE *f = fmemopen((char *)(uintptr_t)text, bytes, "r");

    assert_non_null(f);
    const uint32_t n = tensors_parse(f, "list.csv", &t) ? t.n : 0;
    fclose(f);
    if (n > 0)
        tensors_finish(&t);
    return n;
}

/* strtoull reads the sign as 2^64 - x; long lines used to be cut into several tensors. */
static void a_tensor_list_has_one_unsigned_number_per_line(void **state)
{
    static const char negative[] = "0,a,-18446744073709551615,x\n", blank[] = "0,a, 5,x\n", nul[] = "0,a,5,\0x\n";
    char line[3000];

    (void)state;
    assert_int_equal(tensors_of("0,a,5,x\n", 8), 1);
    assert_int_equal(tensors_of(negative, sizeof negative - 1), 0);
    assert_int_equal(tensors_of(blank, sizeof blank - 1), 0);
    assert_int_equal(tensors_of(nul, sizeof nul - 1), 0);
    snprintf(line, sizeof line, "0,a,5,%0*d,b,7,x\n", 1017, 0);
    assert_int_equal(tensors_of(line, strlen(line)), 1);
}

static void resnet50_has_161_tensors(void **state)
{
    struct tensors t;
    uint64_t elements, small, large;

    (void)state;
    assert_true(tensors_read(TENSORS, &t));
    assert_int_equal(tensors_between(&t, 0, 0, &elements), 161);
    assert_int_equal(elements, 25557032);
    assert_int_equal(tensors_between(&t, 0, 4096, &small) + tensors_between(&t, 4096, 0, &large), 161);
    assert_int_equal(small + large, elements);
    tensors_finish(&t);
}

static void the_bound_grows_with_bytes_and_ranks(void **state)
{
    struct limits l = { .cpus = 2, .latency = 50e-9 };
    double last = 0;

    (void)state;
    for (int i = 0; i < NLEVEL; i++)
        l.level[i] = (struct level){
            .bytes = (size_t)1 << (18 + 3 * i), .copy = 1e11 / (i + 1), .reduce = 1e10, .others = 5e10
        };
    assert_float_equal(limits_bound(&l, 0, 2), 50e-9, 1e-15);
    for (uint64_t bytes = 4; bytes <= 1 << 28; bytes *= 2) {
        const double bound = limits_bound(&l, bytes, 2);
        assert_true(bound > last);
        assert_true(limits_bound(&l, bytes, 4) >= bound);
        last = bound;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_results_are_exact_for_every_type_operator_and_order),
        cmocka_unit_test(known_results_are_exact_where_ranks_outnumber_the_type),
        cmocka_unit_test(one_wrong_element_is_counted),
        cmocka_unit_test(a_shifted_block_shows),
        cmocka_unit_test(a_quiet_cell_is_measured_once),
        cmocka_unit_test(a_cell_whose_mode_changed_is_repeated),
        cmocka_unit_test(a_cell_that_keeps_changing_is_mixed),
        cmocka_unit_test(a_processor_with_one_speed_has_one_mode),
        cmocka_unit_test(without_a_guard_there_is_no_mode),
        cmocka_unit_test(statistics_of_one_to_a_hundred),
        cmocka_unit_test(a_tensor_list_has_one_unsigned_number_per_line),
        cmocka_unit_test(resnet50_has_161_tensors),
        cmocka_unit_test(the_bound_grows_with_bytes_and_ranks),
    };

    return cmocka_run_group_tests_name("perf", tests, NULL, NULL);
}
