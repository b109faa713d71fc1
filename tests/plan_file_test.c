/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms from plan files: what is read is what was printed, and what is wrong is refused with its place. */
#include "folder.h"
#include "plans.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <plait/comm.h>
#include <plait/plan.h>
#include <plait/simulate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD(rank, ranks) "plan 1 allreduce rank " #rank " of " #ranks ", blocks 1, tmp 1, lanes 1, out of place\n"
#define SWAP_0            HEAD(0, 2) "r0 #0 send in[0] to r1\nr0 #1 recv tmp[0] from r1\n"
#define ADD_0             "r0 #2 reduce out[0] = in[0], tmp[0]   after 1\n"
#define SWAP_1                                                                                \
    HEAD(1, 2)                                                                                \
    "r1 #0 send in[0] to r0\nr1 #1 recv tmp[0] from r0\nr1 #2 reduce out[0] = tmp[0], in[0] " \
    "  after 1\n"
#define SWAP  SWAP_0 ADD_0 SWAP_1
#define APART /* rank 0 writes its output before it sends its input */                                          \
    HEAD(0, 2)                                                                                                  \
    "r0 #0 recv out[0] from r1\nr0 #1 reduce out[0] = in[0], out[0]   after 0\nr0 #2 send in[0] to r1   after " \
    "1\n" SWAP_1
#define ALONE HEAD(0, 1) "r0 #0 copy out[0] = in[0]\n"

static void write_text(const char *name, const char *text)
{
    folder_write(name, text, strlen(text));
}

/* Of a file in the folder; an error's text is without the folder. */
static enum plait_status load(const char *name, struct plait_alg_set **set, char error[512])
{
    const enum plait_status status = plait_alg_set_load(in_folder(name), set);
    const char *text = plait_last_error(), *at;

    for (error[0] = '\0'; status != PLAIT_OK && (at = strstr(text, folder)) != NULL; text = at + strlen(folder) + 1)
        snprintf(error + strlen(error), 512 - strlen(error), "%.*s", (int)(at - text), text);
    if (status != PLAIT_OK)
        snprintf(error + strlen(error), 512 - strlen(error), "%s", text);
    return status;
}

static struct plait_alg_set *must_load(const char *name)
{
    struct plait_alg_set *set = NULL;
    char error[512];

    if (load(name, &set, error) != PLAIT_OK)
        fail_msg("%s", error);
    return set;
}

/* ---- What is right ---------------------------------------------------------------------------------------- */

/* The file has the same plans and, as far as it is exact, the same claim. */
static void assert_same(const struct plait_alg *found, const struct spec *s, const struct plait_shape *shape)
{
    struct plans own = plans_emit(s->alg, &s->shape), read = plans_emit(found, shape);

    for (uint32_t r = 0; r < own.n; r++)
        if (own.plan[r]->bytes != read.plan[r]->bytes || memcmp(own.plan[r], read.plan[r], own.plan[r]->bytes) != 0)
            fail_msg("%s, %u ranks: rank %u has another plan", s->text, shape->nrank, r);
    plans_free(&own);
    plans_free(&read);
    const struct plait_claim a = s->alg->claim(s->alg, &s->shape), b = found->claim(found, shape);
    assert_true(a.depth == b.depth && a.nblk == b.nblk && a.sent == b.sent && a.received == b.received);
    assert_true(a.rounds_exact ? a.rounds == b.rounds : a.rounds >= b.rounds);
    assert_true(found->canonical >= s->alg->canonical && found->no_partials >= s->alg->no_partials);
}

static void print_and_read(const struct spec *s)
{
    struct plait_shape shape = { .coll = s->shape.coll, .nrank = s->shape.nrank, .root = s->shape.root };
    const struct plait_alg *found;
    struct plans p = plans_emit(s->alg, &s->shape);

    plans_write(&p, in_folder("mine.plan"), "");
    plans_free(&p);
    struct plait_alg_set *set = must_load("mine.plan");
    if (plait_alg_find(plait_alg_set_list(set), "mine", &shape, &found) != PLAIT_OK)
        fail_msg("%s, %u ranks: %s", s->text, shape.nrank, plait_last_error());
    assert_same(found, s, &shape);
    plait_alg_set_destroy(set);
}

