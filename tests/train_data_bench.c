/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input pipeline alone: images per second of a loader whose batches nobody waits to compute with.
 *
 *     train_data_bench DATA THREADS PIXELS JITTER EPOCHS [bytes]    a line for each epoch
 *     train_data_bench --make DATA CLASSES IMAGES PIXELS            draw such a folder
 */
#include "../train/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(struct loader *l, uint32_t epochs)
{
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        const double start = now();
        struct images images;
        uint64_t n = 0;
        loader_begin(l, epoch, 0);
        while (loader_next(l, &images))
            n += images.n;
        printf("%.1f\n", (double)n / (now() - start));
    }
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--make") == 0)
        return make_data(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[3]),
                         (uint32_t)atoi(argv[5]), 1);
    const bool bytes = argc == 7 && strcmp(argv[6], "bytes") == 0;
    if (argc != 6 && !bytes) {
        fprintf(stderr, "usage: train_data_bench DATA THREADS PIXELS JITTER EPOCHS [bytes]\n"
                        "  or:  train_data_bench --make DATA CLASSES IMAGES PIXELS\n");
        return 2;
    }
    const char *why;
    struct dataset *d = dataset_open(argv[1], "train", &why);
    if (d == NULL)
        return 1;
    struct loader_options o = { .dataset = d,
                                .image = image_defaults,
                                .batch = 32,
                                .micro = 32,
                                .nrank = 1,
                                .queue = 4,
                                .shuffle = true,
                                .seed = 1 };
    o.threads = (unsigned)atoi(argv[2]);
    o.image.pixels = (uint32_t)atoi(argv[3]);
    o.image.jitter = atof(argv[4]);
    o.image.bytes = bytes;
    struct loader *l = loader_create(&o);
    run(l, (uint32_t)atoi(argv[5]));
    loader_destroy(l);
    dataset_close(d);
    return 0;
}
