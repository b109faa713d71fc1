/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawn data, the tree, the order of an epoch, batches by threads and ranks, images in the ranks' memory. */
#include "train_tree.h"
#include "unit.h"
#include "until.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Drawn data and the tree ---- */

static uint64_t hash_of_files(const struct dataset *d)
{
    uint64_t hash = 14695981039346656037u;

    for (uint64_t i = 0; i < dataset_count(d); i++) {
        FILE *f = fopen(dataset_path(d, i), "rb");
        assert_non_null(f);
        for (int c; (c = getc(f)) != EOF;)
            hash = (hash ^ (unsigned)c) * 1099511628211u;
        fclose(f);
    }
    return hash;
}

static void drawn_data_follow_from_the_seed(void **state)
{
    assert_int_equal(make_data(path_of("same"), CLASSES, TRAIN, VAL, 24, 1), 0);
    assert_int_equal(make_data(path_of("other"), CLASSES, TRAIN, VAL, 24, 2), 0);
    struct dataset *same = open_half(path_of("same"), "train"), *other = open_half(path_of("other"), "train");
    assert_true(hash_of_files(same) == hash_of_files(train));
    assert_true(hash_of_files(other) != hash_of_files(train));
    assert_true(hash_of_files(val) != hash_of_files(train));
    assert_true(dataset_hash(same) == dataset_hash(train) && dataset_hash(val) != dataset_hash(train));
    dataset_close(same);
    dataset_close(other);
}

static void impossible_drawn_data_are_refused(void **state)
{
    assert_int_equal(make_data(path_of("b"), 49, 100, 100, 32, 1), 1);
    assert_int_equal(make_data(path_of("b"), 10, 9, 100, 32, 1), 1);
    assert_int_equal(make_data(path_of("b"), 10, 100, 100, 8, 1), 1);
    assert_int_equal(make_data("/proc/nothing", 2, 2, 2, 32, 1), 1);
}

static void classes_and_files_are_in_the_order_of_their_names(void **state)
{
    assert_int_equal(dataset_count(train), TRAIN);
    assert_int_equal(dataset_nclass(train), CLASSES);
    for (uint32_t k = 1; k < CLASSES; k++)
        assert_true(strcmp(dataset_class(train, k - 1), dataset_class(train, k)) < 0);
    for (uint64_t i = 0; i < TRAIN; i++) {
        assert_true(i == 0 || strcmp(dataset_path(train, i - 1), dataset_path(train, i)) < 0);
        assert_non_null(strstr(dataset_path(train, i), dataset_class(train, dataset_label(train, i))));
    }
    assert_true(dataset_same_classes(train, val));
}

/* Files by other names, hidden ones, links, folders in a class. */
static void a_tree_holds_what_is_named_as_an_image(void **state)
{
    for (const char *const *p = (const char *const[]){ "t", "t/train", "t/train/b", "t/train/b/inner", "t/train/a",
                                                       "t/train/.hidden", NULL };
         *p != NULL; p++)
        assert_int_equal(mkdir(path_of(*p), 0777), 0);
    write_file("t/train/b/2.JPEG", "", 0);
    write_file("t/train/b/1.txt", "", 0);
    write_file("t/train/b/.3.jpg", "", 0);
    write_file("t/train/b/inner/0.jpg", "", 0);
    write_file("t/train/b/inner/1.Png", "", 0);
    write_file("t/train/loose.jpg", "", 0);
    assert_int_equal(symlink("../b/2.JPEG", path_of("t/train/a/4.jpg")), 0);
    struct dataset *d = open_half(path_of("t"), "train");
    assert_int_equal(dataset_count(d), 4);
    assert_int_equal(dataset_nclass(d), 2);
    assert_string_equal(dataset_path(d, 3), path_of("t/train/b/inner/1.Png"));
    assert_string_equal(dataset_path(d, 0), path_of("t/train/a/4.jpg"));
    assert_string_equal(dataset_path(d, 1), path_of("t/train/b/2.JPEG"));
    assert_string_equal(dataset_path(d, 2), path_of("t/train/b/inner/0.jpg"));
    assert_false(dataset_same_classes(train, d));
    dataset_close(d);
    assert_int_equal(unlink(path_of("t/train/a/4.jpg")), 0);
    assert_null(open_half(path_of("t"), "train"));         /* an empty class */
    assert_null(open_half(path_of("t"), "val"));           /* nothing there */
    assert_null(open_half(path_of("t/train"), "b/inner")); /* no folder there */
}

