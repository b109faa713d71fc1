/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images: an ImageFolder tree of JPEGs and PNGs (DATA/train/CLASS/NAME.jpg, DATA/val/CLASS/NAME.jpg), decoded and
 * augmented by threads ahead of the training.
 *
 *     image.c      a file to a crop of given size: scaled and partial decoding, resize, flip, colour jitter, and
 *                  normalisation unless a device does it
 *     png_file.c   a PNG to its pixels
 *     dataset.c    the tree: classes and files in sorted order
 *     loader.c     threads, a bounded queue, batches in order
 *     memory.c     compressed images in the ranks' memory, shuffled between them before each epoch (Kumar et al. 2017)
 *     make_data.c  draws a small dataset of real JPEGs
 *
 * Order: position i of epoch e holds sample permutation(seed, e)[i]. Batch k of a run with global batch B holds
 * positions k B to (k + 1) B - 1, of which each rank takes an equal part. The order depends on neither ranks nor
 * threads. A sample's augmentation depends only on (seed, epoch, sample).
 */
#ifndef PLAIT_TRAIN_DATA_H
#define PLAIT_TRAIN_DATA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_comm;

/* ---- The tree ---- */

struct dataset;

/**
 * One half of a tree ("train", "val"), without opening the images. Every rank has the same order. NULL: *why is the
 * error (why.h).
 */
struct dataset *dataset_open(const char *folder, const char *half, const char **why);
void dataset_close(struct dataset *dataset);
uint64_t dataset_count(const struct dataset *dataset);
uint32_t dataset_nclass(const struct dataset *dataset);
const char *dataset_class(const struct dataset *dataset, uint32_t k);
const char *dataset_path(const struct dataset *dataset, uint64_t sample);
uint32_t dataset_label(const struct dataset *dataset, uint64_t sample);
/** A hash of all names and labels. */
uint64_t dataset_hash(const struct dataset *dataset);
/** Do all ranks see the same files? Collective. A message names a rank that does not. */
bool dataset_same_on_all(const struct dataset *dataset, struct plait_comm *comm);
/** Do two halves have the same classes, so that labels agree? A message names the first difference. */
bool dataset_same_classes(const struct dataset *a, const struct dataset *b);

/** The sample at a position of an epoch: shuffled by (seed, epoch), or in order. */
uint64_t dataset_at(const struct dataset *dataset, bool shuffle, uint64_t seed, uint32_t epoch, uint64_t position);

/* ---- One image ---- */

enum transform {
    TRANSFORM_TRAIN, /* random resized crop, flip, colour jitter */
    TRANSFORM_EVAL   /* shorter side to 8/7 of the size, then centre crop */
};

struct image_options {
    uint32_t pixels; /* of a side of the result */
    enum transform transform;
    double least_area, most_area; /* TRAIN: area of the crop, as a fraction of the image; 0.08 and 1 by default */
    double jitter; /* TRAIN: brightness, contrast and saturation each by 1 - jitter to 1 + jitter; 0: none */
    bool bytes;    /* the result is uint8_t, 0 to 255, rounded to nearest, for a device that normalises; else float */
    double mean[3], deviation[3];
    uint64_t most_pixels; /* of a file; larger files count as broken, to bound memory */
};
extern const struct image_options
    image_defaults; /* ImageNet's mean and deviation, 224 pixels, files of at most 64 Mi pixels */

/** Bytes of one image. */
size_t image_size(const struct image_options *options);

/**
 * Decode, transform and (without `bytes`) normalise a JPEG or PNG in memory. Greyscale, CMYK and progressive files are
 * supported. Opacity is ignored. Damage of a JPEG outside of what the crop needs is not detected, except truncation.
 *
 * out     [pixels][pixels][3] of what `bytes` says
 * Result: NULL, or the error (of this thread, until its next call)
 * Thread: any
 */
const char *image_decode(const void *file, size_t bytes, const struct image_options *options, uint64_t seed,
                         uint32_t epoch, uint64_t sample, void *out);

struct box { /* in pixels of the full image */
    double x, y, width, height;
};

struct augmentation { /* what was drawn for a sample; in this order */
    struct box box;   /* becomes the result */
    bool flip;
    float brightness, contrast, saturation;
};

/* A device that decodes: into bytes in its memory. Its functions return when the result is there. Thread: any */
struct image_decoder {
    size_t memory;         /* bytes of the device, without images */
    atomic_ullong refused; /* files that it did not decode, and the processor did */
    /* Memory of the device, zeroed, which lives as long as the decoder */
    void *(*alloc)(struct image_decoder *decoder, size_t bytes);
    /* A JPEG of width x height pixels. out: as image_decode() has it. Returns NULL, or why it is not decoded here */
    const char *(*decode)(struct image_decoder *decoder, const void *jpeg, size_t bytes, uint32_t width,
                          uint32_t height, const struct augmentation *augmentation, void *out);
    /* Copy an image that the processor has decoded. */
    void (*put)(struct image_decoder *decoder, const void *image, size_t bytes, void *out);
};

