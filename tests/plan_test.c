/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: what the builder derives and refuses, and the text form. PLAIT_TEST_GOLDEN_UPDATE=1 writes the golden files
 * anew.
 */
#include "plans.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <plait/topology.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The builder ------------------------------------------------------------------------------- */

static bool any(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank > 0;
}

typedef void emit_fn(const struct plait_alg *, struct plait_builder *, const struct plait_shape *, uint32_t);

static struct plait_alg alg_of(emit_fn *emit)
{
    return (struct plait_alg){ .name = "test", .coll = PLAIT_ALLREDUCE, .params = "", .applies = any, .emit = emit };
}

/* The steps of rank 0 of 3 as text, without the head. */
static void assert_emits(emit_fn *emit, bool inplace, const char *expected)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 3, .inplace = inplace };
    const struct plait_alg alg = alg_of(emit);
    struct plait_plan *plan;
    char *text;

    assert_int_equal(plait_plan_emit(&alg, &shape, 0, &plan), PLAIT_OK);
    assert_int_equal(plait_plan_print(plan, &text), PLAIT_OK);
    assert_string_equal(strchr(text, '\n') + 1, expected);
    free(text);
    plait_plan_destroy(plan);
}

static void emit_hazards(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                         uint32_t me)
{
    (void)self, (void)s, (void)me;
    plait_blocks(b, 4, 2);
    plait_emit_recv(b, 1, plait_tmp(0), 0, 1);                            /* 0 */
    plait_emit_reduce(b, plait_out(0), plait_tmp(0), plait_in(0), 0, 1);  /* 1: read after write */
    plait_emit_recv(b, 2, plait_tmp(0), 0, 1);                            /* 2: write after read and write */
    plait_emit_send(b, 1, plait_out(0), 0, 1);                            /* 3 */
    plait_emit_send(b, 2, plait_out(0), 0, 1);                            /* 4: two reads need no order */
    plait_emit_reduce(b, plait_out(0), plait_out(0), plait_tmp(0), 0, 1); /* 5: after both reads */
    plait_emit_recv(b, 1, plait_out(0), 0, 3);                            /* 6: a span of several slots */
    plait_emit_send(b, 1, plait_out(2), 2, 1);                            /* 7: inside that span */
    plait_lane(b, 1);
    plait_emit_send(b, 1, plait_in(3), 3, 1); /* 8: nothing wrote it */
}

static void dependencies_follow_from_what_is_read_and_written(void **state)
{
    assert_emits(emit_hazards, false,
                 "r0 #0 recv tmp[0] from r1\n"
                 "r0 #1 reduce out[0] = tmp[0], in[0]   after 0\n"
                 "r0 #2 recv tmp[0] from r2   after 0, 1\n"
                 "r0 #3 send out[0] to r1   after 1\n"
                 "r0 #4 send out[0] to r2   after 1\n"
                 "r0 #5 reduce out[0] = out[0], tmp[0]   after 1, 2, 3, 4\n"
                 "r0 #6 recv out[0..2] from r1   after 5\n"
                 "r0 #7 send out[2] to r1   after 6\n"
                 "r0 #8 send in[3] to r1 lane 1\n");
}

static void emit_alias(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    (void)self, (void)s, (void)me;
    plait_blocks(b, 2, 1);
    plait_emit_copy(b, plait_out(0), plait_in(0), 0, 1);
    plait_emit_send(b, 1, plait_in(1), 1, 1);
    plait_emit_recv(b, 1, plait_out(1), 1, 1);
    plait_emit_send(b, 2, plait_in(1), 1, 1);
    plait_emit_copy(b, plait_tmp(0), plait_tmp(0), 0, 1); /* vanishes */
}

static void in_place_the_input_is_the_output(void **state)
{
    assert_emits(
        emit_alias, false,
        "r0 #0 copy out[0] = in[0]\nr0 #1 send in[1] to r1\nr0 #2 recv out[1] from r1\nr0 #3 send in[1] to r2\n");
    assert_emits(emit_alias, true,
                 "r0 #0 send in[1] to r1\nr0 #1 recv out[1] from r1   after 0\nr0 #2 send in[1] to r2   after 1\n");
}

static void emit_parts(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    (void)self, (void)s, (void)me;
    plait_blocks(b, 2, 1);
    plait_emit_recv(b, 1, plait_tmp(0), 0, 1);
    const uint32_t two = plait_slots(b, 2), one = plait_slots(b, 1);
    plait_emit_recv(b, 1, plait_tmp(two), 0, 2);
    plait_emit_copy(b, plait_tmp(one), plait_tmp(0), 0, 1);
    plait_emit_copy(b, plait_out(0), plait_tmp(two), 0, 2);
}

