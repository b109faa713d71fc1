/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the driver, the GPU and its libraries; what is chosen of cuDNN's engines; every error has its cause and remedy. */
#include "convolution.h"
#include "find.h"
#include "product.h"
#include "use.h"

#include "../../child.h"
#include "../../folder.h"
#include "../standin_ask.h"

#include <dlfcn.h>
#include <string.h>

static const struct device_convolution shape = { 2, 4, 8, 5, 5, 3, 1, 1, false };

/* ---- Helpers ---- */

static void expect_text(const char *why, const char *first, const char *second)
{
    if (why == NULL)
        fail_msg("no error, where '%s' and '%s' is expected", first, second);
    if (strstr(why, first) == NULL || strstr(why, second) == NULL)
        fail_msg("'%s' has no '%s' or no '%s'", why, first, second);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* What gpu_open() says while this is set. */
static void expect_gpu(const char *name, const char *value, int number, enum precision precision, const char *first,
                       const char *second)
{
    const char *was = getenv(name);
    char *before = was != NULL ? strdup(was) : NULL;
    struct gpu gpu = { 0 };

    set(name, value);
    expect_text(gpu_open(number, precision, &gpu), first, second);
    set(name, before);
    free(before);
    assert_null(gpu.context);
}

/* What libraries_create() says while this is set. folder: as there */
static void expect_libraries(const char *name, const char *value, const char *at, const char *first, const char *second)
{
    struct libraries *l = NULL;
    struct gpu gpu;

    GOOD(gpu_open(0, PRECISION_FP32, &gpu));
    set(name, value);
    expect_text(libraries_create(&gpu, at, &l), first, second);
    set(name, NULL);
    assert_null(l);
    gpu_close(&gpu);
}

static const char *expect_plan(const char *name, const char *value, size_t most, const char *first, const char *second)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, most };
    struct convolution *c = NULL;
    struct place p;

    place_open(&p, PRECISION_FP32);
    set(name, value);
    expect_text(convolution_find(p.libraries, &shape, CONVOLUTION_BACK_DATA, &wants, &c), first, second);
    set(name, NULL);
    assert_null(c);
    place_close(&p);
    return NULL;
}

/* A folder in that of this test; its name lives as long as the process. */
static const char *make_folder(const char *name)
{
    static char names[8][64];
    static unsigned n;
    char command[128];

    assert_true(n < 8);
    snprintf(names[n], sizeof names[n], "%s", in_folder(name));
    snprintf(command, sizeof command, "mkdir -p %s", names[n]);
    assert_int_equal(system(command), 0);
    return names[n++];
}

static void copy_library(const char *from, const char *at, const char *name)
{
    struct libraries *l;
    struct gpu gpu;
    char command[2048];

    GOOD(gpu_open(0, PRECISION_FP32, &gpu));
    GOOD(libraries_create(&gpu, NULL, &l));
    snprintf(command, sizeof command, "cp %s %s/%s", strcmp(from, "cudnn") == 0 ? l->cudnn_file : l->blas_file, at,
             name);
    assert_int_equal(system(command), 0);
    libraries_destroy(l);
    gpu_close(&gpu);
}

/* ---- The driver and the GPU ---- */

static void a_driver_that_is_missing_or_too_old_is_named(void **state)
{
    expect_gpu("PLAIT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 0, PRECISION_FP32, "there is no CUDA driver here",
               "install NVIDIA's driver");
    expect_gpu("PLAIT_CUDA_DRIVER", "libm.so.6", 0, PRECISION_FP32, "libm.so.6 has no cu", "CUDA 12 or newer");
    expect_gpu("PLAIT_STANDIN_CUDA", "11080", 0, PRECISION_FP32, "the driver is of CUDA 11.8",
               "install a driver of CUDA 12");
    expect_gpu("PLAIT_FOR_TESTS", "0", 0, PRECISION_FP32, "PLAIT_CUDA_DRIVER is set", "unset it");
}

