/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches that the loader has from nvJPEG's stand-in are the processor's; what nvJPEG refuses, the processor decodes. */
#include "data.h"
#include "device.h"

#include "../../folder.h"
#include "../../train_draw.h"
#include "../../unit.h"
#include "../standin_ask.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 2, TRAIN = 12, SIDE = 16, MICRO = 3, IMAGE = SIDE * SIDE * 3 };

static struct {
    struct device *device;
    struct image_decoder *decoder;
} gpu;

static void *ask(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);

    assert_non_null(function);
    return function;
}

static unsigned long long calls_of(const char *name)
{
    unsigned long long (*named)(const char *);

    *(void **)&named = ask("standin_named");
    return named(name);
}

static void limit(unsigned long long bytes)
{
    void (*to)(unsigned long long);

    *(void **)&to = ask("standin_limit");
    to(bytes);
}

static void gpu_begin(unsigned lanes)
{
    gpu.device = device_cuda.create(&(struct device_options){ .precision = PRECISION_FP32, .threads = 1 });
    gpu.decoder = device_cuda.decoder(gpu.device, SIDE, lanes);
}

/* All that was taken is given back. */
static void gpu_end(void)
{
    int64_t (*of_nvjpeg)(void);
    void (*of_driver)(struct standin_left *);
    struct standin_left left;
    void *library = dlopen("libnvjpeg.so.13", RTLD_NOW);

    *(void **)&of_nvjpeg = dlsym(library, "standin_nvjpeg_left");
    *(void **)&of_driver = ask("standin_left");
    assert_true(of_nvjpeg() > 0);
    device_cuda.destroy(gpu.device);
    of_driver(&left);
    assert_int_equal(of_nvjpeg(), 0);
    assert_int_equal(left.memory + left.pinned + left.streams + left.events + left.contexts, 0);
    dlclose(library);
}

/* ---- Trees ---- */

static struct dataset *draw(const char *name, uint32_t pixels)
{
    const char *why;

    assert_int_equal(make_data(in_folder(name), CLASSES, TRAIN, 2, pixels, 1), 0);
    struct dataset *d = dataset_open(in_folder(name), "train", &why);
    assert_non_null(d);
    return d;
}

static void replace(const struct dataset *d, uint64_t sample, struct jpeg by)
{
    FILE *f = fopen(dataset_path(d, sample), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(by.data, 1, by.n, f), by.n);
    fclose(f);
    free(by.data);
}

/* ---- Batches ---- */

static void *pinned(void *context, size_t bytes)
{
    return device_cuda.alloc_host(context, bytes);
}

static struct loader *loader_of(const struct dataset *d, struct image_decoder *decoder, unsigned threads)
{
    struct loader_options o = { .dataset = d,
                                .image = image_defaults,
                                .batch = MICRO,
                                .micro = MICRO,
                                .nrank = 1,
                                .threads = threads,
                                .queue = 2,
                                .shuffle = true,
                                .seed = 3,
                                .decoder = decoder };

    o.image.pixels = SIDE;
    o.image.jitter = 0.4;
    o.image.bytes = true;
    o.alloc = decoder != NULL ? pinned : NULL;
    o.context = gpu.device;
    return loader_create(&o);
}

/* Two epochs; the average difference may be at most that, of 255. */
static void epochs_are_the_processors(const struct dataset *d, unsigned threads, double most)
{
    struct loader *on_gpu = loader_of(d, gpu.decoder, threads), *on_cpu = loader_of(d, NULL, 2);
    unsigned char image[MICRO * IMAGE];
    struct images a, b;

    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        unsigned n = 0;
        loader_begin(on_gpu, epoch, 0);
        loader_begin(on_cpu, epoch, 0);
        for (; loader_next(on_cpu, &b); n++) {
            double mean = 0;
            assert_true(loader_next(on_gpu, &a));
            assert_memory_equal(a.labels, b.labels, MICRO * sizeof *a.labels);
            gpu.device->kind->copy_out(gpu.device, image, a.images, sizeof image);
            for (size_t k = 0; k < sizeof image; k++)
                mean += abs(image[k] - ((const unsigned char *)b.images)[k]) / (double)sizeof image;
            if (mean > most)
                fail_msg("epoch %u, batch %u: %g apart", epoch, n, mean);
        }
        assert_false(loader_next(on_gpu, &a));
        assert_int_equal(n, dataset_count(d) / MICRO);
    }
    loader_destroy(on_gpu);
    loader_destroy(on_cpu);
}