static void slots_can_be_reserved_part_by_part(void **state)
{
    assert_emits(emit_parts, false,
                 "r0 #0 recv tmp[0] from r1\n"
                 "r0 #1 recv tmp[1..2] from r1 block 0\n"
                 "r0 #2 copy tmp[3] = tmp[0] block 0   after 0\n"
                 "r0 #3 copy out[0..1] = tmp[1..2]   after 1\n");
}

static void emit_nothing(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                         uint32_t me)
{
    (void)self, (void)b, (void)s, (void)me;
}

/* One wrong call, then right ones and another wrong one: the first error stays. s->param[0] chooses. */
static void emit_mistake(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                         uint32_t me)
{
    (void)self, (void)me;
    if (s->param[0] == 0)
        plait_emit_send(b, 1, plait_in(0), 0, 1);
    plait_blocks(b, s->param[0] == 1 ? 0 : 4, s->param[0] == 2 ? 1u << 30 : 1);
    plait_emit_send(b, 1, plait_in(0), 0, 1);
    switch (s->param[0]) {
    case 3:
        plait_blocks(b, 4, 1);
        break;
    case 4:
        plait_emit_send(b, 3, plait_in(0), 0, 1);
        break;
    case 5:
        plait_emit_recv(b, 0, plait_out(0), 0, 1);
        break;
    case 6:
        plait_emit_send(b, 1, plait_in(3), 3, 2);
        break;
    case 7:
        plait_emit_copy(b, plait_out(0), plait_in(0), 0, 0);
        break;
    case 8:
        plait_emit_copy(b, plait_tmp(0), plait_in(0), 0, 2);
        break;
    case 9:
        plait_emit_reduce(b, plait_out(0), plait_in(0), plait_tmp(1), 0, 1);
        break;
    case 12:
        plait_emit_copy(b, plait_tmp(0), plait_tmp(1), PLAIT_AS_LIES, 1);
        break;
    case 10:
        plait_lane(b, 255);
        break;
    case 11:
        plait_slots(b, (1u << 30) - 1);
        break;
    default:
        break;
    }
    plait_emit_recv(b, 1, plait_out(0), 0, 1);
    plait_emit_send(b, 77, plait_in(0), 0, 1);
}

static void the_first_mistake_of_an_emitter_is_reported(void **state)
{
    static const char *const messages[] = {
        "step 0: a move before plait_blocks()",
        "step 0: a plan has 1 to 2^30-1 blocks",
        "step 0: plait_blocks(): ntmp is 1073741824; a plan has at most 4194304",
        "step 1: plait_blocks() twice",
        "step 1: it has a peer outside the comm",
        "step 1: it has its own rank as peer",
        "step 1: it moves blocks outside the vector",
        "step 1: it moves blocks outside the vector",
        "step 1: it has a span outside its buffer",
        "step 1: it has a span outside its buffer",
        "step 1: more than 255 lanes",
        "step 1: plait_slots(): the number of TMP slots with n is 1073741824; a plan has at most 4194304",
        "step 1: it moves blocks that differ in size as they lie",
    };
    const struct plait_alg alg = alg_of(emit_mistake), nothing = alg_of(emit_nothing);
    struct plait_plan *plan = NULL;
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 3 };
    char expected[128];

    for (uint32_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        shape.param[0] = i;
        assert_int_equal(plait_plan_emit(&alg, &shape, 0, &plan), PLAIT_ERR_PLAN);
        snprintf(expected, sizeof expected, "test, 3 ranks: rank 0 %s", messages[i]);
        assert_string_equal(plait_last_error(), expected);
        assert_null(plan);
    }
    assert_int_equal(plait_plan_emit(&nothing, &shape, 0, &plan), PLAIT_ERR_PLAN);
    assert_int_equal(plait_plan_emit(&alg, &shape, 3, &plan), PLAIT_ERR_ARG);
    assert_null(plan);
}

/* ---- Text -------------------------------------------------------------------------------------- */