/**
 * The same on a device, with `bytes`. The processor decodes an image that the device refuses: *refused then says why,
 * else it is NULL. A file is broken if the processor says so.
 */
const char *image_decode_on(struct image_decoder *decoder, const void *file, size_t bytes,
                            const struct image_options *options, uint64_t seed, uint32_t epoch, uint64_t sample,
                            void *out, const char **refused);

/* ---- Images of all ranks in memory ---- */

struct store;

/**
 * Each rank reads its part of the dataset, compressed.
 *
 * comm    a thread of the store uses a duplicate of a part of it, so that training may go on; NULL: one rank
 * ngroup  replica groups, 1 to the number of ranks; each group of ranks holds all images
 * Order:  collective
 */
struct store *store_create(struct plait_comm *comm, const struct dataset *dataset, uint32_t ngroup);
/** Abandons images that are being fetched. */
void store_destroy(struct store *store);
/**
 * Start to fetch what this rank needs in an epoch, during the epoch before. The loader waits for it, and starts it if
 * that was not done. Until then memory holds both epochs. Order: collective, like loader_begin().
 */
void store_shuffle(struct store *store, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch);
/** Wait until an epoch's images have arrived. If they could not be fetched, a message says why, and files are read. */
void store_wait(struct store *store, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch);
/** The n-th image of this rank in the epoch of the latest store_wait(); NULL: not in memory. Thread: any. */
const void *store_image(const struct store *store, uint64_t n, size_t *bytes);

struct store_figures {
    uint64_t held;     /* bytes of this rank's part */
    uint64_t brought;  /* bytes received from other ranks, over all epochs */
    uint64_t segments; /* exchanges in which they were received */
};
struct store_figures store_figures(const struct store *store);
/* Approximate bytes that a rank sends or receives in one exchange: the memory needed besides the images. */
extern uint64_t store_segment;

/* ---- Batches ---- */

struct loader;

struct loader_options {
    const struct dataset *dataset;
    struct store *store; /* NULL: files are read */
    struct image_options image;
    uint32_t batch; /* images of all ranks in a step */
    uint32_t micro; /* images per loader_next(); batch is a multiple of micro x nrank */
    uint32_t rank, nrank;
    unsigned threads;
    uint32_t queue; /* micro-batches decoded ahead */
    bool shuffle;
    bool whole; /* evaluation: include the rest of an epoch, with label -1 where there is no image; else drop it */
    /*
     * A file with broken contents: true ends the program. false names it once, counts it, and takes the sample of the
     * epoch's next position or, with `whole`, label -1. A file that the system cannot read always ends the program.
     */
    bool broken_fatal;
    uint64_t seed;
    /*
     * Memory of images and their labels: pinned memory, say, that a device copies from. Aligned to 64 bytes. The caller
     * frees it, after loader_destroy(). A function that has none left ends the program. NULL: the heap's
     */
    void *(*alloc)(void *context, size_t bytes);
    void *context;
    struct image_decoder *decoder; /* its memory has the images, not the labels; NULL: the processor decodes */
};

struct images { /* a micro-batch */
    uint32_t n;
    const void *images;    /* [n][pixels][pixels][3] floats or, with image.bytes, uint8_t */
    const int32_t *labels; /* [n] */
};

struct loader_figures { /* since its creation */
    uint64_t given;     /* micro-batches returned */
    uint64_t late;      /* of these, that were not decoded when they were asked for */
    double waited;      /* seconds that loader_begin() and loader_next() waited for images */
    double idle;        /* seconds that a thread waited because all slots were full, on average */
};

struct loader *loader_create(const struct loader_options *options);
void loader_destroy(struct loader *loader);
/** Number of steps of an epoch. */
uint64_t loader_steps(const struct loader *loader);
/** Begin an epoch at a step: 0, or that of a checkpoint. */
void loader_begin(struct loader *loader, uint32_t epoch, uint64_t step);
/** Use another transform (Final Polishing) from the next loader_begin() on. */
void loader_set_transform(struct loader *loader, enum transform transform, bool shuffle);
/**
 * The next micro-batch, valid until the next call: copies from it that a device makes must have ended by then. Returns
 * false at the end of the epoch.
 */
bool loader_next(struct loader *loader, struct images *out);
struct loader_figures loader_figures(struct loader *loader);
/** Bytes of all its images and labels. */
size_t loader_memory(const struct loader *loader);
/** Number of files that any rank found broken. Collective; comm NULL: this process alone. */
uint64_t loader_broken(struct loader *loader, struct plait_comm *comm);

/** Write DATA/train and DATA/val with drawn JPEGs. Returns 0, or 1 after a message. */
int make_data(const char *folder, uint32_t nclass, uint32_t train, uint32_t val, uint32_t pixels, uint64_t seed);

#endif
