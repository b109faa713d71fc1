/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU as this process uses it: its primary context, and the kernels, loaded when it is first used. */
#ifndef PLAIT_CUDA_GPU_H
#define PLAIT_CUDA_GPU_H

#include "driver.h"
#include "kernels/kernels.h"

#include <stdbool.h>

struct gpu {
    int device;
    void *context;
    void *stream; /* for what the host waits for at once */
    unsigned most_blocks;
    void *function[PLAIT_CUDA_NKERNEL];
};

struct plait_queue {
    struct gpu *gpu;
    void *stream;
    uint64_t id;
    bool own;
};

/* The calling thread's current device; the first, where it has none. */
const char *plait_cuda_current(int *out);

/* The device's; or the calling thread's current one, the first where there is none (device -1). */
const char *plait_cuda_gpu(int device, struct gpu **out);

/*
 * Work in this context, in whatever state the calling thread is, and go back: to its own, in which a graph may be
 * captured. NULL: any of this process's, if the thread has none.
 */
struct inside {
    bool pushed;
    int mode;
};
const char *plait_cuda_enter(const struct gpu *gpu, struct inside *inside);
void plait_cuda_leave(const struct inside *inside);

/* What is done inside a GPU's context, whatever state the thread is in. */
#define INSIDE(gpu, statement)                 \
    do {                                       \
        struct inside inside_;                 \
        why = plait_cuda_enter(gpu, &inside_); \
        if (why == NULL) {                     \
            statement;                         \
            plait_cuda_leave(&inside_);        \
        }                                      \
    } while (0)
#define CALL(gpu, name, call) INSIDE(gpu, why = plait_cuda_why(call, name))

/* What gives something back is tried twice: a call may return the error of an earlier one. */
#define GIVE_BACK(gpu, name, call) \
    do {                           \
        CALL(gpu, name, call);     \
        if (why != NULL)           \
            CALL(gpu, name, call); \
    } while (0)

/* The argument is copied. */
const char *plait_cuda_launch(const struct gpu *gpu, void *stream, enum plait_cuda_kernel kernel, unsigned blocks,
                              const void *argument);

#endif