static void a_gpu_that_is_not_there_is_named(void **state)
{
    expect_gpu("PLAIT_STANDIN_DEVICES", "0", 0, PRECISION_FP32, "there is no GPU here", "nvidia-smi");
    expect_gpu("PLAIT_STANDIN_DEVICES", "2", 2, PRECISION_FP32, "there is no GPU 2: the driver has 2",
               "CUDA_VISIBLE_DEVICES");
    expect_gpu("PLAIT_STANDIN_DEVICES", "2", -1, PRECISION_FP32, "there is no GPU -1", "numbered from 0");
}

static void a_gpu_that_is_too_old_is_named(void **state)
{
    struct gpu gpu;

    expect_gpu("PLAIT_STANDIN_CAPABILITY", "70", 0, PRECISION_FP32, "compute capability 7.0, and 7.5 is the least",
               "use a newer GPU");
    expect_gpu("PLAIT_STANDIN_CAPABILITY", "75", 0, PRECISION_BF16, "compute capability 7.5, and bf16 needs 8.0",
               "--precision fp16");
    set("PLAIT_STANDIN_CAPABILITY", "75");
    GOOD(gpu_open(0, PRECISION_FP16, &gpu));
    assert_int_equal(gpu.capability, 75);
    gpu_close(&gpu);
    set("PLAIT_STANDIN_CAPABILITY", "80");
    GOOD(gpu_open(0, PRECISION_BF16, &gpu));
    gpu_close(&gpu);
    set("PLAIT_STANDIN_CAPABILITY", "90");
}

static void the_gpu_that_is_asked_for_is_used_and_its_context_is_current(void **state)
{
    void *current = NULL;
    struct gpu gpu;
    int device = 0;

    set("PLAIT_STANDIN_DEVICES", "3");
    GOOD(gpu_open(2, PRECISION_FP32, &gpu));
    assert_int_equal(plait_cuda.context_device(&device), 0);
    assert_int_equal(device, 2);
    assert_int_equal(plait_cuda.context_pop(&current), 0);
    GOOD(gpu_use(&gpu));
    GOOD(gpu_use(&gpu));
    assert_int_equal(plait_cuda.context_current(&current), 0);
    assert_ptr_equal(current, gpu.context);
    gpu_close(&gpu);
    assert_int_equal(plait_cuda.context_current(&current), 0);
    assert_null(current);
    set("PLAIT_STANDIN_DEVICES", NULL);
}

static void *ask(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);

    assert_non_null(function);
    return function;
}

/* Each call of the driver in turn. */
static void a_driver_that_fails_is_told_in_words(void **state)
{
    void (*fail_at)(unsigned long long);
    const char *text = "";
    struct gpu gpu;
    unsigned n;

    GOOD(gpu_open(0, PRECISION_FP32, &gpu)); /* loads the driver */
    gpu_close(&gpu);
    *(void **)&fail_at = ask("standin_fail");
    for (n = 2; text != NULL; n++) { /* cuInit() is called again */
        fail_at(n);
        text = gpu_open(0, PRECISION_FP32, &gpu);
        if (text == NULL)
            continue;
        expect_text(text, "cannot ", ": unknown error (CUDA_ERROR_UNKNOWN)");
        assert_null(strstr(text, " cu"));
        gpu = (struct gpu){ 0 };
    }
    fail_at(0);
    gpu_close(&gpu);
    assert_true(n > 9);
    assert_string_equal(plait_cuda_why(12345, "cannot begin"), "cannot begin: CUDA error 12345");
}

/* ---- cuDNN and cuBLAS ---- */

