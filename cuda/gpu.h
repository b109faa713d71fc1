/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU as used by this process: its primary context, and the kernels, loaded at first use. */
#ifndef PLAIT_CUDA_GPU_H
#define PLAIT_CUDA_GPU_H

#include "driver.h"
#include "kernels/kernels.h"

#include <stdbool.h>

struct gpu {
    int device;
    void *context;
    void *stream; /* for work that the host waits for at once */
    unsigned most_blocks;
    void *function[PLAIT_CUDA_NKERNEL];
};

struct plait_queue {
    struct gpu *gpu;
    void *stream;
    uint64_t id;
    bool own;
};

/* The calling thread's current device, or the first device if it has none. */
const char *plait_cuda_current(int *out);

/* The GPU of a device; device -1: of the calling thread's current device, or the first one. */
const char *plait_cuda_gpu(int device, struct gpu **out);

/*
 * Make this GPU's context current, whatever the calling thread's state, and restore the thread's own, in which a graph
 * may be captured. NULL: any GPU of this process, if the thread has no context. puts: captures allow the call, as it
 * puts work on a stream or asks about memory.
 */
struct inside {
    bool pushed, puts;
    int mode;
};
const char *plait_cuda_enter(const struct gpu *gpu, bool puts, struct inside *inside);
void plait_cuda_leave(const struct inside *inside);

/* Run a call with a GPU's context current, whatever the thread's state. */
#define ENTERED(gpu, puts, statement)                \
    do {                                             \
        struct inside inside_;                       \
        why = plait_cuda_enter(gpu, puts, &inside_); \
        if (why == NULL) {                           \
            statement;                               \
            plait_cuda_leave(&inside_);              \
        }                                            \
    } while (0)
#define INSIDE(gpu, statement) ENTERED(gpu, false, statement)
#define CALL(gpu, name, call)  INSIDE(gpu, why = plait_cuda_why(call, name))
#define PUT(gpu, name, call)   ENTERED(gpu, true, why = plait_cuda_why(call, name))

/* Calls whose failure would have consequences are tried twice: a call may return the error of an earlier one. */
#define TWICE(gpu, name, call)     \
    do {                           \
        CALL(gpu, name, call);     \
        if (why != NULL)           \
            CALL(gpu, name, call); \
    } while (0)

/* The argument is copied. */
const char *plait_cuda_launch(const struct gpu *gpu, void *stream, enum plait_cuda_kernel kernel, unsigned blocks,
                              const void *argument);

#endif
