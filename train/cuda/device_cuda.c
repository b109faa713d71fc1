/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda.h"

#include "../../cuda/driver.h"
#include "kernels/images.h"
#include "libraries.h"

#include "allocate.h"
#include "program.h"

#include <plait/optim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_TF32 = 80 };

void cuda_must(const char *why)
{
    if (why != NULL)
        give_up(1, "--device cuda: %s%s", why, cuda_graph_remedy());
}

void cuda_must_call(int status, const char *what)
{
    cuda_must(plait_cuda_why(status, what));
}

enum plait_dtype cuda_type(enum precision precision)
{
    return precision == PRECISION_BF16 ? PLAIT_BFLOAT16 : precision == PRECISION_FP16 ? PLAIT_FLOAT16 : PLAIT_FLOAT32;
}

/* First of all: no driver or library would help. */
static void must_have_kernels(void)
{
    if (train_cuda_images[0].name == NULL)
        cuda_must("this plait-train was built without support for GPUs: configure with -Dcuda=enabled where there is "
                  "nvcc (tools/nvcc fetches one), and build again");
}

int device_cuda_of(uint32_t rank)
{
    int n = 0;

    must_have_kernels();
    cuda_must(gpu_count(&n));
    return n > 0 ? (int)(rank % (uint32_t)n) : 0;
}

/* ---- Memory ---- */

static void keep(struct cuda *cuda, void *memory, bool host)
{
    struct cuda_block *block = allocate(1, sizeof *block);

    *block = (struct cuda_block){ memory, host, cuda->blocks };
    cuda->blocks = block;
}

void *cuda_alloc(struct device *device, size_t bytes)
{
    struct cuda *cuda = cuda_of(device);
    const size_t words = (bytes + 3) / 4 > 0 ? (bytes + 3) / 4 : 1;
    void *memory = NULL;

    cuda_must(gpu_alloc(&cuda->gpu, 4 * words, &memory));
    keep(cuda, memory, false);
    cuda_must_call(plait_cuda.memset32_async((cu_address)(uintptr_t)memory, 0, words, device->stream),
                   "cannot zero memory of the GPU");
    return memory;
}

static void *cuda_alloc_host(struct device *device, size_t bytes)
{
    void *memory = NULL;
    const int status = plait_cuda.mem_alloc_host(&memory, bytes > 0 ? bytes : 1, DRIVER_HOST_PORTABLE);

    if (status != DRIVER_OK)
        cuda_must(plait_cuda_say("no %zu MiB of pinned memory for images: use a smaller --queue or --micro (%s)",
                                 bytes >> 20, plait_cuda_why(status, "cannot allocate it")));
    memset(memory, 0, bytes);
    keep(cuda_of(device), memory, true);
    return memory;
}

static void cuda_synchronize(struct device *device)
{
    cuda_must_call(plait_cuda.stream_synchronize(device->stream), "cannot wait for the GPU");
}

static void cuda_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        cuda_must_call(
            plait_cuda.copy_async((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, bytes, device->stream),
            "cannot copy memory of the GPU");
    cuda_synchronize(device);
}

static void cuda_copy_in(struct device *device, void *to, const void *host, size_t bytes)
{
    cuda_copy(device, to, host, bytes);
}

static void cuda_copy_out(struct device *device, void *host, const void *from, size_t bytes)
{
    cuda_copy(device, host, from, bytes);
}

/* ---- Creating ---- */

void cuda_launch(const struct cuda *cuda, void *stream, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    void *arguments[] = { (void *)(uintptr_t)argument };

    const int status =
        plait_cuda.launch(cuda->functions[kernel], blocks, 1, 1, TRAIN_THREADS, 1, 1, 0, stream, arguments, NULL);

    if (status != DRIVER_OK)
        cuda_must_call(status, plait_cuda_say("cannot run the kernel %s", train_kernels[kernel].name));
}

