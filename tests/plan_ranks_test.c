/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks with algorithms from plan files: by PLAIT_PLANS and by a comm's options, with the same files or others. */
#include "folder.h"
#include "plans.h"
#include "ranks.h"
#include "unit.h"

#include <plait/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NRANK 3
#define COUNT 100000

/* All ranks' plans of an algorithm of the library, behind a first line. */
static void write_plans(const char *name, enum plait_coll coll, const char *spec, uint32_t root, const char *first)
{
    struct plait_shape shape = { .coll = coll, .nrank = NRANK, .root = root };
    const struct plait_alg *alg;

    assert_int_equal(plait_alg_find(plait_algs, spec, &shape, &alg), PLAIT_OK);
    struct plans p = plans_emit(alg, &shape);
    plans_write(&p, in_folder(name), first);
    plans_free(&p);
}

static int add_up(struct plait_comm *comm, uint32_t rank, const char *algorithm, bool inplace)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float *in = malloc(COUNT * sizeof *in), *out = inplace ? in : calloc(COUNT, sizeof *out);

    CHECK(in != NULL && out != NULL);
    call.algorithm = algorithm;
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)((rank + 1) * (uint32_t)(i % 100));
    CHECK(plait_allreduce(comm, in, out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(out[i] == (float)(NRANK * (NRANK + 1) / 2 * (i % 100)));
    if (!inplace)
        free(out);
    free(in);
    return 0;
}

static int reduce(struct plait_comm *comm, uint32_t rank)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t x[1000], out[1000];

    call.algorithm = "up";
    for (int inplace = 0; inplace < 2; inplace++) {
        int32_t *const to = rank != 1 ? NULL : inplace ? x : out;
        for (int i = 0; i < 1000; i++)
            x[i] = (int32_t)rank + i;
        CHECK(plait_reduce(comm, x, to, 1000, PLAIT_INT32, PLAIT_SUM, 1, &call) == PLAIT_OK);
        for (int i = 0; i < 1000 && to != NULL; i++)
            CHECK(to[i] == NRANK * (NRANK - 1) / 2 + NRANK * i);
    }
    return 0;
}

static int use(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_count count;
    struct plait_comm *half;

    CHECK(add_up(*comm, rank, "mine", false) == 0 && add_up(*comm, rank, "mine", true) == 0);
    CHECK(reduce(*comm, rank) == 0);
    CHECK(plait_comm_count(*comm, 0, &count) == PLAIT_OK && strcmp(count.algorithm, "mine") == 0);
    CHECK(count.operations == 2);
    /* Comms made of this one have them, too; here there is another number of ranks. */
    CHECK(plait_comm_split(*comm, rank == 0, 0, NULL, &half) == PLAIT_OK);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float one = 1, sum;
    call.algorithm = "mine";
    CHECK(plait_allreduce(half, &one, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_CONFIG);
    CHECK(says("does not fit") && says("; its plans are for 3 ranks"));
    plait_comm_destroy(half);
    return 0;
}

static void write_both(void)
{
    write_plans("mine.plan", PLAIT_ALLREDUCE, "ring", 0, "");
    write_plans("up.plan", PLAIT_REDUCE, "binomial", 1, "");
    folder_join("both.plan", "mine", "up");
}

static void every_comm_has_the_plans_of_the_setting(void **state)
{
    const struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = use };

    write_both();
    setenv("PLAIT_PLANS", in_folder("both.plan"), 1);
    assert_int_equal(ranks_run(&r), 0);
    unsetenv("PLAIT_PLANS");
}

static void a_comm_has_the_plans_of_its_options(void **state)
{
    struct plait_alg_set *set;
    struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = use };

    write_both();
    assert_int_equal(plait_alg_set_load(in_folder("both.plan"), &set), PLAIT_OK);
    r.options.algorithms = plait_alg_set_list(set);
    assert_int_equal(ranks_run(&r), 0);
    plait_alg_set_destroy(set);
}

/* ---- The library's choice ------------------------------------------------------------------------------------- */

#define MANY 8

