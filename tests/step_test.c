/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of plait-perf fusion: layouts and their names, others' rules, inputs, what is exposed. */
#include "unit.h"

#include "base/ascii.h"
#include "fusion.h"
#include "tensors.h"
#include "verify.h"

#include <string.h>

static void exposed_is_what_the_exchange_adds_to_a_step(void **state)
{
    assert_float_equal(fusion_exposed(4, 3), 25, 1e-9);
    assert_float_equal(fusion_exposed(4, 0), 100, 1e-9);
    assert_float_equal(fusion_exposed(3, 4), 0, 1e-9); /* measured at different times */
    assert_float_equal(fusion_exposed(0, 0), 0, 1e-9);
}

static void layouts_have_names_that_are_read_again(void **state)
{
    static const char *const names[] = { "threshold:1000", "threshold:64K", "threshold:4M", "threshold:1G",
                                         "threshold:all",  "segments",      "cubic",        "ddp",
                                         "horovod",        "cuts:1",        "cuts:4+28+160" };
    static const char *const bad[] = {
        "",     "threshold", "threshold:", "threshold:0", "threshold:4X", "dpp",     "ddp:1",     "computed",
        "cuts", "cuts:",     "cuts:0",     "cuts:4+4",    "cuts:4+",      "cuts:+4", "cuts:4,28", "cuts:5000000000"
    };
    struct layout l;
    char name[LAYOUT_TEXT];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(layout_parse(names[i], &l));
        layout_name(&l, name, sizeof name);
        assert_string_equal(name, names[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(layout_parse(bad[i], &l));
}

static void as_many_cuts_as_a_checkpoint_keeps_are_taken(void **state)
{
    char text[2 * LAYOUT_TEXT] = "cuts:100", name[LAYOUT_TEXT];
    struct layout l;

    for (uint32_t cut = 101; cut < 100 + MOST_CUTS; cut++)
        plait_append(text, sizeof text, "+%u", cut);
    assert_true(layout_parse(text, &l));
    layout_name(&l, name, sizeof name);
    assert_string_equal(name, text);
    plait_append(text, sizeof text, "+999");
    assert_false(layout_parse(text, &l));
}

static void assert_cuts(enum rule rule, const uint64_t *count, uint32_t n, const uint32_t *cuts, uint32_t ncut)
{
    const struct layout l = { .rule = rule };
    struct plait_layout made;
    uint32_t room[16];

    layout_make(&l, count, n, sizeof(float), room, &made);
    assert_int_equal(made.rule, PLAIT_LAYOUT_CUTS);
    assert_int_equal(made.ncut, ncut);
    assert_memory_equal(made.cuts, cuts, ncut * sizeof *cuts);
}

/* 1 MiB is 256 Ki elements. */
static void the_others_rules_cut_where_theirs_do(void **state)
{
    static const uint64_t k = 1024, count[] = { 200 * k, 56 * k, 5000 * k, 1400 * k, 10, 9000 * k, 7384 * k, 1 };
    static const uint32_t n = sizeof count / sizeof *count;

    assert_cuts(RULE_DDP, count, n, (const uint32_t[]){ 2, 4, 6, 7 }, 4); /* full with what makes it so */
    assert_cuts(RULE_HOROVOD, count, n, (const uint32_t[]){ 6 }, 1);      /* closed before it is too full */
    assert_cuts(RULE_SEGMENTS, count, n, (const uint32_t[]){ 7 }, 1);
    assert_cuts(RULE_DDP, count, 1, NULL, 0);
}

static void jia_cut_resnet50_behind_47_gradients(void **state)
{
    struct tensors t;
    uint64_t count[161];

    assert_true(tensors_read(TENSORS, &t));
    for (uint32_t i = 0; i < t.n; i++)
        count[i] = t.count[t.n - 1 - i];
    assert_cuts(RULE_SEGMENTS, count, t.n, (const uint32_t[]){ 47 }, 1);
    tensors_finish(&t);
}

static void patterns_of_16_bits_are_the_same_numbers_in_float32(void **state)
{
    for (int k = 0; k < 2; k++) {
        const enum plait_dtype type = k ? PLAIT_FLOAT16 : PLAIT_BFLOAT16;
        struct inputs in = { .coll = PLAIT_ALLREDUCE, .type = type, .op = PLAIT_SUM, .nrank = 2, .seed = 3 };
        struct pattern sum, part[2];
        assert_true(pattern_output(&sum, &in, 0, 0, 1000) && pattern_as(&sum, type, PLAIT_FLOAT32));
        for (uint32_t r = 0; r < 2; r++)
            assert_true(pattern_input(&part[r], &in, r, 1000) && pattern_as(&part[r], type, PLAIT_FLOAT32));
        double all = 0;
        for (size_t i = 0; i < 1000; i++) {
            float a, b, c;
            memcpy(&a, part[0].element + 4 * i, 4);
            memcpy(&b, part[1].element + 4 * i, 4);
            memcpy(&c, sum.element + 4 * i, 4);
            assert_true(a + b == c);
            all += a != 0;
        }
        assert_true(all > 900);
        pattern_finish(&sum);
        pattern_finish(&part[0]);
        pattern_finish(&part[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exposed_is_what_the_exchange_adds_to_a_step),
        cmocka_unit_test(layouts_have_names_that_are_read_again),
        cmocka_unit_test(as_many_cuts_as_a_checkpoint_keeps_are_taken),
        cmocka_unit_test(the_others_rules_cut_where_theirs_do),
        cmocka_unit_test(jia_cut_resnet50_behind_47_gradients),
        cmocka_unit_test(patterns_of_16_bits_are_the_same_numbers_in_float32),
    };

    return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