static void what_is_printed_of_every_algorithm_is_read_as_the_same_plans(void **state)
{
    uint32_t n = 0;

    for (uint32_t nrank = 1; nrank <= 9; nrank += light() ? 4 : nrank < 6 ? 1 : 3)
        for (int coll = 0; coll < PLAIT_NCOLL; coll++) {
            struct specs all;
            if (coll == PLAIT_BARRIER)
                continue;
            specs_init(&all, (enum plait_coll)coll, nrank, false);
            for (uint32_t i = 0; i < all.n; i++, n++) {
                all.spec[i].shape.root = i % nrank;
                print_and_read(&all.spec[i]);
            }
            specs_finish(&all);
        }
    assert_in_range(n, 150, 100000);
}

/* More dependencies than memory needs are the author's: the builder would not derive them. */
static void dependencies_of_the_file_are_kept(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_alg *found;
    struct plait_plan *plan;

    write_text("mine.plan", HEAD(0, 2) "r0 #0 send in[0] to r1\nr0 #1 recv tmp[0] from r1   after 0\n"
                                       "r0 #2 reduce out[0] = in[0], tmp[0]   after 1\n" HEAD(
                                           1, 2) "r1 #0 recv tmp[0] from r0\nr1 #1 send in[0] to r0   after 0\n"
                                                 "r1 #2 reduce out[0] = tmp[0], in[0]   after 0\n");
    struct plait_alg_set *set = must_load("mine.plan");
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "mine", &shape, &found), PLAIT_OK);
    assert_int_equal(plait_plan_emit(found, &shape, 0, &plan), PLAIT_OK);
    assert_int_equal(plan->step[1].ndep, 1);
    assert_int_equal(found->claim(found, &shape).depth, 2);
    plait_plan_destroy(plan);
    plait_alg_set_destroy(set);
}

static void lanes_of_the_file_are_kept(void **state)
{
#define LANES(rank) "plan 1 allreduce rank " #rank " of 2, blocks 1, tmp 1, lanes 3, out of place\n"
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_alg *found;
    struct plait_plan *plan;

    write_text("mine.plan", LANES(0) "r0 #0 send in[0] to r1 lane 1\nr0 #1 recv tmp[0] from r1 lane 2\n" ADD_0 LANES(
                                1) "r1 #0 send in[0] to r0 lane 2\nr1 #1 recv tmp[0] from r0 lane 1\n"
                                   "r1 #2 reduce out[0] = tmp[0], in[0]   after 1\n");
    struct plait_alg_set *set = must_load("mine.plan");
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "mine", &shape, &found), PLAIT_OK);
    assert_int_equal(plait_plan_emit(found, &shape, 0, &plan), PLAIT_OK);
    assert_int_equal(plan->nlane, 3);
    assert_true(plan->step[0].lane == 1 && plan->step[1].lane == 2);
    plait_plan_destroy(plan);
    plait_alg_set_destroy(set);
}

static void comments_blank_lines_and_a_name_may_stand_anywhere(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_alg *found;

    write_text(
        "x.plan",
        "\n# two ranks\n  algorithm  Swap-2.1 # a name\r\n\n" SWAP_0 "\n   # now both are here\n" ADD_0
        "  \n" HEAD(1, 2) "r1  #0 send in[0] to r0   # first\n"
                          "r1 #1 recv tmp[0] from r0\nr1 #2 reduce out[0] = tmp[0], in[0] after 1   # no end of line");
    struct plait_alg_set *set = must_load("x.plan");
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap21", &shape, &found), PLAIT_ERR_CONFIG);
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap2.1", &shape, &found), PLAIT_OK);
    assert_string_equal(found->name, "Swap-2.1");
    assert_string_equal(found->text, "plans for 2 ranks");
    plait_alg_set_destroy(set);
}

/* ---- Several in a file --------------------------------------------------------------------------------------- */