/* Each would be listed again inside itself, until the path is too long. */
static void a_link_to_a_folder_that_it_lies_in_is_left_out(void **state)
{
    static const char *const links[][2] = {
        { ".", "l/train/a/again" },
        { ".", "l/train/a/twice" },
        { "..", "l/train/b/inner/up" },
        { ".", "l/train/whole" },
        { "../../a", "l/train/b/inner/other" },
        { "a", "l/train/same class" },
        { "../../../train", "l/train/b/inner/train" },
    };

    for (const char *const *p =
             (const char *const[]){ "l", "l/train", "l/train/a", "l/train/b", "l/train/b/inner", NULL };
         *p != NULL; p++)
        assert_int_equal(mkdir(path_of(*p), 0777), 0);
    write_file("l/train/a/1.jpg", "", 0);
    write_file("l/train/b/2.jpg", "", 0);
    write_file("l/train/b/inner/3.jpg", "", 0);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        assert_int_equal(symlink(links[i][0], path_of(links[i][1])), 0);
    struct dataset *d = open_half(path_of("l"), "train");
    assert_int_equal(dataset_nclass(d), 3); /* a link to another folder is taken as what it leads to */
    assert_int_equal(dataset_count(d), 5);
    assert_string_equal(dataset_path(d, 2), path_of("l/train/b/inner/3.jpg"));
    assert_string_equal(dataset_path(d, 3), path_of("l/train/b/inner/other/1.jpg"));
    assert_string_equal(dataset_path(d, 4), path_of("l/train/same class/1.jpg"));
    dataset_close(d);
}

static void a_link_to_nothing_is_refused_by_name(void **state)
{
    const char *why;

    for (const char *const *p = (const char *const[]){ "n", "n/train", "n/train/a", NULL }; *p != NULL; p++)
        assert_int_equal(mkdir(path_of(*p), 0777), 0);
    write_file("n/train/a/1.jpg", "", 0);
    assert_int_equal(symlink("nowhere", path_of("n/train/a/2.jpg")), 0);
    char *const folder = strdup(path_of("n"));
    assert_null(dataset_open(folder, "train", &why));
    free(folder);
    assert_non_null(strstr(why, "/n/train/a/2.jpg: No such file or directory; repair the link or remove it"));
}

/* ---- The order of an epoch ---- */

static void an_epoch_has_every_sample_once(void **state)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 7, 12, 16, 17, 61, 99, 100, 101 };

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct dataset *d = files_of(sizes[k]);
        for (uint32_t epoch = 0; epoch < 20; epoch++) {
            bool seen[128] = { false };
            for (uint64_t i = 0; i < sizes[k]; i++) {
                const uint64_t sample = dataset_at(d, true, 3, epoch, i);
                assert_true(sample < sizes[k] && !seen[sample]);
                seen[sample] = true;
                assert_int_equal(dataset_at(d, false, 3, epoch, i), i);
            }
        }
        dataset_close(d);
    }
}

/* Every sample comes to every place, and after every other sample, about equally often (6 standard deviations). */
static void orders_are_evenly_distributed(void **state)
{
    enum { N = 12, EPOCHS = 12000 };
    static unsigned at[N][N], after[N][N];
    struct dataset *d = files_of(N);

    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t sample = dataset_at(d, true, 9, epoch, i);
            at[i][sample]++;
            after[dataset_at(d, true, 9, epoch, (i + 1) % N)][sample]++;
        }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            assert_in_range(at[i][k], 1000 - 182, 1000 + 182);
            assert_true(i == k || (after[i][k] > 1091 - 190 && after[i][k] < 1091 + 190));
        }
    dataset_close(d);
}

/* ---- Batches ---- */

static struct epoch expected, got;

static void take_all(const struct loader_options *o, uint32_t epoch, struct epoch *out)
{
    struct loader *l = loader_create(o);

    assert_int_equal(take(l, o, epoch, 0, out), loader_steps(l) * o->batch / o->nrank);
    loader_destroy(l);
}

