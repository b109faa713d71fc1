/* SPDX-License-Identifier: BSD-3-Clause */
#include "standin_use.h"

#include "../child.h"

#include <kernels.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIT_X(name, arguments) int(*name) arguments;
STANDIN_CALLS(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, result, arguments) result(*name) arguments;
STANDIN_LIST(PLAIT_X)
#undef PLAIT_X

void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define PLAIT_X(name, ...)                   \
    *(void **)&name = dlsym(library, #name); \
    if (name == NULL)                        \
        exit(2);
    STANDIN_CALLS(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, ...) *(void **)&name = dlsym(library, #name);
    STANDIN_LIST(PLAIT_X)
#undef PLAIT_X
}

void ok(int result)
{
    assert_int_equal(result, CU_OK);
}

struct place start(void)
{
    struct place p;

    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&p.context, 0));
    ok(cuCtxPushCurrent_v2(p.context));
    for (int i = 0; i < STREAMS; i++)
        ok(cuStreamCreate(&p.streams[i], 1));
    ok(cuEventCreate(&p.event, 2));
    ok(cuMemAlloc_v2(&p.a, N * 4));
    ok(cuMemAlloc_v2(&p.b, N * 4));
    ok(cuMemAlloc_v2(&p.word, 64));
    ok(cuMemsetD32_v2(p.word, 0, 16));
    return p;
}

void expect(cu_address from, uint32_t value)
{
    uint32_t got[N];

    ok(cuMemcpy((uintptr_t)got, from, sizeof got));
    for (int i = 0; i < N; i++)
        assert_int_equal(got[i], value);
}

bool lives(void (*run)(void), char *text, size_t room)
{
    return child_run(run, text, room) == 0;
}

void expect_death(void (*run)(void), const char *first, const char *second)
{
    char text[4096];

    signal(SIGABRT, SIG_DFL);
    if (child_run(run, text, sizeof text) != -SIGABRT)
        fail_msg("nothing was noticed; stderr: %s", text);
    if (strstr(text, first) == NULL || strstr(text, second) == NULL)
        fail_msg("'%s' and '%s' are not in: %s", first, second, text);
}

void expect_life(void (*run)(void))
{
    char text[4096];

    if (!lives(run, text, sizeof text))
        fail_msg("%s", text);
}

void *kernel(const char *name)
{
    void *module, *function;

    ok(cuModuleLoadData(&module, "any"));
    ok(cuModuleGetFunction(&function, module, name));
    return function;
}

int launch(void *function, void *argument, unsigned blocks, void *stream)
{
    void *arguments[] = { argument };

    return cuLaunchKernel(function, blocks, 1, 1, PLAIT_CUDA_THREADS, 1, 1, 0, stream, arguments, NULL);
}

struct plait_cuda_list copy_list(void *to, const void *from, size_t bytes)
{
    const struct plait_cuda_item item = { .count = bytes, .times = 1 };
    struct plait_cuda_list list = { .nitem = 0 };

    plait_cuda_list_add(&list, 1, &from, 1, &to, 1, &item);
    plait_cuda_list_cut(&list, 1, 3);
    return list;
}

void add_to(cu_address a, cu_address b, cu_address to, void *stream)
{
    const struct plait_cuda_item item = { .count = N, .times = 1 };
    struct plait_cuda_list list = { .op = PLAIT_SUM };
    const void *const src[] = { (void *)(uintptr_t)a, (void *)(uintptr_t)b };
    void *const dst = (void *)(uintptr_t)to;

    plait_cuda_list_add(&list, 4, src, 2, &dst, 1, &item);
    plait_cuda_list_cut(&list, 4, 3);
    ok(launch(kernel("plait_reduce_int32"), &list, 3, stream));
}

void add(const struct place *p, void *stream)
{
    add_to(p->a, p->b, p->b, stream);
}
