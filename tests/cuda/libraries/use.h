/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU of the stand-in with the stand-ins for cuDNN and cuBLAS, for tests; memory from and to the host. */
#ifndef PLAIT_TESTS_LIBRARIES_USE_H
#define PLAIT_TESTS_LIBRARIES_USE_H

#include "../../unit.h"

#include "libraries.h"

#include "../../../cuda/driver.h"

struct place {
    struct gpu gpu;
    struct libraries *libraries;
};

/* Fails with the error text. */
#define GOOD(call)               \
    do {                         \
        const char *why = call;  \
        if (why != NULL)         \
            fail_msg("%s", why); \
    } while (0)

static inline void place_open(struct place *p, enum precision precision)
{
    GOOD(gpu_open(0, precision, &p->gpu));
    GOOD(libraries_create(&p->gpu, NULL, &p->libraries));
}

static inline void place_close(struct place *p)
{
    libraries_destroy(p->libraries);
    gpu_close(&p->gpu);
}

/* In the stream's order; the host's memory may change when it returns. */
static inline void *upload(const struct place *p, const void *host, size_t bytes)
{
    void *memory;

    GOOD(gpu_alloc(&p->gpu, bytes, &memory));
    GOOD(plait_cuda_why(
        plait_cuda.copy_async((cu_address)(uintptr_t)memory, (cu_address)(uintptr_t)host, bytes, p->gpu.stream),
        "copy"));
    GOOD(plait_cuda_why(plait_cuda.stream_synchronize(p->gpu.stream), "synchronize"));
    return memory;
}

/* And free it. */
static inline void download(const struct place *p, void *host, void *memory, size_t bytes)
{
    GOOD(plait_cuda_why(
        plait_cuda.copy_async((cu_address)(uintptr_t)host, (cu_address)(uintptr_t)memory, bytes, p->gpu.stream),
        "copy"));
    GOOD(plait_cuda_why(plait_cuda.stream_synchronize(p->gpu.stream), "synchronize"));
    gpu_free(memory);
}

#endif
