/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of plait-train's data share: a drawn tree in a folder of its own, one with broken files, epochs as loaded. */
#ifndef PLAIT_TESTS_TRAIN_TREE_H
#define PLAIT_TESTS_TRAIN_TREE_H

#include "../train/data.h"
#include "ranks.h"

enum {
    CLASSES = 4,
    TRAIN = 61,
    VAL = 10,
    BROKEN = 5,
    SIDE = 16,
    IMAGE = SIDE * SIDE * 3,
    BATCH = 8,
    STEPS = TRAIN / BATCH
};

extern struct dataset *train, *val;

/* cmocka's, of a group: the folder with the tree "a". */
int make_folder(void **state);
int remove_folder(void **state);

/* Of a name in the folder; until the next call. */
const char *path_of(const char *name);
void write_file(const char *name, const void *data, size_t n);

/* dataset_open(); why not goes to stderr. */
struct dataset *open_half(const char *folder, const char *half);

/* A tree of n files that are not opened. */
struct dataset *files_of(uint32_t n);

/* A copy of the tree "a" by another name, of which BROKEN are empty, a text, truncated, a folder, a pipe. */
struct dataset *break_some(const char *name);
bool is_one_of_the_broken(uint64_t sample);

struct loader_options options_of(const struct dataset *d, uint32_t rank, uint32_t nrank);

struct epoch { /* as it was given, by the positions in the epoch */
    float images[TRAIN + BATCH][IMAGE];
    int32_t labels[TRAIN + BATCH];
};

/* Put what a loader gives from a step on where it belongs. Number of images. */
uint32_t take(struct loader *l, const struct loader_options *o, uint32_t epoch, uint64_t step, struct epoch *out);

/* An epoch from memory and from files: 0 when they are the same. */
int compare_epoch(struct store *store, struct loader_options o, uint32_t epoch, uint64_t step, uint32_t rank);

/* A body for ranks_run(): epochs from memory and from files are the same. */
struct in_memory {
    const struct dataset *dataset;
    uint32_t ngroup;
    uint64_t segment;
    bool dies; /* the last rank, after the first epoch */
};
int load_from_memory(struct plait_comm **comm, uint32_t rank, void *argument);

#endif