static void launch(void *context, enum train_kernel kernel, uint32_t blocks, const void *argument)
{
    const struct cuda *cuda = context;

    cuda_launch(cuda, cuda->device.stream, kernel, blocks, argument);
}

static void load_image(struct cuda *cuda, const struct plait_cuda_image *image)
{
    void *module = NULL;
    const char *why = plait_cuda_why(plait_cuda.module_load(&module, image->data), "cannot load the device code");

    if (why != NULL)
        cuda_must(plait_cuda_say("%s: it is of %s, the driver of CUDA %d.%d: install a newer driver, or "
                                 "build with an older nvcc",
                                 why, train_cuda_images_by, cuda->gpu.driver / 1000, cuda->gpu.driver % 1000 / 10));
    cuda->modules = grow(cuda->modules, cuda->nmodule + 1, sizeof *cuda->modules);
    cuda->modules[cuda->nmodule++] = module;
}

static void find_kernel(struct cuda *cuda, enum train_kernel kernel)
{
    int status = DRIVER_NOT_FOUND;

    for (uint32_t m = 0; status == DRIVER_NOT_FOUND && m < cuda->nmodule; m++)
        status = plait_cuda.module_function(&cuda->functions[kernel], cuda->modules[m], train_kernels[kernel].name);
    if (status != DRIVER_OK)
        cuda_must_call(status, plait_cuda_say("cannot find the kernel %s", train_kernels[kernel].name));
}

static void load_kernels(struct cuda *cuda)
{
    for (const struct plait_cuda_image *image = train_cuda_images; image->name != NULL; image++)
        load_image(cuda, image);
    for (int k = 0; k < TRAIN_NKERNEL; k++)
        find_kernel(cuda, (enum train_kernel)k);
}

static void check_tf32(const struct cuda *cuda)
{
    const int c = cuda->gpu.capability;

    if (cuda->options.tf32 && c < OLDEST_TF32)
        cuda_must(plait_cuda_say("GPU %d (%s) has compute capability %d.%d, and TF32 needs 8.0: use --no-tf32",
                                 cuda->gpu.number, cuda->gpu.name, c / 10, c % 10));
}

static struct device *cuda_create(const struct device_options *options)
{
    struct cuda *cuda = allocate(1, sizeof *cuda);

    must_have_kernels();
    cuda->options = *options;
    cuda->type = cuda_type(options->precision);
    cuda_must(gpu_open(options->number, options->precision, &cuda->gpu));
    check_tf32(cuda);
    cuda->device.kind = &device_cuda;
    cuda->device.stream = cuda->gpu.stream;
    load_kernels(cuda);
    cuda_must(libraries_create(&cuda->gpu, NULL, &cuda->libraries));
    cuda->launcher = (struct train_launcher){ launch, cuda, (uint32_t)cuda->gpu.multiprocessors };
    cuda_must_call(plait_cuda.stream_create(&cuda->copies, DRIVER_STREAM_NON_BLOCKING, DRIVER_STREAM_NORMAL),
                   "cannot create a stream on the GPU");
    snprintf(cuda->device.about, sizeof cuda->device.about, "GPU %d (%.60s), cuDNN %s, cuBLAS %s", cuda->gpu.number,
             cuda->gpu.name, cuda->libraries->cudnn_version, cuda->libraries->blas_version);
    cuda->infinite = cuda_alloc(&cuda->device, sizeof *cuda->infinite);
    return &cuda->device;
}

static void cuda_begin(struct device *device)
{
    cuda_must(gpu_use(&cuda_of(device)->gpu));
}

static void free_blocks(struct cuda *cuda)
{
    while (cuda->blocks != NULL) {
        struct cuda_block *next = cuda->blocks->next;

        if (cuda->blocks->host)
            plait_cuda.mem_free_host(cuda->blocks->memory);
        else
            gpu_free(cuda->blocks->memory);
        free(cuda->blocks);
        cuda->blocks = next;
    }
}

