/* SPDX-License-Identifier: BSD-3-Clause */
/* nvJPEG 12 and 13, as far as decoding single images needs it; like cudnn9.h. */
#ifndef PLAIT_TRAIN_CUDA_NVJPEG12_H
#define PLAIT_TRAIN_CUDA_NVJPEG12_H

#include <stddef.h>

/* name in the header after NVJPEG_STATUS_, value, for people */
#define NVJPEG12_STATUS_LIST(X)                                   \
    X(SUCCESS, 0, "no error")                                     \
    X(NOT_INITIALIZED, 1, "not initialised")                      \
    X(INVALID_PARAMETER, 2, "a parameter it does not take")       \
    X(BAD_JPEG, 3, "the JPEG is damaged")                         \
    X(JPEG_NOT_SUPPORTED, 4, "a kind of JPEG it does not decode") \
    X(ALLOCATOR_FAILURE, 5, "no memory is left")                  \
    X(EXECUTION_FAILED, 6, "an error on the GPU")                 \
    X(ARCH_MISMATCH, 7, "it does not know this GPU")              \
    X(INTERNAL_ERROR, 8, "an error of its own")                   \
    X(IMPLEMENTATION_NOT_SUPPORTED, 9, "not implemented")         \
    X(INCOMPLETE_BITSTREAM, 10, "the JPEG is incomplete")

/* name in the header after NVJPEG_, value. RGBI: red, green, blue of a pixel lie together */
#define NVJPEG12_VALUE_LIST(X)   \
    X(BACKEND_DEFAULT, 0)        \
    X(OUTPUT_RGBI, 5)            \
    X(FLAGS_BITSTREAM_STRICT, 4) \
    X(FLAGS_UPSAMPLING_WITH_INTERPOLATION, 32)

enum {
#define PLAIT_X(name, value, text) NVJPEG12_STATUS_##name = value,
    NVJPEG12_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, value) NVJPEG12_##name = value,
        NVJPEG12_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
};

struct nvjpeg12_image { /* where the result lies: RGBI in the first channel */
    unsigned char *channel[4];
    size_t pitch[4]; /* bytes of a row */
};

/* name in the table, name in the library, result, arguments. Enums are ints; property: as cuBLAS has it */
#define NVJPEG12_FUNCTION_LIST(X)                                                                                 \
    X(property, "nvjpegGetProperty", int, (int which, int *out))                                                  \
    X(create, "nvjpegCreateEx", int,                                                                              \
      (int backend, const void *device_allocator, const void *pinned_allocator, unsigned flags, void **out))      \
    X(destroy, "nvjpegDestroy", int, (void *handle))                                                              \
    X(state_create, "nvjpegJpegStateCreate", int, (void *handle, void **out))                                     \
    X(state_destroy, "nvjpegJpegStateDestroy", int, (void *state))                                                \
    X(info, "nvjpegGetImageInfo", int,                                                                            \
      (void *handle, const unsigned char *jpeg, size_t bytes, int *components, int *sampling, int widths[4],      \
       int heights[4]))                                                                                           \
    X(decode, "nvjpegDecode", int,                                                                                \
      (void *handle, void *state, const unsigned char *jpeg, size_t bytes, int format, struct nvjpeg12_image *to, \
       void *stream))

struct nvjpeg_functions {
#define PLAIT_X(name, symbol, result, arguments) result(*name) arguments;
    NVJPEG12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};

#endif