static void plans_of_a_name_are_one_algorithm_for_several_numbers_of_ranks(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_alg *two, *one;
    char error[512];
    struct plait_alg_set *set;

    write_text("swap.plan", SWAP "\n" ALONE "algorithm alone\n" ALONE);
    set = must_load("swap.plan");
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap", &shape, &two), PLAIT_OK);
    shape.nrank = 1;
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap", &shape, &one), PLAIT_OK);
    assert_ptr_equal(one, two);
    assert_ptr_equal(one, plait_alg_set_list(set)[0]);
    assert_string_equal(plait_alg_set_list(set)[1]->name, "alone");
    assert_null(plait_alg_set_list(set)[2]);
    shape.nrank = 3;
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap", &shape, &one), PLAIT_ERR_CONFIG);
    assert_string_equal(plait_last_error(), "algorithm 'swap' does not fit 3 ranks; its plans are for 2, 1 ranks");
    plait_alg_set_destroy(set);

    write_text("swap.plan", SWAP "algorithm other\n" ALONE "algorithm swap\n" SWAP);
    assert_int_equal(load("swap.plan", &set, error), PLAIT_ERR_CONFIG);
    assert_string_equal(error,
                        "swap.plan: there are two plans of 'swap' for 2 ranks; begin one with a line 'algorithm NAME'");
}

static void the_plan_files_of_a_folder_are_read_in_the_order_of_their_names(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_alg *two, *one;
    char error[512];
    struct plait_alg_set *set;

    write_text("2.plan", "algorithm swap\n" SWAP);
    write_text("1.plan", "algorithm swap\n" ALONE);
    write_text("3.txt", "no plan");
    set = must_load("");
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap", &shape, &two), PLAIT_OK);
    shape.nrank = 1;
    assert_int_equal(plait_alg_find(plait_alg_set_list(set), "swap", &shape, &one), PLAIT_OK);
    assert_ptr_equal(one, two);
    assert_null(plait_alg_set_list(set)[1]);
    plait_alg_set_destroy(set);

    write_text("4.plan", "algorithm swap\n" SWAP);
    assert_int_not_equal(load("", &set, error), PLAIT_OK);
    assert_non_null(strstr(error, "/4.plan:"));
}

static int empty_folder(void **state)
{
    char command[64];

    snprintf(command, sizeof command, "rm -f %s/*", folder);
    return system(command);
}

static void paths_without_plans_are_refused(void **state)
{
    struct plait_alg_set *set = NULL;
    char error[512];

    assert_int_equal(load("", &set, error), PLAIT_ERR_CONFIG);
    assert_string_equal(error, " has no file *.plan");
    assert_int_equal(load("none.plan", &set, error), PLAIT_ERR_SYSTEM);
    assert_string_equal(error, "none.plan: No such file or directory");
    assert_int_equal(plait_alg_set_load(NULL, &set), PLAIT_ERR_ARG);
    assert_null(set);
    assert_null(plait_alg_set_list(NULL)[0]);
    plait_alg_set_destroy(NULL);
}

/* It is read as empty, without a wait for a writer. */
static void a_fifo_without_a_writer_does_not_hang(void **state)
{
    struct plait_alg_set *set = NULL;
    char error[512];

    assert_int_equal(mkfifo(in_folder("pipe.plan"), 0600), 0);
    alarm(20);
    assert_int_equal(load("pipe.plan", &set, error), PLAIT_ERR_PLAN);
    alarm(0);
    assert_null(set);
}

/* ---- What is wrong ---------------------------------------------------------------------------------------- */