static void cuda_destroy(struct device *device)
{
    struct cuda *cuda = cuda_of(device);

    if (device == NULL)
        return;
    cuda_begin(device);
    cuda_synchronize(device);
    plait_cuda.stream_synchronize(cuda->copies);
    cuda_decoder_destroy(cuda->decoder);
    cuda_graphs_destroy(cuda);
    libraries_destroy(cuda->libraries);
    cuda_operations_destroy(cuda);
    free_blocks(cuda);
    for (uint32_t m = 0; m < cuda->nmodule; m++)
        plait_cuda.module_unload(cuda->modules[m]);
    free(cuda->modules);
    plait_cuda.stream_destroy(cuda->copies);
    gpu_close(&cuda->gpu);
    free(cuda);
}

/* ---- What is no operation ---- */

static void cuda_add(struct device *device, struct elements e, void *a, const void *b)
{
    kernel_add(&cuda_of(device)->launcher, cuda_type(e.precision), e.n, a, b);
}

static bool cuda_finite(struct device *device, struct elements e, const void *a)
{
    struct cuda *cuda = cuda_of(device);
    uint32_t infinite;

    kernel_infinite(&cuda->launcher, cuda_type(e.precision), e.n, a, cuda->infinite);
    cuda_copy(device, &infinite, cuda->infinite, sizeof infinite);
    return infinite == 0;
}

static void cuda_sum(struct device *device, const struct device_sum *s)
{
    kernel_sum_rows(&cuda_of(device)->launcher, s->rows, s->columns, s->from, cuda_type(s->type), s->to, s->add);
}

static void cuda_multiply(struct device *device, float *to, const float *from, const double *factors, size_t n)
{
    kernel_scale_vector(&cuda_of(device)->launcher, n, from, factors, to);
}

static void cuda_move(struct device *device, const struct device_move *m)
{
    kernel_move_vector(&cuda_of(device)->launcher, m->n, m->to, m->towards, m->weight, m->factor);
}

/* Both are sums over the labelled images. */
_Static_assert(sizeof(struct train_loss_sums) == sizeof(struct model_result) &&
                   offsetof(struct train_loss_sums, top5) == offsetof(struct model_result, top5),
               "results");

static struct kernel_loss loss_of(const struct loss *l)
{
    return (struct kernel_loss){ l->n, l->nclass, l->logits, l->labels, l->smoothing };
}

static void cuda_loss(struct device *device, const struct loss *loss, struct model_result *add)
{
    const struct cuda *cuda = cuda_of(device);
    const struct kernel_loss l = loss_of(loss);

    kernel_loss(&cuda->launcher, &l, (struct train_loss_sums *)add, cuda->losses);
}

static void cuda_loss_back(struct device *device, const struct loss *loss, float *gradient)
{
    const struct kernel_loss l = loss_of(loss);

    kernel_loss_back(&cuda_of(device)->launcher, &l, 1 / loss->divisor, loss->scale, gradient);
}

const struct device_kind device_cuda = {
    .name = "cuda",
    .bytes = true,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .begin = cuda_begin,
    .synchronize = cuda_synchronize,
    .alloc = cuda_alloc,
    .alloc_host = cuda_alloc_host,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .layout = cuda_layout,
    .run = cuda_run,
    .convolution = cuda_convolution,
    .norm = cuda_norm,
    .pool = cuda_pool,
    .product = cuda_product,
    .reorder = cuda_reorder,
    .back = cuda_back,
    .images = cuda_images,
    .copy_images = cuda_copy_images,
    .wait_images = cuda_wait_images,
    .decoder = cuda_decoder,
    .add = cuda_add,
    .finite = cuda_finite,
    .sum = cuda_sum,
    .multiply = cuda_multiply,
    .move = cuda_move,
    .loss = cuda_loss,
    .loss_back = cuda_loss_back,
};