static void cudnn_that_is_missing_or_of_another_version_is_named(void **state)
{
    const char *empty = make_folder("empty"), *eight = make_folder("eight"), *ten = make_folder("ten");

    expect_libraries("PLAIT_STANDIN_CUDNN_CUDA", NULL, empty, "there is no cuDNN 9 here",
                     "pip install nvidia-cudnn-cu13, or put the library's folder into LD_LIBRARY_PATH");
    copy_library("cudnn", eight, "libcudnn.so.8");
    expect_libraries("PLAIT_STANDIN_CUDNN_CUDA", NULL, eight, "libcudnn.so.8 is cuDNN 8, and 9 is needed",
                     "pip install");
    copy_library("cudnn", ten, "libcudnn.so.10");
    expect_libraries("PLAIT_STANDIN_CUDNN_CUDA", NULL, ten, "libcudnn.so.10 is cuDNN 10, and 9 is needed",
                     "pip install 'nvidia-cudnn-cu13<10', or");
    expect_libraries("PLAIT_STANDIN_CUDNN_VERSION", "8907", NULL, "libcudnn.so.9 is cuDNN 8.9.7, and 9 is needed",
                     "pip install");
    expect_libraries("PLAIT_STANDIN_CUDNN_VERSION", "100000", NULL, "libcudnn.so.9 is cuDNN 10.0.0, and 9 is needed",
                     "pip install 'nvidia-cudnn-cu13<10', or");
    expect_libraries("PLAIT_STANDIN_CUDNN_CUDA", "14000", NULL, "is for CUDA 14, and the driver is of CUDA 13.0",
                     "install a newer driver");
}

static void a_file_that_is_no_library_is_named(void **state)
{
    const char *at = make_folder("broken");

    folder_write("broken/libcudnn.so.9", "nothing", 7);
    expect_libraries("PLAIT_STANDIN_CUDNN_CUDA", NULL, at, "there is no cuDNN 9 here", "broken/libcudnn.so.9: ");
}

static void cublas_that_is_missing_or_of_another_version_is_named(void **state)
{
    const char *at = make_folder("half");

    copy_library("cudnn", at, "libcudnn.so.9");
    expect_libraries("PLAIT_STANDIN_CUBLAS_VERSION", NULL, at, "there is no cuBLAS 12 or 13",
                     "pip install nvidia-cublas, or");
    expect_libraries("PLAIT_STANDIN_CUBLAS_VERSION", "11", NULL, "is cuBLAS 11.0.0, and 12 or newer is needed",
                     "pip install");
}

static void a_driver_of_cuda_12_takes_libraries_of_cuda_12(void **state)
{
    const char *at = make_folder("thirteen"), *both = make_folder("both");
    struct libraries *l;
    struct gpu gpu;

    copy_library("cudnn", at, "libcudnn.so.9");
    copy_library("cublas", at, "libcublas.so.13");
    copy_library("cudnn", both, "libcudnn.so.9");
    copy_library("cublas", both, "libcublas.so.12");
    copy_library("cublas", both, "libcublas.so.13");
    set("PLAIT_STANDIN_CUDA", "12080");
    expect_libraries("PLAIT_STANDIN_CUBLAS_VERSION", NULL, at, "is for CUDA 13, and the driver is of CUDA 12.8",
                     "install a newer driver, or pip install nvidia-cudnn-cu12");
    set("PLAIT_STANDIN_CUDNN_CUDA", "12090");
    expect_libraries("PLAIT_STANDIN_CUBLAS_VERSION", NULL, at, "there is no cuBLAS 12 or 13 for this driver",
                     "pip install nvidia-cublas-cu12");
    GOOD(gpu_open(0, PRECISION_FP32, &gpu));
    GOOD(libraries_create(&gpu, both, &l));
    assert_non_null(strstr(l->blas_file, "both/libcublas.so.12"));
    libraries_destroy(l);
    gpu_close(&gpu);
    set("PLAIT_STANDIN_CUDA", NULL);
    set("PLAIT_STANDIN_CUDNN_CUDA", NULL);
}