static void wrong_files_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        { "", "x.plan:1: 'plan' is expected before ''" },
        { "# nothing\n", "x.plan:2: 'plan' is expected before ''" },
        { "algorithm\n" SWAP, "x.plan:1: '' is no name of an algorithm: a letter, then letters, digits, '.', '_' and "
                              "'-', at most 47 characters" },
        { "algorithm a:b\n" SWAP, "x.plan:1: 'a:b' is no name of an algorithm: a letter, then letters, digits, '.', "
                                  "'_' and '-', at most 47 characters" },
        { "algorithm a plan", "x.plan:1: 'algorithm NAME' is a line of its own" },
        { "algorithm a", "x.plan:1: 'plan' is expected before ''" },
        { "algorithms a\n", "x.plan:1: 'plan' is expected before 'algorithms a'" },
        { "plan 1 alltoall rank 0 of 1, blocks 1, tmp 0, lanes 1, in place\n",
          "x.plan:1: the plan is in place; a file has plans out of place" },
        { "algorithm Two_Shot\n" SWAP, "x.plan: the library has an algorithm 'two-shot' for allreduce; give this one "
                                       "another name, in a first line 'algorithm NAME'" },
        { SWAP_1, "x.plan:1: the plan of rank 0 is expected, not of rank 1" },
        { SWAP_0 ADD_0, "x.plan:5: the plan of rank 1 of 2 is missing" },
        { SWAP_0 ADD_0 HEAD(1, 3), "x.plan:5: the plan of rank 1 has another number of ranks than that of rank 0" },
        { SWAP_0 ADD_0 "plan 1 allreduce rank 1 of 2, blocks 2, tmp 1, lanes 1, out of place\n",
          "x.plan:5: the plan of rank 1 has another number of blocks than that of rank 0" },
        { SWAP_0 ADD_0 "plan 1 allreduce rank 1 of 2, blocks 1, tmp 1, lanes 1, in place\n",
          "x.plan:5: the plan is in place; a file has plans out of place" },
        { SWAP HEAD(0, 3), "x.plan:10: the plan of rank 1 of 3 is missing" },
        { SWAP HEAD(1, 2), "x.plan:9: the plan of rank 0 is expected, not of rank 1" },
        { SWAP "algorithm b\n", "x.plan:10: 'plan' is expected before ''" },
        { SWAP "what\n", "x.plan:9: step 'r1 #3 ...' or the next plan is expected before 'what'" },
        { "plan 1 barrier rank 0 of 1, blocks 1, tmp 1, lanes 1, out of place\n",
          "x.plan:1: a barrier runs as an all-reduce; make it a plan of allreduce" },
        { "plan 1 allreduce rank 0 of 16385, blocks", "x.plan:1: the number of ranks is 16385, not from 1 to 16384" },
        { "plan 1 allreduce rank 0 of 2, blocks 4194305", "x.plan:1: the number of blocks is 4194305, not from 1 to "
                                                          "4194304" },
        { "plan 1 broadcast root 2 rank 0 of 2, blocks 1, tmp 0, lanes 1, out of place\n",
          "x.plan:1: the root is 2, but there are 2 ranks" },
        { "plan 1 allgather rank 0 of 1, blocks 2, tmp 0, lanes 1, out of place\n",
          "x.plan: x, 1 rank: the plan of rank 0 has another number of blocks than the collective" },
        /* The checks, each with rank and step. */
        { SWAP_0 "r0 #2 reduce out[0] = in[0], tmp[0]\n" SWAP_1,
          "x.plan: x, 2 ranks: rank 0 step 2 reads tmp[0] (block 0) without waiting for step 1, which writes it" },
        { SWAP_0 SWAP_1, "x.plan: x, 2 ranks: rank 0 never writes out[0] (block 0)" },
        { SWAP_0 "r0 #2 reduce out[0] = tmp[0], tmp[0]   after 1\n" SWAP_1,
          "x.plan: x, 2 ranks: rank 0 step 2 adds the contribution of rank 1 to block 0 twice" },
        { HEAD(0, 2) "r0 #0 recv tmp[0] from r1\nr0 #1 send in[0] to r1   after 0\n"
                     "r0 #2 reduce out[0] = in[0], tmp[0]   after 0\n" HEAD(
                         1, 2) "r1 #0 recv tmp[0] from r0\nr1 #1 send in[0] to r0   after 0\n"
                               "r1 #2 reduce out[0] = tmp[0], in[0]   after 0\n",
          "x.plan: x, 2 ranks: rank 1 step 1 (send block 0) waits for itself, through rank 1 step 0, rank 0 step 0" },
        { HEAD(0, 2) "r0 #0 copy out[0] = in[0]\n" SWAP_1,
          "x.plan: x, 2 ranks: rank 1 step 0 sends block 0 to rank 0 on lane 0, which has no receive for it" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plait_alg_set *set = NULL;
        char error[512];
        write_text("x.plan", wrong[i].text);
        assert_int_not_equal(load("x.plan", &set, error), PLAIT_OK);
        assert_string_equal(error, wrong[i].error);
        assert_null(set);
    }
}