static void batches_do_not_depend_on_ranks_threads_queue_or_micro_batches(void **state)
{
    struct loader_options o = options_of(train, 0, 1);

    take_all(&o, 5, &expected);
    for (uint64_t i = 0; i < STEPS * BATCH; i++)
        assert_int_equal(expected.labels[i], dataset_label(train, dataset_at(train, true, 11, 5, i)));
    for (uint32_t k = 0; k < 6; k++) {
        const uint32_t nrank = 1u << k % 3;
        memset(&got, 0, sizeof got);
        for (uint32_t rank = 0; rank < nrank; rank++) {
            o = options_of(train, rank, nrank);
            o.threads = 1 + k;
            o.queue = k;
            o.micro = k < 3 ? 1 : BATCH / nrank;
            take_all(&o, 5, &got);
        }
        assert_memory_equal(got.images, expected.images, STEPS * BATCH * sizeof *got.images);
        assert_memory_equal(got.labels, expected.labels, STEPS * BATCH * sizeof *got.labels);
    }
}

/* Though all else is the same. */
static void an_image_looks_otherwise_in_each_epoch(void **state)
{
    struct loader_options o = options_of(train, 0, 1);
    uint32_t alike = 0;

    o.shuffle = false;
    take_all(&o, 5, &expected);
    take_all(&o, 6, &got);
    for (uint64_t i = 0; i < STEPS * BATCH; i++)
        alike += memcmp(got.images[i], expected.images[i], sizeof got.images[i]) == 0;
    assert_memory_equal(got.labels, expected.labels, STEPS * BATCH * sizeof *got.labels);
    assert_true(alike <= 1);
}

static void an_epoch_begun_at_a_step_goes_on_as_the_whole_one(void **state)
{
    const struct loader_options o = options_of(train, 0, 1);
    struct loader *l = loader_create(&o);
    struct images m;

    take(l, &o, 3, 0, &expected);
    for (uint64_t step = 1; step <= STEPS; step++) {
        loader_begin(l, 2, 0); /* given up after a batch */
        assert_true(loader_next(l, &m));
        memcpy(&got, &expected, sizeof got);
        memset(got.images[step * BATCH], 0, (STEPS - step) * BATCH * sizeof *got.images);
        assert_int_equal(take(l, &o, 3, step, &got), (STEPS - step) * BATCH);
        assert_memory_equal(got.images, expected.images, STEPS * BATCH * sizeof *got.images);
    }
    assert_true(loader_figures(l).waited > 0);
    loader_destroy(l);
}

/* Evaluation: every sample once; labels -1 fill the last batch. */
static void a_whole_epoch_has_the_rest_too(void **state)
{
    for (uint32_t nrank = 1; nrank <= 4; nrank *= 2) {
        memset(&got, 7, sizeof got);
        for (uint32_t rank = 0; rank < nrank; rank++) {
            struct loader_options o = options_of(val, rank, nrank);
            o.image.transform = TRANSFORM_EVAL;
            o.shuffle = false;
            o.whole = true;
            take_all(&o, 0, &got);
        }
        for (uint64_t i = 0; i < 2 * BATCH; i++)
            assert_int_equal(got.labels[i], i < VAL ? (int)dataset_label(val, i) : -1);
    }
}

static void the_transform_changes_from_the_next_epoch_on(void **state)
{
    struct loader_options o = options_of(train, 0, 1);
    struct loader *l = loader_create(&o);

    take(l, &o, 0, 0, &got);
    loader_set_transform(l, TRANSFORM_EVAL, false);
    take(l, &o, 0, 0, &got);
    o.image.transform = TRANSFORM_EVAL;
    o.shuffle = false;
    take_all(&o, 0, &expected);
    assert_memory_equal(got.images, expected.images, STEPS * BATCH * sizeof *got.images);
    loader_destroy(l);
}

/* Files that are broken are counted when they are decoded. A thread that ran too far ahead would have 20 ms in all to be seen. */
static void no_more_is_decoded_ahead_than_the_queue_holds(void **state)
{
    struct dataset *d = files_of(40);
    struct loader_options o = options_of(d, 0, 1);
    struct images m;

    o.whole = true;
    struct loader *l = loader_create(&o);
    loader_begin(l, 0, 0);
    for (uint64_t given = 1; given <= 10; given++) {
        assert_true(loader_next(l, &m));
        while (loader_broken(l, NULL) < (given + o.queue) * o.micro)
            usleep(100);
        usleep(2000);
        assert_int_equal(loader_broken(l, NULL), (given + o.queue) * o.micro);
    }
    loader_destroy(l);
    dataset_close(d);
}

/* Memory that a test's allocator returned, to be freed after the loader. */
struct given {
    char *blocks[16];
    size_t bytes[16], n;
};

static void *give(void *context, size_t bytes)
{
    struct given *g = context;

    assert_in_range(g->n, 0, 15);
    g->bytes[g->n] = bytes;
    g->blocks[g->n] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return g->blocks[g->n++];
}

