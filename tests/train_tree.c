/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_tree.h"

#include "folder.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dataset *train, *val;

const char *path_of(const char *name)
{
    return in_folder(name);
}

void write_file(const char *name, const void *data, size_t n)
{
    folder_write(name, data, n);
}

struct dataset *open_half(const char *in, const char *half)
{
    const char *why;
    struct dataset *d = dataset_open(in, half, &why);

    assert_true((d == NULL) == (why != NULL));
    if (why != NULL)
        fprintf(stderr, "%s\n", why);
    return d;
}

int make_folder(void **state)
{
    return folder_make(state) != 0 || make_data(path_of("a"), CLASSES, TRAIN, VAL, 24, 1) != 0 ||
           (train = open_half(path_of("a"), "train")) == NULL || (val = open_half(path_of("a"), "val")) == NULL;
}

int remove_folder(void **state)
{
    dataset_close(train);
    dataset_close(val);
    return folder_remove(state);
}

struct dataset *files_of(uint32_t n)
{
    char name[64];

    snprintf(name, sizeof name, "n%u", n);
    mkdir(path_of(name), 0777);
    snprintf(name, sizeof name, "n%u/c", n);
    mkdir(path_of(name), 0777);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "n%u/c/%u.jpg", n, i);
        write_file(name, "", 0);
    }
    snprintf(name, sizeof name, "n%u", n);
    return open_half(folder, name);
}

static const uint64_t which[BROKEN] = { 3, 4, 20, 60, 33 };

struct dataset *break_some(const char *name)
{
    assert_int_equal(make_data(path_of(name), CLASSES, TRAIN, VAL, 24, 1), 0);
    struct dataset *d = open_half(path_of(name), "train");
    assert_int_equal(truncate(dataset_path(d, which[0]), 0), 0);
    FILE *f = fopen(dataset_path(d, which[1]), "wb");
    fputs("this is not an image", f);
    fclose(f);
    assert_int_equal(truncate(dataset_path(d, which[2]), 400), 0);
    assert_int_equal(unlink(dataset_path(d, which[3])), 0);
    assert_int_equal(mkdir(dataset_path(d, which[3]), 0777), 0);
    assert_int_equal(unlink(dataset_path(d, which[4])), 0);
    assert_int_equal(mkfifo(dataset_path(d, which[4]), 0666), 0);
    return d;
}

bool is_one_of_the_broken(uint64_t sample)
{
    bool found = false;

    for (size_t k = 0; k < BROKEN; k++)
        found |= sample == which[k];
    return found;
}

struct loader_options options_of(const struct dataset *d, uint32_t rank, uint32_t nrank)
{
    struct loader_options o = { .dataset = d,
                                .image = image_defaults,
                                .batch = BATCH,
                                .micro = 2,
                                .rank = rank,
                                .nrank = nrank,
                                .threads = 2,
                                .queue = 2,
                                .shuffle = true,
                                .seed = 11 };

    o.image.pixels = SIDE;
    o.image.jitter = 0.2;
    return o;
}

uint32_t take(struct loader *l, const struct loader_options *o, uint32_t epoch, uint64_t step, struct epoch *out)
{
    struct images m;
    uint32_t n = 0;

    loader_begin(l, epoch, step);
    while (loader_next(l, &m))
        for (uint32_t i = 0; i < m.n; i++, n++) {
            const uint32_t part = o->batch / o->nrank;
            const uint64_t position = (step + n / part) * o->batch + o->rank * part + n % part;
            memcpy(out->images[position], (const float *)m.images + (size_t)i * IMAGE, sizeof out->images[0]);
            out->labels[position] = m.labels[i];
        }
    return n;
}

#define EQUAL(a, b) \
    (memcmp((a).images, (b).images, sizeof(a).images) == 0 && memcmp((a).labels, (b).labels, sizeof(a).labels) == 0)

int compare_epoch(struct store *store, struct loader_options o, uint32_t epoch, uint64_t step, uint32_t rank)
{
    struct epoch *files = calloc(2, sizeof *files), *memory = files + 1;

    for (int k = 0; k < 2; k++) {
        o.store = k == 0 ? NULL : store;
        struct loader *l = loader_create(&o);
        take(l, &o, epoch, step, files + k);
        loader_destroy(l);
    }
    CHECK(EQUAL(*files, *memory));
    free(files);
    return 0;
}

int load_from_memory(struct plait_comm **comm, uint32_t rank, void *argument)
{
    const struct in_memory *c = argument;
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct store *store = store_create(*comm, c->dataset, c->ngroup);
    struct loader_options o = options_of(c->dataset, rank, nrank);

    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        store_shuffle(store, true, o.seed, epoch, BATCH); /* known already, but for the first */
        store_wait(store, true, o.seed, epoch, BATCH);
        if (epoch < 2) /* while this one is used */
            store_shuffle(store, true, o.seed, epoch + 1, BATCH);
        CHECK(compare_epoch(store, o, epoch, epoch == 1 ? 2 : 0, rank) == 0);
        if (c->dies && epoch == 0 && rank == nrank - 1)
            _exit(0);
    }
    o.whole = true;
    o.shuffle = false; /* not announced */
    CHECK(compare_epoch(store, o, 0, 0, rank) == 0);
    const struct store_figures f = store_figures(store);
    CHECK(f.held > 0);
    const bool alone = c->ngroup == 3 ? rank >= 2 : c->ngroup == nrank; /* in its group */
    CHECK(c->dies || (f.brought == 0) == alone);
    CHECK(c->dies || alone || c->segment > 1000 || f.segments > 8);
    store_destroy(store);
    return 0;
}