static void a_file_of_bytes_or_without_a_name_is_refused(void **state)
{
    static const char bytes[] = SWAP "\0more";
    struct plait_alg_set *set = NULL;
    char error[512];

    folder_write("x.plan", bytes, sizeof bytes);
    assert_int_equal(load("x.plan", &set, error), PLAIT_ERR_PLAN);
    assert_string_equal(error, "x.plan: a NUL byte; the file must be text");
    write_text("4-ranks.plan", SWAP);
    assert_int_equal(load("4-ranks.plan", &set, error), PLAIT_ERR_PLAN);
    assert_string_equal(error, "4-ranks.plan:1: '4-ranks' is no name of an algorithm: a letter, then letters, digits, "
                               "'.', '_' and '-', at most 47 characters; give one in a first line, 'algorithm NAME'");
}

static void plans_that_are_too_long_are_refused_with_the_limit(void **state)
{
    struct plait_alg_set *set = NULL;
    char error[512], *text = must_have(malloc(50 << 20)), *at = text;

    at += sprintf(at, "%s", HEAD(0, 1));
    for (uint32_t i = 0; i <= 1u << 20; i++)
        at += sprintf(at, "r0 #%u copy tmp[0] = in[0]\n", i);
    write_text("x.plan", text);
    free(text);
    assert_int_equal(load("x.plan", &set, error), PLAIT_ERR_PLAN);
    assert_string_equal(error, "x.plan:1048578: the plan has more than 1048576 steps");
}

/* ---- The setting ------------------------------------------------------------------------------------------ */

static int unset(void **state)
{
    return unsetenv("PLAIT_PLANS") != 0 || unsetenv("PLAIT_ALGO") != 0 || empty_folder(state) != 0;
}

static void plans_of_the_setting_are_chosen_and_simulated_like_the_librarys(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    struct plait_machine m = { .name = "m", .nlevel = 1 };
    const struct plait_alg *const *known;
    struct plait_prediction p;
    struct plait_choice choice;
    uint32_t n = 0;

    m.level[0] = (struct plait_level){ .name = "host", .children = 2, .links = 1, .bandwidth = 1000000000 };
    write_text("swap.plan", SWAP);
    setenv("PLAIT_PLANS", in_folder("swap.plan"), 1);
    setenv("PLAIT_ALGO", "allreduce:swap", 1);
    assert_int_equal(plait_alg_list(&known), PLAIT_OK);
    assert_string_equal(known[0]->name, "swap");
    while (known[n + 1] != NULL) {
        assert_ptr_equal(known[n + 1], plait_algs[n]);
        n++;
    }
    assert_null(plait_algs[n]);
    assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &choice), PLAIT_OK);
    assert_string_equal(choice.algorithm, "swap");
    assert_int_equal(plait_simulate(&m, "swap", &shape, PLAIT_FLOAT32, 250000, NULL, &p), PLAIT_OK);
    assert_true(p.bytes == 2000000 && p.time >= 1000000000);
    unsetenv("PLAIT_PLANS");
    assert_int_equal(plait_simulate(&m, "swap", &shape, PLAIT_FLOAT32, 250000, NULL, &p), PLAIT_ERR_CONFIG);
}

/* ---- The library's choice --------------------------------------------------------------------------------- */

static const uint32_t crosswise[] = { 0, 1, 1, 0, 1, 0, 0, 1 }, by_host[] = { 0, 3, 5, 6, 1, 2, 4, 7 };

static const struct plait_candidate *candidate(const struct plait_choice *c, const char *name)
{
    for (uint32_t i = 0; i < c->ncandidate; i++)
        if (strcmp(c->candidate[i].algorithm, name) == 0)
            return &c->candidate[i];
    return NULL;
}

static struct plait_choice choose(const struct plait_shape *shape, size_t count, bool reproducible)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice c;

    call.reproducible = reproducible;
    if (plait_choose(shape, count, PLAIT_FLOAT32, PLAIT_SUM, &call, &c) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    return c;
}

/* Ranks of two hosts take turns, so each message of the library's ring crosses the network; of this one, two do. */
static void a_users_plan_is_chosen_where_the_model_says_that_it_is_the_fastest(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLGATHER, .nrank = 8, .node = crosswise };

    plans_write_ring(in_folder("by-host.plan"), by_host, 8);
    setenv("PLAIT_PLANS", in_folder("by-host.plan"), 1);
    for (int vform = 0; vform < 2; vform++) {
        shape.vform = vform;
        const struct plait_choice c = choose(&shape, 1 << 18, false);
        assert_string_equal(c.algorithm, "by-host");
        assert_true(c.candidate[0].predicted > 0 && c.candidate[0].predicted < c.candidate[1].predicted);
        assert_non_null(strstr(c.why, "the fastest by the model"));
    }
    unsetenv("PLAIT_PLANS");
    assert_string_not_equal(choose(&shape, 1 << 18, false).algorithm, "by-host");
}