static void libraries_that_cannot_begin_say_why(void **state)
{
    expect_libraries("PLAIT_STANDIN_CUDNN_CREATE", "1001", NULL, "cudnnCreate of cuDNN 9.19.0",
                     "CUDNN_STATUS_NOT_INITIALIZED");
    expect_libraries("PLAIT_STANDIN_CUDNN_CREATE", "4004", NULL,
                     "cudnnCreate: GPU 0 (no GPU: a stand-in for tests) has", "use a smaller --micro");
    expect_libraries("PLAIT_STANDIN_CUBLAS_CREATE", "3", NULL, "cublasCreate: GPU 0", "no memory left");
    expect_libraries("PLAIT_STANDIN_CUBLAS_CREATE", "1", NULL, "cublasCreate of cuBLAS 13.0.0", "an error");
}

/* ---- Where libraries are found ---- */

static void make_file(const char *path, const char *from)
{
    char command[2048];

    snprintf(command, sizeof command, "mkdir -p $(dirname %s) && cp %s %s && chmod +x %s", in_folder(path), from,
             in_folder(path), in_folder(path));
    assert_int_equal(system(command), 0);
}

static void expect_found(const char *name, const char *at)
{
    const struct found f = find_library(name, NULL);

    if (f.handle == NULL)
        fail_msg("%s", f.why);
    if (strstr(f.file, at) == NULL)
        fail_msg("%s is not %s", f.file, at);
    dlclose(f.handle);
}

/* As pip puts them into an environment whose python3 is the first of PATH, and into a home. */
static void libraries_of_python_packages_are_found(void **state)
{
    const char *path = getenv("PATH"), *home = getenv("HOME");
    char *was_path = strdup(path), *was_home = home != NULL ? strdup(home) : NULL, new[1024];
    struct libraries *l;
    struct gpu gpu;

    GOOD(gpu_open(0, PRECISION_FP32, &gpu));
    GOOD(libraries_create(&gpu, NULL, &l));
    make_file("venv/bin/python3", "/bin/true");
    make_file("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libplait-one.so.1", l->blas_file);
    make_file("home/.local/lib/python3.11/site-packages/nvidia/cudnn/lib/libplait-two.so.1", l->blas_file);
    snprintf(new, sizeof new, "/nowhere::%s:%s", in_folder("venv/bin"), was_path);
    set("PATH", new);
    set("HOME", in_folder("home"));
    expect_found("libplait-one.so.1", "nvidia/cu13/lib/libplait-one.so.1");
    expect_found("libplait-two.so.1", "nvidia/cudnn/lib/libplait-two.so.1");
    assert_null(find_library("libplait-three.so.1", NULL).handle);
    set("PATH", was_path);
    set("HOME", was_home);
    free(was_path);
    free(was_home);
    libraries_destroy(l);
    gpu_close(&gpu);
}

/* ---- Engines ---- */