static void assert_round_trip(const struct plait_plan *plan)
{
    struct plait_plan *again;
    char *text, *text_again;

    assert_int_equal(plait_plan_print(plan, &text), PLAIT_OK);
    if (plait_plan_parse(NULL, text, &again) != PLAIT_OK)
        fail_msg("%s\n%s", plait_last_error(), text);
    assert_int_equal(plan->bytes, again->bytes);
    assert_memory_equal(plan, again, plan->bytes);
    assert_int_equal(plait_plan_print(again, &text_again), PLAIT_OK);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    plait_plan_destroy(again);
}

static void every_plan_survives_being_printed_and_read(void **state)
{
    for (uint32_t n = 1, c = 0; n <= (light() ? 9 : 16); n += ++c % PLAIT_NCOLL == 0) {
        const enum plait_coll coll = (enum plait_coll)(c % PLAIT_NCOLL);
        struct specs s;
        specs_init(&s, coll, n, coll != PLAIT_ALLTOALL && n % 2);
        assert_true(s.n > 0 || coll == PLAIT_BARRIER);
        for (uint32_t i = 0; i < s.n; i++) {
            s.spec[i].shape.root = i % n;
            struct plans p = plans_emit(s.spec[i].alg, &s.spec[i].shape);
            for (uint32_t r = 0; r < n; r++)
                assert_round_trip(p.plan[r]);
            plans_free(&p);
        }
        specs_finish(&s);
    }
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (f == NULL)
        return NULL;
    if (getdelim(&text, &size, '\0', f) < 0) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* All ranks' plans, one after the other. */
static char *print_all(enum plait_coll coll, const char *spec, uint32_t nrank, bool inplace)
{
    struct plait_shape shape = { .coll = coll, .nrank = nrank, .root = nrank - 1, .inplace = inplace };
    const struct plait_alg *alg;
    char *all = NULL, *text;
    size_t size;

    if (plait_alg_find(plait_algs, spec, &shape, &alg) != PLAIT_OK)
        return NULL;
    FILE *f = open_memstream(&all, &size);
    struct plans p = plans_emit(alg, &shape);
    for (uint32_t r = 0; r < nrank; r++) {
        assert_int_equal(plait_plan_print(p.plan[r], &text), PLAIT_OK);
        fputs(text, f);
        free(text);
    }
    fclose(f);
    plans_free(&p);
    return all;
}

static void plan_texts_match_the_golden_files(void **state)
{
    static const struct {
        const char *spec, *file;
        uint32_t nrank;
        bool inplace;
        enum plait_coll coll;
    } golden[] = {
        { "ring", "ring-1.txt", 1, false },
        { "ring", "ring-4.txt", 4, false },
        { "ring", "ring-3-inplace.txt", 3, true },
        { "torus:2x2", "torus-2x2.txt", 4, false },
        { "halving-doubling", "halving-doubling-3.txt", 3, false },
        { "double-tree", "double-tree-4.txt", 4, false },
        { "one-shot", "one-shot-3-inplace.txt", 3, true },
        { "binomial", "binomial-4.txt", 4, false },
        { "two-shot", "two-shot-3.txt", 3, false },
        { "ring", "reduce_scatter-ring-3-inplace.txt", 3, true, PLAIT_REDUCE_SCATTER },
        { "bruck", "allgather-bruck-3.txt", 3, false, PLAIT_ALLGATHER },
        { "bruck", "alltoall-bruck-3.txt", 3, false, PLAIT_ALLTOALL },
        { "binomial", "gather-binomial-4.txt", 4, false, PLAIT_GATHER },
        { "binomial", "reduce-binomial-3.txt", 3, false, PLAIT_REDUCE },
        { "double-tree", "broadcast-double-tree-4.txt", 4, false, PLAIT_BROADCAST },
    };
    char path[512];

    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        char *text = print_all(golden[i].coll, golden[i].spec, golden[i].nrank, golden[i].inplace);
        snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, golden[i].file);
        assert_non_null(text);
        if (getenv("PLAIT_TEST_GOLDEN_UPDATE") != NULL) {
            FILE *f = fopen(path, "w");
            assert_non_null(f);
            fputs(text, f);
            fclose(f);
        }
        char *expected = read_file(path);
        if (expected == NULL || strcmp(text, expected) != 0)
            fail_msg("%s on %u ranks differs from %s; now:\n%s", golden[i].spec, golden[i].nrank, path, text);
        free(expected);
        free(text);
    }
}

#define HEAD "plan 1 allreduce rank 1 of 4, blocks 4, tmp 2, lanes 2, in place\n"