/* Chosen, run and counted; with blocks of different sizes as well. */
static int gather(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_shape shape = { .coll = PLAIT_ALLGATHER };
    int32_t *in = malloc(COUNT * sizeof *in), *out = malloc(MANY * COUNT * sizeof *out);
    size_t sizes[MANY];
    struct plait_comm_count count = { 0 };
    struct plait_choice choice;

    CHECK(in != NULL && out != NULL);
    for (int vform = 0; vform < 2; vform++) {
        shape.vform = vform;
        CHECK(plait_comm_choose(*comm, &shape, COUNT, PLAIT_INT32, PLAIT_SUM, NULL, &choice) == PLAIT_OK);
        CHECK(strcmp(choice.algorithm, "by-host") == 0 && strcmp(choice.candidate[0].algorithm, "by-host") == 0);
    }
    for (int i = 0; i < COUNT; i++)
        in[i] = (int32_t)rank * COUNT + i;
    for (uint32_t r = 0; r < MANY; r++)
        sizes[r] = r % 3 == 1 ? 7 : COUNT;
    CHECK(plait_allgather(*comm, in, out, COUNT, PLAIT_INT32, NULL) == PLAIT_OK);
    for (int i = 0; i < MANY * COUNT; i++)
        CHECK(out[i] == i);
    CHECK(plait_allgatherv(*comm, in, out, sizes, NULL, PLAIT_INT32, NULL) == PLAIT_OK);
    for (size_t r = 0, at = 0; r < MANY; at += sizes[r++])
        CHECK(out[at] == (int32_t)r * COUNT && out[at + sizes[r] - 1] == (int32_t)(r * COUNT + sizes[r] - 1));
    for (size_t i = 0; strcmp(count.algorithm, "by-host") != 0; i++)
        CHECK(plait_comm_count(*comm, i, &count) == PLAIT_OK);
    CHECK(count.operations == 2);
    free(in);
    free(out);
    return 0;
}

/* By the setting, and by the comm's options. */
static void all_ranks_choose_a_users_plan_by_themselves(void **state)
{
    static const uint32_t crosswise[] = { 0, 1, 1, 0, 1, 0, 0, 1 }, by_host[] = { 0, 3, 5, 6, 1, 2, 4, 7 };
    struct ranks r = { .nprocess = 2, .nthread = 4, .body = gather, .options.node = crosswise };
    struct plait_alg_set *set;

    plans_write_ring(in_folder("by-host.plan"), by_host, MANY);
    setenv("PLAIT_PLANS", in_folder("by-host.plan"), 1);
    assert_int_equal(ranks_run(&r), 0);
    unsetenv("PLAIT_PLANS");
    assert_int_equal(plait_alg_set_load(in_folder("by-host.plan"), &set), PLAIT_OK);
    r.options.algorithms = plait_alg_set_list(set);
    assert_int_equal(ranks_run(&r), 0);
    plait_alg_set_destroy(set);
}

/* ---- Other files on one rank ---------------------------------------------------------------------------------- */

static int create_with_setting(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    setenv("PLAIT_PLANS", in_folder(rank == 1 ? arg : "mine.plan"), 1);
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_MISMATCH);
    CHECK(says("the hash of algorithms (give all ranks the same PLAIT_PLANS and") && says(" on rank 1"));
    return 0;
}

static int create_with_option(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    struct plait_alg_set *set;

    CHECK(plait_alg_set_load(in_folder(rank == 1 ? arg : "mine.plan"), &set) == PLAIT_OK);
    o.algorithms = plait_alg_set_list(set);
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_MISMATCH);
    CHECK(says("comm creation: the hash of algorithms (give all ranks") && says(" on rank 1"));
    plait_alg_set_destroy(set);
    return 0;
}

static int create_with_a_wrong_file(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    setenv("PLAIT_PLANS", in_folder(rank == 1 ? "wrong.plan" : "mine.plan"), 1);
    CHECK(plait_comm_create(&o, comm) != PLAIT_OK);
    CHECK(says("PLAIT_PLANS: ") && says("wrong.plan:1: the version is 3, but must be 1"));
    return 0;
}

/* The same name, other plans. */
static void ranks_with_other_plans_are_told(void **state)
{
    static char other[] = "other.plan";
    struct ranks r = { .nprocess = NRANK, .nthread = 1, .processes = true, .no_comm = true, .arg = other };

    write_plans("mine.plan", PLAIT_ALLREDUCE, "ring", 0, "");
    write_plans("other.plan", PLAIT_ALLREDUCE, "two-shot", 0, "algorithm mine\n");
    r.body = create_with_setting;
    assert_int_equal(ranks_run(&r), 0);
    r.body = create_with_option;
    assert_int_equal(ranks_run(&r), 0);
}

static void a_wrong_file_of_one_rank_is_told_to_all(void **state)
{
    const struct ranks r = {
        .nprocess = NRANK, .nthread = 1, .processes = true, .no_comm = true, .body = create_with_a_wrong_file
    };

    write_plans("mine.plan", PLAIT_ALLREDUCE, "ring", 0, "");
    folder_write("wrong.plan", "plan 3", 6);
    assert_int_equal(ranks_run(&r), 0);
}

static int empty_folder(void **state)
{
    char command[64];

    snprintf(command, sizeof command, "rm -f %s/*", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_comm_has_the_plans_of_the_setting, empty_folder),
        cmocka_unit_test_teardown(a_comm_has_the_plans_of_its_options, empty_folder),
        cmocka_unit_test_teardown(all_ranks_choose_a_users_plan_by_themselves, empty_folder),
        cmocka_unit_test_teardown(ranks_with_other_plans_are_told, empty_folder),
        cmocka_unit_test_teardown(a_wrong_file_of_one_rank_is_told_to_all, empty_folder),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
