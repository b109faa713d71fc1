/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program as NCCL's users have them: it compiles with any nccl.h of NCCL 2.11 or later, NVIDIA's and ours, and runs on either
 * library. One rank with memory and a stream of the first GPU; of the driver it takes what it needs when it runs
 * (PLAIT_CUDA_DRIVER, else libcuda.so.1).
 *
 * Exit status: 0 all was right, 1 something was not, 77 there is no driver or no GPU.
 */
#include <nccl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000 };

static struct {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(unsigned long long *out, size_t bytes);
    int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
    int (*stream_create)(void **out, unsigned flags);
    int (*synchronize)(void *stream);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
} gpu;

static const struct {
    const char *name;
    void *function;
} entries[] = {
    { "cuInit", &gpu.init },
    { "cuDevicePrimaryCtxRetain", &gpu.retain },
    { "cuCtxSetCurrent", &gpu.set_current },
    { "cuMemAlloc_v2", &gpu.alloc },
    { "cuMemcpyAsync", &gpu.copy },
    { "cuStreamCreate", &gpu.stream_create },
    { "cuStreamSynchronize", &gpu.synchronize },
    { "cuStreamBeginCapture_v2", &gpu.capture_begin },
    { "cuStreamEndCapture", &gpu.capture_end },
    { "cuGraphInstantiateWithFlags", &gpu.instantiate },
    { "cuGraphLaunch", &gpu.launch },
};

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s is false (NCCL: %s)\n", __FILE__, __LINE__, #condition, \
                    ncclGetLastError(NULL));                                                   \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)
#define OK(call) CHECK((call) == ncclSuccess)

static void *stream;
static void *in, *out; /* [COUNT] float of the GPU */
static float *host;

static void open_gpu(void)
{
    const char *path = getenv("PLAIT_CUDA_DRIVER");
    void *context, *handle = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    for (size_t i = 0; handle != NULL && i < sizeof entries / sizeof *entries; i++) {
        *(void **)entries[i].function = dlsym(handle, entries[i].name);
        CHECK(*(void **)entries[i].function != NULL);
    }
    if (handle == NULL || gpu.init(0) != 0 || gpu.retain(&context, 0) != 0) {
        printf("there is no GPU here\n");
        exit(77);
    }
    CHECK(gpu.set_current(context) == 0 && gpu.stream_create(&stream, 1) == 0);
    unsigned long long at;
    CHECK(gpu.alloc(&at, COUNT * sizeof(float)) == 0);
    in = (void *)(size_t)at;
    CHECK(gpu.alloc(&at, COUNT * sizeof(float)) == 0);
    out = (void *)(size_t)at;
    host = malloc(COUNT * sizeof *host);
    CHECK(host != NULL);
}

static void copy(void *to, const void *from)
{
    CHECK(gpu.copy((size_t)to, (size_t)from, COUNT * sizeof(float), stream) == 0 && gpu.synchronize(stream) == 0);
}

static void put(float first)
{
    for (int i = 0; i < COUNT; i++)
        host[i] = first + (float)(i % 1000);
    copy(in, host);
    for (int i = 0; i < COUNT; i++)
        host[i] = -1;
    copy(out, host);
}

static void has(const char *what, float first, float factor)
{
    copy(host, out);
    for (int i = 0; i < COUNT; i++)
        if (host[i] != factor * (first + (float)(i % 1000))) {
            fprintf(stderr, "%s: element %d is %g\n", what, i, (double)host[i]);
            exit(1);
        }
}

static void operate(ncclComm_t comm)
{
    ncclRedOp_t twice;
    float two = 2;

    put(1);
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, stream));
    has("all-reduce", 1, 1);
    put(2);
    OK(ncclReduce(in, out, COUNT, ncclFloat, ncclMax, 0, comm, stream));
    has("reduce", 2, 1);
    put(3);
    OK(ncclBroadcast(in, out, COUNT, ncclFloat, 0, comm, stream));
    has("broadcast", 3, 1);
    put(4);
    OK(ncclReduceScatter(in, out, COUNT, ncclFloat, ncclSum, comm, stream));
    has("reduce-scatter", 4, 1);
    put(5);
    OK(ncclAllGather(in, out, COUNT, ncclFloat, comm, stream));
    has("all-gather", 5, 1);
    put(6);
    OK(ncclGroupStart());
    OK(ncclSend(in, COUNT, ncclFloat, 0, comm, stream));
    OK(ncclRecv(out, COUNT, ncclFloat, 0, comm, stream));
    OK(ncclGroupEnd());
    has("send and receive", 6, 1);
    put(7);
    OK(ncclRedOpCreatePreMulSum(&twice, &two, ncclFloat, ncclScalarHostImmediate, comm));
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, twice, comm, stream));
    OK(ncclRedOpDestroy(twice, comm));
    has("all-reduce of what is multiplied", 7, 2);
}

static void replay(ncclComm_t comm)
{
    void *graph, *exec;

    CHECK(gpu.capture_begin(stream, 0) == 0);
    OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, stream));
    CHECK(gpu.capture_end(stream, &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int i = 0; i < 10; i++) {
        put((float)i);
        CHECK(gpu.launch(exec, stream) == 0);
        has("all-reduce in a graph", (float)i, 1);
    }
}

int main(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    int version, n, rank, device;
    Dl_info where;

    open_gpu();
    OK(ncclGetVersion(&version));
    CHECK(dladdr((void *)(size_t)ncclGetVersion, &where) != 0);
    printf("compiled with NCCL %d, on NCCL %d of %s\n", NCCL_VERSION_CODE, version, where.dli_fname);
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclCommCount(comm, &n));
    OK(ncclCommUserRank(comm, &rank));
    OK(ncclCommCuDevice(comm, &device));
    CHECK(n == 1 && rank == 0 && device == 0);
    operate(comm);
    replay(comm);
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    return 0;
}