static void a_users_plan_is_not_chosen_where_it_is_slower_or_does_not_fit(void **state)
{
    static const uint32_t in_turns[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, hosts[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    const struct plait_shape slower[] = {
        { .coll = PLAIT_ALLGATHER, .nrank = 8, .node = hosts }, /* here the library's crosses as seldom */
        { .coll = PLAIT_ALLGATHER, .nrank = 8 },
    };
    const struct plait_shape others[] = {
        { .coll = PLAIT_ALLGATHER, .nrank = 7, .node = crosswise },
        { .coll = PLAIT_REDUCE_SCATTER, .nrank = 8, .node = crosswise },
    };

    plans_write_ring(in_folder("by-host.plan"), by_host, 8);
    plans_write_ring(in_folder("zag.plan"), in_turns, 8); /* the library's ring: it is preferred */
    folder_join("both.plan", "by-host", "zag");
    setenv("PLAIT_PLANS", in_folder("both.plan"), 1);
    for (int k = 0; k < 2; k++) {
        const struct plait_choice c = choose(&slower[k], 1 << 18, false);
        assert_string_not_equal(c.algorithm, "by-host");
        assert_string_not_equal(c.algorithm, "zag");
        assert_true(candidate(&c, "by-host")->predicted > 0 && candidate(&c, "zag")->predicted > 0);
    }
    for (int k = 0; k < 2; k++) {
        const struct plait_choice c = choose(&others[k], 1 << 18, false);
        assert_true(c.ncandidate > 0 && candidate(&c, "by-host") == NULL);
    }
}

/* A file with the plans of an algorithm of the library. A process reads each path once. */
static void write_copy(const char *spec, const struct plait_shape *shape, const char *name)
{
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    assert_int_equal(plait_alg_find(plait_algs, spec, &s, &alg), PLAIT_OK);
    struct plans p = plans_emit(alg, &s);
    plans_write(&p, in_folder(name), "");
    plans_free(&p);
    setenv("PLAIT_PLANS", in_folder(name), 1);
}

static void reproducible_results_have_only_users_plans_of_the_canonical_order(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 5 };

    for (int reproducible = 0; reproducible < 2; reproducible++) {
        write_copy("two-shot", &shape, "shots.plan");
        struct plait_choice c = choose(&shape, 1 << 18, reproducible);
        assert_non_null(candidate(&c, "shots"));
        write_copy("ring", &shape, "around.plan");
        c = choose(&shape, 1 << 18, reproducible);
        assert_int_equal(candidate(&c, "around") != NULL, !reproducible);
    }
}

static void plans_of_a_root_are_for_that_root(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_BROADCAST, .nrank = 6, .root = 4 };

    write_copy("chain", &shape, "from-four.plan");
    for (shape.root = 0; shape.root < 6; shape.root++) {
        const struct plait_choice c = choose(&shape, 1 << 18, false);
        assert_int_equal(candidate(&c, "from-four") != NULL, shape.root == 4);
    }
}

/* It runs out of place, whatever the call. */
static void a_plan_that_would_be_wrong_in_place_is_a_candidate(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice c;

    write_text("apart.plan", APART);
    setenv("PLAIT_PLANS", in_folder("apart.plan"), 1);
    c = choose(&shape, 1 << 18, false);
    assert_non_null(candidate(&c, "apart"));
    shape.inplace = true;
    call.algorithm = "apart";
    assert_int_equal(plait_choose(&shape, 1 << 18, PLAIT_FLOAT32, PLAIT_SUM, &call, &c), PLAIT_OK);
}

