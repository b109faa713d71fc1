/* SPDX-License-Identifier: BSD-3-Clause */
/* Using the stand-in for CUDA's driver directly, for the tests of it; or a driver. */
#ifndef PLAIT_TESTS_STANDIN_USE_H
#define PLAIT_TESTS_STANDIN_USE_H

#include "../unit.h"
#include "driver_types.h"
#include "standin_ask.h"

#include <stdbool.h>

#define HIDDEN __attribute__((visibility("hidden"))) /* the stand-in has functions of the same names */

#define STANDIN_CALLS(X)                                                                                        \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                                 \
    X(cuInit, (unsigned))                                                                                       \
    X(cuGetErrorName, (int, const char **))                                                                     \
    X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                                       \
    X(cuDeviceGetCount, (int *))                                                                                \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                 \
    X(cuCtxPushCurrent_v2, (void *))                                                                            \
    X(cuCtxPopCurrent_v2, (void **))                                                                            \
    X(cuCtxGetDevice, (int *))                                                                                  \
    X(cuCtxSynchronize, (void))                                                                                 \
    X(cuCtxEnablePeerAccess, (void *, unsigned))                                                                \
    X(cuMemAlloc_v2, (cu_address *, size_t))                                                                    \
    X(cuMemFree_v2, (cu_address))                                                                               \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                              \
    X(cuMemFreeHost, (void *))                                                                                  \
    X(cuPointerGetAttributes, (unsigned, int *, void **, cu_address))                                           \
    X(cuIpcGetMemHandle, (cu_ipc_handle *, cu_address))                                                         \
    X(cuIpcOpenMemHandle_v2, (cu_address *, cu_ipc_handle, unsigned))                                           \
    X(cuIpcCloseMemHandle, (cu_address))                                                                        \
    X(cuMemcpyAsync, (cu_address, cu_address, size_t, void *))                                                  \
    X(cuMemcpy, (cu_address, cu_address, size_t))                                                               \
    X(cuMemsetD32Async, (cu_address, unsigned, size_t, void *))                                                 \
    X(cuMemsetD32_v2, (cu_address, unsigned, size_t))                                                           \
    X(cuStreamCreate, (void **, unsigned))                                                                      \
    X(cuStreamDestroy_v2, (void *))                                                                             \
    X(cuStreamSynchronize, (void *))                                                                            \
    X(cuStreamQuery, (void *))                                                                                  \
    X(cuStreamGetId, (void *, unsigned long long *))                                                            \
    X(cuStreamGetCtx, (void *, void **))                                                                        \
    X(cuStreamWriteValue32_v2, (void *, cu_address, uint32_t, unsigned))                                        \
    X(cuStreamWaitValue32_v2, (void *, cu_address, uint32_t, unsigned))                                         \
    X(cuStreamBatchMemOp_v2, (void *, unsigned, const cu_mem_op *, unsigned))                                   \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                            \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                   \
    X(cuStreamEndCapture, (void *, void **))                                                                    \
    X(cuStreamGetCaptureInfo, (void *, int *, unsigned long long *))                                            \
    X(cuThreadExchangeStreamCaptureMode, (int *))                                                               \
    X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                                                     \
    X(cuEventCreate, (void **, unsigned))                                                                       \
    X(cuEventDestroy_v2, (void *))                                                                              \
    X(cuEventRecord, (void *, void *))                                                                          \
    X(cuEventQuery, (void *))                                                                                   \
    X(cuEventSynchronize, (void *))                                                                             \
    X(cuModuleLoadData, (void **, const void *))                                                                \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                     \
    X(cuLaunchKernel,                                                                                           \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                       \
    X(cuGraphLaunch, (void *, void *))                                                                          \
    X(cuGraphExecDestroy, (void *))                                                                             \
    X(cuGraphDestroy, (void *))

#define PLAIT_X(name, arguments) extern HIDDEN int(*name) arguments;
STANDIN_CALLS(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, result, arguments) extern HIDDEN result(*name) arguments;
STANDIN_LIST(PLAIT_X)
#undef PLAIT_X

void load(const char *path); /* or end; of a driver what is asked of the stand-in alone is NULL */
void ok(int result);

enum { N = 1000, STREAMS = 2 };

struct place {
    void *context, *streams[STREAMS], *event;
    cu_address a, b, word;
};

struct place start(void); /* with N elements at a and b, and 16 words that are 0 */
void expect(cu_address from, uint32_t value);

void *kernel(const char *name);
int launch(void *function, void *argument, unsigned blocks, void *stream);
void add(const struct place *p, void *stream);                              /* b += a */
struct plait_cuda_list copy_list(void *to, const void *from, size_t bytes); /* for plait_copy */
void add_to(cu_address a, cu_address b, cu_address to, void *stream);

/* In a process of its own; `text` becomes what it wrote to stderr. Did it end well? */
bool lives(void (*run)(void), char *text, size_t room);
void expect_death(void (*run)(void), const char *first, const char *second);
void expect_life(void (*run)(void));

#endif