static void what_spans_lanes_and_blocks_look_like(void **state)
{
    static const char *const texts[] = {
        HEAD,
        HEAD "r1 #0 recv tmp[0..1] from r0 block 2\nr1 #1 reduce out[2..3] = tmp[0..1], in[2..3]   after 0\n",
        HEAD "r1 #0 send in[3] to r0 lane 1\nr1 #1 copy tmp[1] = in[3] block 3 lane 1\nr1 #2 send tmp[1] to r2 block 3 "
             "  after 1\n",
        "plan 1 gather root 2 rank 1 of 4, blocks 4, tmp 2, lanes 1, out of place\n"
        "r1 #0 recv tmp[0..1] from r0 as it lies\nr1 #1 send tmp[0..1] to r2 as it lies   after 0\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct plait_plan *plan = NULL;
        char *text;
        assert_int_equal(plait_plan_parse(NULL, texts[i], &plan), PLAIT_OK);
        assert_int_equal(plait_plan_print(plan, &text), PLAIT_OK);
        assert_string_equal(text, texts[i]);
        free(text);
        plait_plan_destroy(plan);
    }
}

static void wrong_texts_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { "", "plan:1: 'plan' is expected before ''" },
        { "plan 2 allreduce", "plan:1: the version is 2, but must be 1" },
        { "plan 1 gather rank 1", "plan:1: 'root' is expected before 'rank 1'" },
        { "plan 1 allreduce root 1", "plan:1: 'rank' is expected before 'root 1'" },
        { "plan 1 allreduction", "plan:1: 'allreduction' is no collective" },
        { "plan 1 allreduce rank 4 of 4,", "plan:1: the number of ranks is 4, not from 5 to 16384" },
        { "plan 1 allreduce rank 1 of 99999999999999999999999,",
          "plan:1: the number of ranks is 99999999999999999999, not from 2 to 16384" },
        { "plan 1 allreduce rank 1 of 4, blocks 0", "plan:1: the number of blocks is 0, not from 1 to 4194304" },
        { "plan 1 allreduce rank 1 of 4, blocks 4, tmp 2, lanes 256",
          "plan:1: the number of lanes is 256, not from 1 to 255" },
        { "plan 1 allreduce rank 1 of 4, blocks 4, tmp 2, lanes 1, in place quickly",
          "plan:1: more text than a line has" },
        { "plan 1 allreduce rank 1 of 16385,", "plan:1: the number of ranks is 16385, not from 2 to 16384" },
        { "plan 1 allreduce rank 1 of 4, blocks 4194305,",
          "plan:1: the number of blocks is 4194305, not from 1 to 4194304" },
        { "plan 1 alltoall rank 1 of 4, blocks 1073741824,",
          "plan:1: the number of blocks is 1073741824, not from 1 to 1073741823" },
        { "plan 1 allreduce rank 1 of 4, blocks 4, tmp 4194305,",
          "plan:1: the number of TMP slots is 4194305, not from 0 to 4194304" },
        { HEAD "r2 #0 send in[0] to r0\n", "plan:2: the step's rank is 2, but must be 1" },
        { HEAD "r1 #1 send in[0] to r0\n", "plan:2: the step's number is 1, but must be 0" },
        { HEAD "r1 #0 sent in[0] to r0\n", "plan:2: 'sent' is no verb" },
        { HEAD "r1 #0 send on[0] to r0\n", "plan:2: 'on' is no buffer" },
        { HEAD "r1 #0 send in[x] to r0\n", "plan:2: the slot is not a number" },
        { HEAD "r1 #0 send in[1..1] to r0\n", "plan:2: the last slot is 1, not from 2 to 1073741823" },
        { HEAD "r1 #0 send in[1073741824] to r0\n", "plan:2: the slot is 1073741824, not from 0 to 1073741823" },
        /* 2^64: as 64 bits it would be 0 */
        { HEAD "r1 #0 send in[18446744073709551616] to r0\n",
          "plan:2: the slot is 18446744073709551616, not from 0 to 1073741823" },
        { HEAD "r1 #0 send in[0] from r0\n", "plan:2: 'to' is expected before 'from r0'" },
        { HEAD "r1 #0 send in[0] to r4\n", "plan:2: the peer is 4, not from 0 to 3" },
        { HEAD "r1 #0 send in[0] to r0 lane 2\n", "plan:2: the lane is 2, not from 0 to 1" },
        { HEAD "r1 #0 send in[0] to r0 block 4\n", "plan:2: the block is 4, not from 0 to 3" },
        { HEAD "r1 #0 send in[0] to r0 after 0\n",
          "plan:2: a dependency is not an earlier step, or not in ascending order" },
        { HEAD "r1 #0 send in[0] to r0\nr1 #1 send in[0] to r0 after 1\n", "plan:3: a dependency is 1, but must be 0" },
        { HEAD "r1 #0 send in[0] to r0\nr1 #1 send in[0] to r0 after 0, 0\n",
          "plan:3: a dependency is not an earlier step, or not in ascending order" },
        { HEAD "r1 #0 copy out[0..1] = in[0]\n", "plan:2: the spans have different lengths" },
        { HEAD "r1 #0 send in[0] to r0 quickly\n", "plan:2: more text than a line has" },
        { HEAD "\n# more\ns1 #0 send\n", "plan:4: step 'r1 #0 ...' or the next plan is expected before 's1 #0 send'" },
        { HEAD HEAD, "plan:2: a second plan" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plait_plan *plan = NULL;
        assert_int_equal(plait_plan_parse(NULL, wrong[i].text, &plan), PLAIT_ERR_PLAN);
        assert_string_equal(plait_last_error(), wrong[i].message);
        assert_null(plan);
    }
}