/* Rank 1 sends a partial sum beside its input, so it can neither divide nor round the one alone. */
static void a_plan_that_cannot_average_runs_only_where_it_is_named(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 3 };
    struct plait_choice c;

    write_text("mix.plan", "plan 1 allreduce rank 0 of 3, blocks 2, tmp 4, lanes 1, out of place\n"
                           "r0 #0 send in[0] to r1\n"
                           "r0 #1 send in[1] to r2\n"
                           "r0 #2 recv out[0..1] from r2\n"
                           "plan 1 allreduce rank 1 of 3, blocks 2, tmp 4, lanes 1, out of place\n"
                           "r1 #0 recv tmp[0] from r0\n"
                           "r1 #1 reduce out[0] = tmp[0], in[0]   after 0\n"
                           "r1 #2 copy out[1] = in[1]\n"
                           "r1 #3 send out[0..1] to r2   after 1,2\n"
                           "r1 #4 recv out[0..1] from r2   after 3\n"
                           "plan 1 allreduce rank 2 of 3, blocks 2, tmp 4, lanes 1, out of place\n"
                           "r2 #0 copy tmp[0] = in[0]\n"
                           "r2 #1 copy tmp[1] = in[1]\n"
                           "r2 #2 recv out[0..1] from r1\n"
                           "r2 #3 reduce out[0] = out[0], tmp[0]   after 0,2\n"
                           "r2 #4 recv tmp[2] from r0 block 1\n"
                           "r2 #5 reduce out[1] = tmp[2], out[1] block 1   after 2,4\n"
                           "r2 #6 reduce out[1] = out[1], tmp[1]   after 1,5\n"
                           "r2 #7 send out[0..1] to r0   after 3,6\n"
                           "r2 #8 send out[0..1] to r1   after 3,6\n");
    setenv("PLAIT_PLANS", in_folder("mix.plan"), 1);
    c = choose(&shape, 1 << 18, false);
    assert_true(c.ncandidate > 0 && candidate(&c, "mix") == NULL);
}

static void an_error_in_the_settings_file_names_the_setting(void **state)
{
    const struct plait_alg *const *known = NULL;
    char expected[512];

    write_text("bad.plan", "plan 2");
    setenv("PLAIT_PLANS", in_folder("bad.plan"), 1);
    snprintf(expected, sizeof expected, "PLAIT_PLANS: %s:1: the version is 2, but must be 1", in_folder("bad.plan"));
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(plait_alg_list(&known), PLAIT_ERR_PLAN);
        assert_string_equal(plait_last_error(), expected);
    }
    write_text("bad.plan", SWAP); /* an error is not kept */
    assert_int_equal(plait_alg_list(&known), PLAIT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_printed_of_every_algorithm_is_read_as_the_same_plans, empty_folder),
        cmocka_unit_test_teardown(dependencies_of_the_file_are_kept, empty_folder),
        cmocka_unit_test_teardown(a_fifo_without_a_writer_does_not_hang, empty_folder),
        cmocka_unit_test_teardown(lanes_of_the_file_are_kept, empty_folder),
        cmocka_unit_test_teardown(comments_blank_lines_and_a_name_may_stand_anywhere, empty_folder),
        cmocka_unit_test_teardown(plans_of_a_name_are_one_algorithm_for_several_numbers_of_ranks, empty_folder),
        cmocka_unit_test_teardown(the_plan_files_of_a_folder_are_read_in_the_order_of_their_names, empty_folder),
        cmocka_unit_test_teardown(paths_without_plans_are_refused, empty_folder),
        cmocka_unit_test_teardown(wrong_files_are_refused_with_their_place, empty_folder),
        cmocka_unit_test_teardown(a_file_of_bytes_or_without_a_name_is_refused, empty_folder),
        cmocka_unit_test_teardown(plans_that_are_too_long_are_refused_with_the_limit, empty_folder),
        cmocka_unit_test_teardown(plans_of_the_setting_are_chosen_and_simulated_like_the_librarys, unset),
        cmocka_unit_test_teardown(a_users_plan_is_chosen_where_the_model_says_that_it_is_the_fastest, unset),
        cmocka_unit_test_teardown(a_users_plan_is_not_chosen_where_it_is_slower_or_does_not_fit, unset),
        cmocka_unit_test_teardown(reproducible_results_have_only_users_plans_of_the_canonical_order, unset),
        cmocka_unit_test_teardown(plans_of_a_root_are_for_that_root, unset),
        cmocka_unit_test_teardown(a_plan_that_would_be_wrong_in_place_is_a_candidate, unset),
        cmocka_unit_test_teardown(a_plan_that_cannot_average_runs_only_where_it_is_named, unset),
        cmocka_unit_test_teardown(an_error_in_the_settings_file_names_the_setting, unset),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
