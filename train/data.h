/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images: an ImageFolder tree of JPEGs (DATA/train/CLASS/NAME.jpg, DATA/val/CLASS/NAME.jpg), decoded and augmented by
 * threads ahead of the training.
 *
 *     image.c      a JPEG to a crop of given size: scaled and partial decoding, resize, flip, colour jitter, normalisation
 *     dataset.c    the tree: classes and files in sorted order
 *     loader.c     threads, a bounded queue, batches in order
 *     memory.c     compressed images in the ranks' memory, shuffled between them before each epoch (Kumar et al. 2017)
 *     make_data.c  a small dataset of real JPEGs, drawn
 *
 * Order: position i of epoch e holds sample permutation(seed, e)[i]; batch k of a run with global batch B holds the positions
 * k B to (k + 1) B - 1, of which each rank takes its equal part. It depends on neither ranks nor threads; what is random in a
 * sample's augmentation depends on (seed, epoch, sample) only.
 */
#ifndef PLAIT_TRAIN_DATA_H
#define PLAIT_TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_comm;

/* ---- The tree ---- */

struct dataset;

/** One half of a tree ("train", "val"), without opening the images. NULL: *why says what is missing (why.h). Every rank has
 *  the same order. */
struct dataset *dataset_open(const char *folder, const char *half, const char **why);
void dataset_close(struct dataset *dataset);
uint64_t dataset_count(const struct dataset *dataset);
uint32_t dataset_nclass(const struct dataset *dataset);
const char *dataset_class(const struct dataset *dataset, uint32_t k);
const char *dataset_path(const struct dataset *dataset, uint64_t sample);
uint32_t dataset_label(const struct dataset *dataset, uint64_t sample);
/** Of all names and labels. */
uint64_t dataset_hash(const struct dataset *dataset);
/** Do all ranks see the same files? Collective; a message names a rank that does not. */
bool dataset_same_on_all(const struct dataset *dataset, struct plait_comm *comm);
/** Have two halves the same classes, so that labels mean the same? A message names the first that differs. */
bool dataset_same_classes(const struct dataset *a, const struct dataset *b);

/** The sample at a position of an epoch; shuffled by (seed, epoch), or in order. */
uint64_t dataset_at(const struct dataset *dataset, bool shuffle, uint64_t seed, uint32_t epoch, uint64_t position);

/* ---- One image ---- */

enum transform {
    TRANSFORM_TRAIN, /* random resized crop, flip, colour jitter */
    TRANSFORM_EVAL   /* shorter side to 8/7 of the size, centre crop */
};

struct image_options {
    uint32_t pixels; /* of a side of the result */
    enum transform transform;
    double least_area, most_area; /* TRAIN: of the crop, as part of the image; 0.08 and 1 by default */
    double jitter; /* TRAIN: brightness, contrast, saturation each by 1 - jitter to 1 + jitter; 0: none */
    double mean[3], deviation[3];
    uint64_t most_pixels; /* of a file; larger ones are broken, as their memory may be short */
};
extern const struct image_options
    image_defaults; /* ImageNet's mean and deviation, 224 pixels, files of 64 Mi at most */

/**
 * Decode, transform and normalise a JPEG in memory. Greyscale, CMYK and progressive files are taken; damage that lies
 * outside of what the crop needs is not seen, unless the file is truncated.
 *
 * out     [pixels][pixels][3]
 * Result: NULL, or why not (the thread's, until its next call)
 * Thread: any
 */
const char *image_decode(const void *jpeg, size_t bytes, const struct image_options *options, uint64_t seed,
                         uint32_t epoch, uint64_t sample, float *out);

/* ---- Images of all ranks in memory ---- */

struct store;

/**
 * Each rank reads its part of the dataset, compressed.
 *
 * comm    a duplicate of a part of it is used by a thread of the store's, so that training may go on; NULL: one rank
 * ngroup  replica groups, 1 to the number of ranks; each group of ranks holds all
 * Order:  collective
 */
struct store *store_create(struct plait_comm *comm, const struct dataset *dataset, uint32_t ngroup);
/** What is being brought is given up. */
void store_destroy(struct store *store);
/** Start to bring here what this rank needs in an epoch, during the one before; the loader waits for it, and starts it if
 *  it was not. Until then memory holds both epochs. Order: collective, as is the loader's beginning of an epoch. */
void store_shuffle(struct store *store, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch);
/** Wait until an epoch's images are here. When they could not be brought a message says why, and files are read. */
void store_wait(struct store *store, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch);
/** The n-th image of this rank in the epoch of the latest store_wait(); NULL: it is not here. Thread: any. */
const void *store_image(const struct store *store, uint64_t n, size_t *bytes);

struct store_figures {
    uint64_t held;     /* bytes of this rank's part */
    uint64_t brought;  /* bytes that came from other ranks, of all epochs */
    uint64_t segments; /* exchanges in which they came */
};
struct store_figures store_figures(const struct store *store);
/* About what a rank sends or gets in one exchange, in bytes: what memory is needed for beside the images. */
extern uint64_t store_segment;

/* ---- Batches ---- */

struct loader;

struct loader_options {
    const struct dataset *dataset;
    struct store *store; /* NULL: files are read */
    struct image_options image;
    uint32_t batch; /* images of all ranks in a step */
    uint32_t micro; /* images that next() gives at a time; batch is a multiple of micro x nrank */
    uint32_t rank, nrank;
    unsigned threads;
    uint32_t queue; /* micro-batches decoded ahead */
    bool shuffle;
    bool whole; /* true (evaluation): the rest of an epoch too, labels -1 where nothing lies; false: it is dropped */
    /* A file with broken contents ends the program; false: it is named once and counted; its place gets the sample of the
       next position of the epoch, or, whole, the label -1. A file that the system does not give always ends it. */
    bool broken_fatal;
    uint64_t seed;
};

struct images { /* a micro-batch */
    uint32_t n;
    const float *images;   /* [n][pixels][pixels][3] */
    const int32_t *labels; /* [n] */
};

struct loader *loader_create(const struct loader_options *options);
void loader_destroy(struct loader *loader);
/** Steps of an epoch. */
uint64_t loader_steps(const struct loader *loader);
/** Begin an epoch at a step (0, or where a checkpoint was). */
void loader_begin(struct loader *loader, uint32_t epoch, uint64_t step);
/** From now on, from the next begin(): another transform (Final Polishing). */
void loader_set_transform(struct loader *loader, enum transform transform, bool shuffle);
/** The next micro-batch; valid until the next call. false: the epoch is over. */
bool loader_next(struct loader *loader, struct images *out);
/** Since creation: seconds that begin() and next() waited for images. */
double loader_waited(const struct loader *loader);
/** And files that any rank saw broken. Collective; comm NULL: this process alone. */
uint64_t loader_broken(struct loader *loader, struct plait_comm *comm);

/** Write DATA/train and DATA/val with drawn JPEGs. 0, or 1 after a message. */
int make_data(const char *folder, uint32_t nclass, uint32_t train, uint32_t val, uint32_t pixels, uint64_t seed);

#endif