/* Slots are the allocator's, images and labels in turn: the same epochs; the loader frees none. */
static void images_and_labels_lie_in_the_memory_of_an_allocator(void **state)
{
    struct loader_options o = options_of(train, 0, 1);
    struct given g = { .n = 0 };
    struct images m;

    take_all(&o, 4, &expected);
    o.alloc = give;
    o.context = &g;
    for (int bytes = 0; bytes < 2; bytes++) {
        o.image.bytes = bytes == 1;
        g.n = 0;
        struct loader *l = loader_create(&o);
        assert_int_equal(g.n, 2 * (o.queue + 1));
        loader_begin(l, 4, 0);
        for (uint64_t i = 0; loader_next(l, &m); i += m.n) {
            size_t slot = 0;
            while (slot < g.n && m.images != g.blocks[slot])
                slot += 2;
            assert_in_range(slot, 0, g.n - 2);
            assert_ptr_equal(m.labels, g.blocks[slot + 1]);
            assert_int_equal(g.bytes[slot], o.micro * image_size(&o.image));
            assert_int_equal(g.bytes[slot + 1], o.micro * sizeof *m.labels);
            assert_memory_equal(m.labels, expected.labels + i, m.n * sizeof *m.labels);
            if (!bytes)
                assert_memory_equal(m.images, expected.images[i], m.n * sizeof expected.images[0]);
        }
        assert_int_equal(loader_memory(l), g.n / 2 * (g.bytes[0] + g.bytes[1]));
        loader_destroy(l);
        for (size_t i = 0; i < g.n; i++)
            free(g.blocks[i]);
    }
}

/* In bytes: of the floats' images, of every image. */
static void batches_of_bytes_are_those_of_floats_rounded(void **state)
{
    struct loader_options o = options_of(train, 0, 1);
    struct images m;

    for (int c = 0; c < 3; c++) {
        o.image.mean[c] = 0;
        o.image.deviation[c] = 1 / 255.0;
    }
    take_all(&o, 1, &expected);
    o.image.bytes = true;
    struct loader *l = loader_create(&o);
    loader_begin(l, 1, 0);
    for (uint64_t i = 0; loader_next(l, &m); i += m.n) {
        const uint8_t *values = m.images;
        assert_memory_equal(m.labels, expected.labels + i, m.n * sizeof *m.labels);
        for (size_t k = 0; k < (size_t)m.n * IMAGE; k++)
            assert_true(fabsf(values[k] - expected.images[i + k / IMAGE][k % IMAGE]) < 0.501F);
    }
    loader_destroy(l);
}

static bool is_late_at_once(struct loader *l)
{
    const uint64_t late = loader_figures(l).late;
    struct images m;

    loader_begin(l, 0, 0);
    return loader_next(l, &m) && loader_figures(l).late == late + 1;
}

/* Files that are broken are counted, so that the test sees when the one thread has filled all slots. */
static void figures_say_who_waited(void **state)
{
    struct dataset *d = files_of(40);
    struct loader_options o = options_of(d, 0, 1);
    struct images m;

    o.whole = true;
    o.threads = 1;
    struct loader *l = loader_create(&o);
    loader_begin(l, 0, 0);
    assert_true(loader_next(l, &m));
    const struct loader_figures first = loader_figures(l);
    assert_true(first.given == 1 && first.late <= 1);
    assert_true(comes_true(loader_broken(l, NULL) == (1 + o.queue) * o.micro));
    const double idle = loader_figures(l).idle;
    assert_true(comes_true(loader_figures(l).idle > idle)); /* a wait counts while it lasts: it was 110 % of a step */
    for (uint64_t given = 1; given < 10; given++) {
        assert_true(comes_true(loader_broken(l, NULL) == (given + o.queue) * o.micro));
        assert_true(loader_next(l, &m));
    }
    const struct loader_figures f = loader_figures(l);
    assert_true(f.given == 10 && f.late == first.late);
    assert_true(comes_true(loader_figures(l).idle > 0));
    loader_destroy(l);
    dataset_close(d);
    l = loader_create(&(struct loader_options){
        .dataset = train, .image = image_defaults, .batch = 8, .micro = 8, .nrank = 1, .threads = 1 });
    assert_true(comes_true(is_late_at_once(l)));
    assert_true(loader_figures(l).waited > 0);
    loader_destroy(l);
}

/* ---- Broken files ---- */

