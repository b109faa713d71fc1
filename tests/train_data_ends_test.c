/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends a program that loads images, and what a lost rank does not end. */
#include "child.h"
#include "train_tree.h"
#include "unit.h"

#include <string.h>
#include <unistd.h>

static const struct loader_options *loading;

static void load(void)
{
    struct images m;
    struct loader *l = loader_create(loading);

    loader_begin(l, 0, 0);
    while (loader_next(l, &m))
        ;
}

/* What a child that loads says; its exit status must be 1. */
static void load_in_child(const struct loader_options *o, char *said, size_t room)
{
    loading = o;
    assert_int_equal(child_run(load, said, room), 1);
}

static void a_broken_file_ends_the_program_if_asked(void **state)
{
    struct dataset *d = break_some("broken");
    struct loader_options o = options_of(d, 0, 1);
    char said[4096];

    o.broken_fatal = true;
    o.threads = 1;
    load_in_child(&o, said, sizeof said);
    assert_non_null(strstr(said, "/broken/train/"));
    assert_non_null(strstr(said, "repair or remove it"));
    dataset_close(d);
}

/* Of the files that are listed one is gone, or its whole class, or it cannot be opened: other images do not stand in. */
static void a_file_that_the_system_does_not_give_ends_the_program_by_name(void **state)
{
    static const struct {
        const char *tree, *says;
    } cases[] = { { "gone", ": No such file or directory; it could be found when" },
                  { "away", ": No such file or directory; it could be found when" },
                  { "loop", ": Too many levels of symbolic links; it could be found when" } };
    char said[4096], from[512], to[600], kept[512];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int whole = 0; whole < 2; whole++) {
            assert_int_equal(make_data(path_of(cases[i].tree), CLASSES, TRAIN, VAL, 24, 1), 0);
            struct dataset *d = open_half(path_of(cases[i].tree), "train");
            struct loader_options o = options_of(d, 0, 1);
            o.whole = whole;
            snprintf(from, sizeof from, "%s", dataset_path(d, 17));
            snprintf(kept, sizeof kept, "%s", from);
            if (i == 1)
                *strrchr(from, '/') = '\0';
            snprintf(to, sizeof to, "%s.away", from);
            assert_int_equal(rename(from, to), 0);
            if (i == 2)
                assert_int_equal(symlink(from, from), 0);
            load_in_child(&o, said, sizeof said);
            assert_non_null(strstr(said, cases[i].says));
            assert_non_null(strstr(said, i == 1 ? from : kept));
            unlink(from);
            assert_int_equal(rename(to, from), 0);
            dataset_close(d);
        }
}

static void where_all_files_are_broken_the_program_ends(void **state)
{
    struct dataset *d = files_of(17);
    struct loader_options o = options_of(d, 0, 1);
    char said[4096];

    load_in_child(&o, said, sizeof said);
    assert_non_null(strstr(said, "the file is empty"));
    assert_non_null(strstr(said, "all 17 images are broken"));
    dataset_close(d);
}

static void what_a_loader_cannot_do_is_refused(void **state)
{
    struct loader_options o = options_of(train, 0, 1);
    char said[4096];

    o.threads = 0;
    load_in_child(&o, said, sizeof said);
    assert_non_null(strstr(said, "0 threads cannot decode"));
    o.threads = 1;
    o.micro = 3;
    load_in_child(&o, said, sizeof said);
    assert_non_null(strstr(said, "a batch of 8 images must be a multiple of 3 (micro-batch)"));
    o.micro = 1;
    o.batch = TRAIN + 1;
    load_in_child(&o, said, sizeof said);
    assert_non_null(strstr(said, "more than all 61 images"));
}

/* The other ranks go on with the same batches. */
static void where_a_rank_is_lost_files_are_read(void **state)
{
    struct in_memory c = { train, 1, 1000, true };
    const struct ranks r = { .nprocess = 4, .nthread = 1, .body = load_from_memory, .arg = &c, .processes = true };

    store_segment = c.segment;
    assert_int_equal(ranks_run(&r), 0);
}

static int see_other_files(struct plait_comm **comm, uint32_t rank, void *argument)
{
    return dataset_same_on_all(rank == 1 ? val : train, *comm) || !dataset_same_on_all(train, *comm);
}

static void ranks_that_see_different_files_are_told(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = see_other_files, .processes = true };

    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_file_ends_the_program_if_asked),
        cmocka_unit_test(a_file_that_the_system_does_not_give_ends_the_program_by_name),
        cmocka_unit_test(where_all_files_are_broken_the_program_ends),
        cmocka_unit_test(what_a_loader_cannot_do_is_refused),
        cmocka_unit_test(where_a_rank_is_lost_files_are_read),
        cmocka_unit_test(ranks_that_see_different_files_are_told),
    };
    return cmocka_run_group_tests_name("train_data_ends", tests, make_folder, remove_folder);
}