static void expect_engine(struct place *p, struct convolution_wants wants, const char *engine, size_t workspace)
{
    struct convolution *c, *again;

    GOOD(convolution_find(p->libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
    assert_string_equal(convolution_engine(c), engine);
    assert_int_equal(convolution_workspace(c), workspace);
    GOOD(convolution_find(p->libraries, &shape, CONVOLUTION_FORWARD, &wants, &again));
    assert_ptr_equal(c, again);
}

/* The stand-in's engines are of every kind, those that are not wanted first. */
static void the_first_engine_that_does_what_is_wanted_is_chosen(void **state)
{
    struct place p;

    place_open(&p, PRECISION_FP32);
    expect_engine(&p, (struct convolution_wants){ PRECISION_FP32, false, false, 4096 }, "engine 1 (Winograd), choice 6",
                  4096);
    expect_engine(&p, (struct convolution_wants){ PRECISION_FP32, false, false, 4095 },
                  "engine 0 (no tensor cores), choice 7", 0);
    expect_engine(&p, (struct convolution_wants){ PRECISION_FP32, true, false, 4096 },
                  "engine 44 (tensor cores), choice 5", 131);
    expect_engine(&p, (struct convolution_wants){ PRECISION_BF16, false, false, 4096 },
                  "engine 44 (tensor cores), choice 5", 131);
    expect_engine(&p, (struct convolution_wants){ PRECISION_FP16, false, true, 4096 },
                  "engine 40 (no tensor cores), choice 1", 0);
    place_close(&p);
}

static struct convolution *find(struct place *p, struct device_convolution s, enum convolution_pass pass,
                                struct convolution_wants wants)
{
    struct convolution *c = NULL;

    GOOD(convolution_find(p->libraries, &s, pass, &wants, &c));
    return c;
}

static void another_shape_pass_or_wish_is_another_convolution(void **state)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, 0 };
    struct device_convolution shapes[9];
    struct convolution_wants wishes[5];
    struct convolution *all[16];
    unsigned n = 0;
    struct place p;

    for (int k = 0; k < 9; k++)
        shapes[k] = shape;
    shapes[1].n++, shapes[2].in++, shapes[3].out++, shapes[4].height++, shapes[5].width++, shapes[6].kernel--;
    shapes[7].stride++, shapes[8].pad++;
    for (int k = 0; k < 5; k++)
        wishes[k] = wants;
    wishes[1].precision = PRECISION_BF16, wishes[2].tf32 = true, wishes[3].nondeterministic = true,
    wishes[4].most_workspace++;
    place_open(&p, PRECISION_FP32);
    for (int k = 0; k < 9; k++)
        all[n++] = find(&p, shapes[k], CONVOLUTION_FORWARD, wants);
    for (int k = 1; k < 5; k++)
        all[n++] = find(&p, shape, CONVOLUTION_FORWARD, wishes[k]);
    all[n++] = find(&p, shape, CONVOLUTION_BACK_DATA, wants);
    all[n++] = find(&p, shape, CONVOLUTION_BACK_WEIGHTS, wants);
    for (unsigned k = 0; k < n; k++)
        for (unsigned other = 0; other < k; other++)
            assert_ptr_not_equal(all[k], all[other]);
    place_close(&p);
}

static void convolutions_without_a_plan_say_what_became_of_the_engines(void **state)
{
    expect_plan("PLAIT_STANDIN_CUDNN_PLAN", "3000", 1 << 20,
                "no plan for the 3x3 convolution with stride 1 of 2x5x5x4 to 8 channels in fp32, backward to the data",
                "of 7 engines 3 sum in another order or precision, 0 need more than 1 MiB of workspace, 4 failed (the "
                "latest: CUDNN_STATUS_NOT_SUPPORTED: this engine refuses): use another --micro");
    expect_plan("PLAIT_STANDIN_CUDNN_WORKSPACE", "3145728", 1 << 20, "3 need more than 1 MiB of workspace",
                "of which 4 MiB are needed, 1 failed");
    expect_plan("PLAIT_STANDIN_CUDNN_PLAN", "4004", 1 << 20, "backward to the data: cudnnBackendFinalize: GPU 0",
                "no memory left: use a smaller --micro");
}