/* Random edits of a right text: it is refused, or what is read is again printed and read the same. */
static void damaged_texts_do_no_harm(void **state)
{
    static const char *const bits[] = { "r",     "#",          "[",          "]",     "..",   ",",   "\n",  " ",
                                        "after", "4294967296", "1073741823", "65536", "-1",   "0",   "tmp", "out",
                                        "=",     "block",      "lane",       "\x80",  "plan", "send" };
    char *right = print_all(PLAIT_ALLREDUCE, "ring", 4, false);
    uint64_t random = 7;
    uint32_t accepted = 0;

    *strstr(right + 1, "plan 1") = '\0'; /* rank 0's only */
    for (int i = 0; i < 30000; i++) {
        char text[4096];
        const uint32_t n = (uint32_t)strlen(right), at = random_below(&random, n), cut = random_below(&random, 4);
        struct plait_plan *plan;
        snprintf(text, sizeof text, "%.*s%s%s", (int)at, right,
                 random_below(&random, 3) == 0 ? "" : bits[random_below(&random, sizeof bits / sizeof *bits)],
                 random_below(&random, 20) == 0 ? "" : right + (at + cut < n ? at + cut : n));
        if (plait_plan_parse(NULL, text, &plan) != PLAIT_OK)
            continue;
        accepted++;
        assert_round_trip(plan);
        plait_plan_destroy(plan);
    }
    assert_in_range(accepted, 30, 15000);
    free(right);
}

static void nothing_is_no_argument_and_no_crash(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    struct plait_plan *plan = NULL;
    char *text = NULL;

    assert_int_equal(plait_plan_emit(NULL, &shape, 0, &plan), PLAIT_ERR_ARG);
    assert_int_equal(plait_plan_emit(plait_algs[0], NULL, 0, &plan), PLAIT_ERR_ARG);
    assert_int_equal(plait_plan_emit(plait_algs[0], &shape, 0, NULL), PLAIT_ERR_ARG);
    assert_int_equal(plait_plan_print(NULL, &text), PLAIT_ERR_ARG);
    assert_int_equal(plait_plan_check("x", NULL, NULL, NULL, NULL), PLAIT_ERR_ARG);
    assert_int_equal(plait_plan_check("x", &shape, NULL, NULL, NULL), PLAIT_ERR_ARG);
    assert_null(plait_plan_deps(NULL));
    assert_int_equal(plait_coll_find(NULL), -1);
    assert_int_equal(plait_dtype_find(NULL), -1);
    assert_int_equal(plait_op_find(NULL), -1);
    plait_topology_get(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_argument_and_no_crash),
        cmocka_unit_test(dependencies_follow_from_what_is_read_and_written),
        cmocka_unit_test(in_place_the_input_is_the_output),
        cmocka_unit_test(slots_can_be_reserved_part_by_part),
        cmocka_unit_test(the_first_mistake_of_an_emitter_is_reported),
        cmocka_unit_test(every_plan_survives_being_printed_and_read),
        cmocka_unit_test(plan_texts_match_the_golden_files),
        cmocka_unit_test(what_spans_lanes_and_blocks_look_like),
        cmocka_unit_test(wrong_texts_are_refused_with_their_line),
        cmocka_unit_test(damaged_texts_do_no_harm),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