/* Also where more threads decode than the device has lanes for. */
static void batches_are_the_processors(void **state)
{
    struct dataset *d = draw("plain", 24);

    gpu_begin(2);
    for (unsigned threads = 1; threads <= 4; threads += 3)
        epochs_are_the_processors(d, threads, 0.02);
    assert_int_equal(atomic_load(&gpu.decoder->refused), 0);
    gpu_end();
    dataset_close(d);
}

static const struct form progressive = { JCS_YCbCr, 2, true }, grey = { JCS_GRAYSCALE, 1, false };

static void files_that_nvjpeg_refuses_are_the_processors(void **state)
{
    struct dataset *d = draw("odd", 24);

    replace(d, 0, compress(31, 20, ramp, (struct form){ JCS_CMYK, 1, false }));
    replace(d, 1, compress(20, 31, ramp, progressive));
    replace(d, 2, compress_png(25, 26, 3));
    replace(d, 3, compress(25, 26, ramp, grey));
    struct jpeg cut = compress(25, 26, ramp, grey);
    cut.n = cut.n * 2 / 3;
    replace(d, 4, cut); /* broken: another image takes its place */
    gpu_begin(2);
    epochs_are_the_processors(d, 2, 0.02);
    const unsigned long long others = atomic_load(&gpu.decoder->refused);
    assert_in_range(others, 4, 8); /* two files in two epochs, and some of them for the broken one */
    setenv("PLAIT_STANDIN_NVJPEG_PROGRESSIVE", "4", 1);
    epochs_are_the_processors(d, 2, 0.02);
    unsetenv("PLAIT_STANDIN_NVJPEG_PROGRESSIVE");
    assert_true(atomic_load(&gpu.decoder->refused) > 2 * others);
    gpu_end();
    dataset_close(d);
}

/* There is room for the size that the processor has read. */
static void a_file_of_which_nvjpeg_sees_another_size_is_the_processors(void **state)
{
    struct dataset *d = draw("sizes", 24);

    gpu_begin(2);
    setenv("PLAIT_STANDIN_NVJPEG_WIDER", "1", 1);
    epochs_are_the_processors(d, 2, 0);
    unsetenv("PLAIT_STANDIN_NVJPEG_WIDER");
    assert_int_equal(atomic_load(&gpu.decoder->refused), 2 * TRAIN);
    gpu_end();
    dataset_close(d);
}

/* Memory for a larger image is allocated once. If the GPU lacks it, the processor decodes. */
static void memory_grows_to_the_largest_image(void **state)
{
    struct dataset *d = draw("large", 24);
    unsigned long long before, (*bytes)(void);

    replace(d, 7, compress(1200, 900, ramp, grey));
    gpu_begin(1);
    *(void **)&bytes = ask("standin_bytes");
    limit(bytes() + (1 << 20)); /* for the slots */
    epochs_are_the_processors(d, 2, 0.6);
    assert_int_equal(atomic_load(&gpu.decoder->refused), 2);
    limit(0);
    before = calls_of("cuMemAlloc_v2");
    epochs_are_the_processors(d, 2, 0.6);
    assert_int_equal(atomic_load(&gpu.decoder->refused), 2);
    assert_int_equal(calls_of("cuMemAlloc_v2") - before, 3 + 1); /* slots */
    before = calls_of("cuMemAlloc_v2");
    epochs_are_the_processors(d, 2, 0.6);
    assert_int_equal(calls_of("cuMemAlloc_v2") - before, 3);
    gpu_end();
    dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_the_processors),
        cmocka_unit_test(files_that_nvjpeg_refuses_are_the_processors),
        cmocka_unit_test(a_file_of_which_nvjpeg_sees_another_size_is_the_processors),
        cmocka_unit_test(memory_grows_to_the_largest_image),
    };

    return cmocka_run_group_tests_name("cuda_decode", tests, folder_make, folder_remove);
}