static void a_broken_file_is_counted_once_and_replaced_by_the_next_position(void **state)
{
    struct dataset *d = break_some("broken");
    struct loader_options o = options_of(d, 0, 1);
    struct loader *l = loader_create(&o);

    for (uint32_t epoch = 0; epoch < 6; epoch++) {
        take(l, &o, epoch, 0, &got);
        for (uint64_t i = 0; i < STEPS * BATCH; i++) {
            uint64_t k = i;
            while (is_one_of_the_broken(dataset_at(d, true, 11, epoch, k % TRAIN)))
                k++;
            assert_int_equal(got.labels[i], dataset_label(d, dataset_at(d, true, 11, epoch, k % TRAIN)));
        }
    }
    assert_int_equal(loader_broken(l, NULL), BROKEN);
    loader_destroy(l);
    o.whole = true; /* evaluation counts no sample twice */
    take_all(&o, 0, &got);
    for (uint64_t i = 0; i < TRAIN; i++)
        assert_true((got.labels[i] == -1) == is_one_of_the_broken(dataset_at(d, true, 11, 0, i)));
    dataset_close(d);
}

/* ---- Images in memory ---- */

static void batches_from_memory_are_those_from_files(void **state)
{
    static const struct {
        uint32_t nrank, ngroup;
        uint64_t segment;
    } cases[] = {
        { 1, 1, 1 << 20 }, { 2, 1, 1 << 20 }, { 2, 1, 500 },     { 2, 2, 1 << 20 },
        { 4, 1, 1000 },    { 4, 2, 1 },       { 4, 4, 1 << 20 }, { 4, 3, 1 << 20 } /* groups of 2, 1 and 1 */
    };
    struct dataset *d = break_some("broken again");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int broken = 0; broken < 2; broken++) {
            struct in_memory c = { broken ? d : train, cases[i].ngroup, cases[i].segment, false };
            store_segment = cases[i].segment;
            const struct ranks r = { .nprocess = i % 2 ? cases[i].nrank : 1,
                                     .nthread = i % 2 ? 1 : cases[i].nrank,
                                     .body = load_from_memory,
                                     .arg = &c };
            assert_int_equal(ranks_run(&r), 0);
        }
    dataset_close(d);
}

/* Rank 0 waits for what it has begun to bring, rank 1 does not need it any more. Nothing fails. */
static int give_up(struct plait_comm **comm, uint32_t rank, void *argument)
{
    struct store *store = store_create(*comm, train, 1);
    const struct loader_options o = options_of(train, rank, 2);

    store_shuffle(store, true, o.seed, 4, BATCH);
    if (rank == 0)
        CHECK(compare_epoch(store, o, 4, 0, rank) == 0);
    store_destroy(store);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

static void a_rank_may_give_up_what_is_being_brought(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = give_up };

    store_segment = 100;
    for (int i = 0; i < 5; i++)
        assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_data_follow_from_the_seed),
        cmocka_unit_test(impossible_drawn_data_are_refused),
        cmocka_unit_test(classes_and_files_are_in_the_order_of_their_names),
        cmocka_unit_test(a_tree_holds_what_is_named_as_an_image),
        cmocka_unit_test(a_link_to_a_folder_that_it_lies_in_is_left_out),
        cmocka_unit_test(a_link_to_nothing_is_refused_by_name),
        cmocka_unit_test(an_epoch_has_every_sample_once),
        cmocka_unit_test(orders_are_evenly_distributed),
        cmocka_unit_test(batches_do_not_depend_on_ranks_threads_queue_or_micro_batches),
        cmocka_unit_test(an_image_looks_otherwise_in_each_epoch),
        cmocka_unit_test(an_epoch_begun_at_a_step_goes_on_as_the_whole_one),
        cmocka_unit_test(a_whole_epoch_has_the_rest_too),
        cmocka_unit_test(no_more_is_decoded_ahead_than_the_queue_holds),
        cmocka_unit_test(the_transform_changes_from_the_next_epoch_on),
        cmocka_unit_test(images_and_labels_lie_in_the_memory_of_an_allocator),
        cmocka_unit_test(batches_of_bytes_are_those_of_floats_rounded),
        cmocka_unit_test(figures_say_who_waited),
        cmocka_unit_test(a_broken_file_is_counted_once_and_replaced_by_the_next_position),
        cmocka_unit_test(batches_from_memory_are_those_from_files),
        cmocka_unit_test(a_rank_may_give_up_what_is_being_brought),
    };
    return cmocka_run_group_tests_name("train_data", tests, make_folder, remove_folder);
}