static void runs_that_fail_say_why(void **state)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, 0 };
    const struct device_product product = { .rows = 1, .inner = 1, .columns = 1 };
    struct convolution *c;
    struct place p;

    place_open(&p, PRECISION_FP32);
    GOOD(convolution_find(p.libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
    set("PLAIT_STANDIN_CUDNN_EXECUTE", "5000");
    expect_text(convolution_run(c, p.gpu.stream, p.gpu.stream, p.gpu.stream, NULL), "forward: cudnnBackendExecute",
                "CUDNN_STATUS_EXECUTION_FAILED: a run fails");
    set("PLAIT_STANDIN_CUDNN_EXECUTE", NULL);
    set("PLAIT_STANDIN_CUBLAS_GEMM", "15");
    expect_text(product_run(p.libraries, &product, false, NULL, NULL, NULL), "the product of 1 x 1 by 1 x 1",
                "not supported");
    set("PLAIT_STANDIN_CUBLAS_GEMM", NULL);
    place_close(&p);
}

/* ---- Memory, and the stream's order ---- */

static void memory_that_is_lacking_is_named(void **state)
{
    void (*limit)(unsigned long long);
    struct gpu gpu;
    void *memory = NULL;

    GOOD(gpu_open(0, PRECISION_FP32, &gpu));
    *(void **)&limit = ask("standin_limit");
    limit(1 << 20);
    expect_text(gpu_alloc(&gpu, (3 << 20) - 1, &memory),
                "has no memory for 3 MiB more: 1 of its 16384 MiB are free, 8192 were when this rank began",
                "use a smaller --micro or --batch");
    limit(0);
    assert_null(memory);
    gpu_close(&gpu);
}

struct left {
    int64_t cudnn;
    struct standin_left driver;
};

static struct left left_of(const char *cudnn)
{
    struct left left = { 0 };
    int64_t (*of_cudnn)(void);
    void (*of_driver)(struct standin_left *);

    *(void **)&of_cudnn = dlsym(dlopen(cudnn, RTLD_NOW), "standin_cudnn_left");
    *(void **)&of_driver = ask("standin_left");
    left.cudnn = of_cudnn();
    of_driver(&left.driver);
    return left;
}

static void all_that_was_made_is_given_back(void **state)
{
    const struct convolution_wants wants = { PRECISION_BF16, false, false, 1 << 20 };
    struct convolution *c;
    struct place p;
    char file[512];

    place_open(&p, PRECISION_BF16);
    snprintf(file, sizeof file, "%s", p.libraries->cudnn_file);
    for (int pass = CONVOLUTION_FORWARD; pass <= CONVOLUTION_BACK_WEIGHTS; pass++)
        GOOD(convolution_find(p.libraries, &shape, (enum convolution_pass)pass, &wants, &c));
    assert_true(left_of(file).cudnn > 0 && left_of(file).driver.memory == 1);
    place_close(&p);
    const struct left left = left_of(file);
    assert_int_equal(left.cudnn, 0);
    assert_int_equal(left.driver.memory + left.driver.streams + left.driver.contexts, 0);
}

/* Descriptors that are there after a run on these tensors. */
static int64_t left_after(struct convolution *c, const char *cudnn, void *x, void *w, void *y)
{
    GOOD(convolution_run(c, x, w, y, NULL));
    return left_of(cudnn).cudnn;
}

static void a_run_makes_nothing_for_tensors_that_it_has_seen(void **state)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, 0 };
    static const float zeros[1024];
    struct convolution *c;
    struct place p;

    place_open(&p, PRECISION_FP32);
    const char *cudnn = p.libraries->cudnn_file;
    void *x = upload(&p, zeros, sizeof zeros), *w = upload(&p, zeros, 8 * 4 * 9 * 4),
         *y = upload(&p, zeros, 2 * 8 * 25 * 4), *z = upload(&p, zeros, 2 * 8 * 25 * 4);
    GOOD(convolution_find(p.libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
    const int64_t before = left_of(cudnn).cudnn;
    assert_int_equal(left_after(c, cudnn, x, w, y), before + 1);
    assert_int_equal(left_after(c, cudnn, x, w, y), before + 1);
    assert_int_equal(left_after(c, cudnn, x, w, z), before + 2);
    assert_int_equal(left_after(c, cudnn, x, w, y), before + 2);
    plait_cuda.stream_synchronize(p.gpu.stream);
    place_close(&p);
}

/* All on the stream of the GPU; `other` without waiting for it. */
static void run_and_write(void *other)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, 0 };
    static const float zeros[1024];
    struct convolution *c;
    struct place p;

    place_open(&p, PRECISION_FP32);
    void *x = upload(&p, zeros, sizeof zeros), *w = upload(&p, zeros, 8 * 4 * 9 * 4),
         *y = upload(&p, zeros, 2 * 8 * 25 * 4);
    GOOD(convolution_find(p.libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
    GOOD(convolution_run(c, x, w, y, NULL));
    if (other != NULL) {
        void *stream;
        plait_cuda.stream_create(&stream, DRIVER_STREAM_NON_BLOCKING, DRIVER_STREAM_NORMAL);
        plait_cuda.memset32_async((cu_address)(uintptr_t)x, 0, 16, stream);
        plait_cuda.stream_synchronize(stream);
    }
    plait_cuda.memset32_async((cu_address)(uintptr_t)x, 0, 16, p.gpu.stream);
    plait_cuda.stream_synchronize(p.gpu.stream);
    _exit(0);
}

static void run_in_order(void)
{
    run_and_write(NULL);
}

static void run_out_of_order(void)
{
    run_and_write(&run_and_write);
}

static void convolutions_run_in_the_order_of_the_stream(void **state)
{
    char text[4096];

    assert_int_equal(child_run(run_in_order, text, sizeof text), 0);
    assert_int_not_equal(child_run(run_out_of_order, text, sizeof text), 0);
    assert_non_null(strstr(text, "cuDNN's convolution"));
}

static void runs_allocate_nothing_on_the_gpu(void **state)
{
    const struct convolution_wants wants = { PRECISION_FP32, false, false, 0 };
    const struct device_product product = { .rows = 4, .inner = 8, .columns = 2 };
    static const float zeros[1024];
    unsigned long long (*calls)(void), before;
    struct convolution *c;
    struct place p;

    place_open(&p, PRECISION_FP32);
    *(void **)&calls = ask("standin_calls");
    void *x = upload(&p, zeros, sizeof zeros), *w = upload(&p, zeros, sizeof zeros),
         *y = upload(&p, zeros, sizeof zeros);
    GOOD(convolution_find(p.libraries, &shape, CONVOLUTION_FORWARD, &wants, &c));
    before = calls();
    for (int k = 0; k < 10; k++) {
        GOOD(convolution_run(c, x, w, y, NULL));
        GOOD(product_run(p.libraries, &product, false, x, w, y));
    }
    assert_int_equal(calls() - before, 20); /* the operations themselves */
    plait_cuda.stream_synchronize(p.gpu.stream);
    gpu_free(x);
    gpu_free(w);
    gpu_free(y);
    place_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_run_in_the_order_of_the_stream), /* forks: before there are threads */
        cmocka_unit_test(a_driver_that_is_missing_or_too_old_is_named),
        cmocka_unit_test(a_gpu_that_is_not_there_is_named),
        cmocka_unit_test(a_gpu_that_is_too_old_is_named),
        cmocka_unit_test(the_gpu_that_is_asked_for_is_used_and_its_context_is_current),
        cmocka_unit_test(a_driver_that_fails_is_told_in_words),
        cmocka_unit_test(cudnn_that_is_missing_or_of_another_version_is_named),
        cmocka_unit_test(a_file_that_is_no_library_is_named),
        cmocka_unit_test(cublas_that_is_missing_or_of_another_version_is_named),
        cmocka_unit_test(a_driver_of_cuda_12_takes_libraries_of_cuda_12),
        cmocka_unit_test(libraries_that_cannot_begin_say_why),
        cmocka_unit_test(libraries_of_python_packages_are_found),
        cmocka_unit_test(the_first_engine_that_does_what_is_wanted_is_chosen),
        cmocka_unit_test(another_shape_pass_or_wish_is_another_convolution),
        cmocka_unit_test(convolutions_without_a_plan_say_what_became_of_the_engines),
        cmocka_unit_test(runs_that_fail_say_why),
        cmocka_unit_test(memory_that_is_lacking_is_named),
        cmocka_unit_test(all_that_was_made_is_given_back),
        cmocka_unit_test(a_run_makes_nothing_for_tensors_that_it_has_seen),
        cmocka_unit_test(runs_allocate_nothing_on_the_gpu),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
