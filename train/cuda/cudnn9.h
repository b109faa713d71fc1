/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuDNN 9's backend API, as far as convolutions need it, loaded at run time. The values are declared independently, so
 * that plait-train builds without cuDNN; where its headers are, libraries_check.c compares them.
 */
#ifndef PLAIT_TRAIN_CUDA_CUDNN9_H
#define PLAIT_TRAIN_CUDA_CUDNN9_H

#include <stddef.h>
#include <stdint.h>

/* name after CUDNN_, value */
#define CUDNN9_VALUE_LIST(X)                                        \
    X(STATUS_SUCCESS, 0)                                            \
    X(STATUS_NOT_INITIALIZED, 1001)                                 \
    X(STATUS_BAD_PARAM, 2000)                                       \
    X(STATUS_BAD_PARAM_NULL_POINTER, 2002)                          \
    X(STATUS_BAD_PARAM_NOT_FINALIZED, 2004)                         \
    X(STATUS_BAD_PARAM_ATTRIBUTE_TYPE, 2010)                        \
    X(STATUS_NOT_SUPPORTED, 3000)                                   \
    X(STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003)           \
    X(STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004)         \
    X(STATUS_EXECUTION_FAILED, 5000)                                \
    X(DATA_FLOAT, 0)                                                \
    X(DATA_HALF, 2)                                                 \
    X(DATA_BFLOAT16, 9)                                             \
    X(CROSS_CORRELATION, 1)                                         \
    X(HEUR_MODE_FALLBACK, 2)                                        \
    X(HEUR_MODE_A, 3)                                               \
    X(NUMERICAL_NOTE_TENSOR_CORE, 0)                                \
    X(NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                        \
    X(NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                \
    X(NUMERICAL_NOTE_FFT, 3)                                        \
    X(NUMERICAL_NOTE_NONDETERMINISTIC, 4)                           \
    X(NUMERICAL_NOTE_WINOGRAD, 5)                                   \
    X(TYPE_HANDLE, 0)                                               \
    X(TYPE_DATA_TYPE, 1)                                            \
    X(TYPE_BOOLEAN, 2)                                              \
    X(TYPE_INT64, 3)                                                \
    X(TYPE_FLOAT, 4)                                                \
    X(TYPE_VOID_PTR, 6)                                             \
    X(TYPE_CONVOLUTION_MODE, 7)                                     \
    X(TYPE_HEUR_MODE, 8)                                            \
    X(TYPE_NUMERICAL_NOTE, 11)                                      \
    X(TYPE_BACKEND_DESCRIPTOR, 15)                                  \
    X(TYPE_CHAR, 24)                                                \
    X(BACKEND_CONVOLUTION_DESCRIPTOR, 1)                            \
    X(BACKEND_ENGINE_DESCRIPTOR, 2)                                 \
    X(BACKEND_ENGINECFG_DESCRIPTOR, 3)                              \
    X(BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                             \
    X(BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                         \
    X(BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)         \
    X(BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
    X(BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)   \
    X(BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                        \
    X(BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                          \
    X(BACKEND_TENSOR_DESCRIPTOR, 17)                                \
    X(BACKEND_DEVICEPROP_DESCRIPTOR, 38)                            \
    X(ATTR_CONVOLUTION_COMP_TYPE, 100)                              \
    X(ATTR_CONVOLUTION_CONV_MODE, 101)                              \
    X(ATTR_CONVOLUTION_DILATIONS, 102)                              \
    X(ATTR_CONVOLUTION_FILTER_STRIDES, 103)                         \
    X(ATTR_CONVOLUTION_POST_PADDINGS, 104)                          \
    X(ATTR_CONVOLUTION_PRE_PADDINGS, 105)                           \
    X(ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                           \
    X(ATTR_ENGINEHEUR_MODE, 200)                                    \
    X(ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                         \
    X(ATTR_ENGINEHEUR_RESULTS, 202)                                 \
    X(ATTR_ENGINEHEUR_DEVICEPROP, 204)                              \
    X(ATTR_ENGINECFG_ENGINE, 300)                                   \
    X(ATTR_EXECUTION_PLAN_HANDLE, 400)                              \
    X(ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                       \
    X(ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                      \
    X(ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                          \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                 \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)            \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                    \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                    \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                    \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)               \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)           \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                   \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                  \
    X(ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                  \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)             \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)              \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)         \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                 \
    X(ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                \
    X(ATTR_OPERATIONGRAPH_HANDLE, 800)                              \
    X(ATTR_OPERATIONGRAPH_OPS, 801)                                 \
    X(ATTR_TENSOR_BYTE_ALIGNMENT, 900)                              \
    X(ATTR_TENSOR_DATA_TYPE, 901)                                   \
    X(ATTR_TENSOR_DIMENSIONS, 902)                                  \
    X(ATTR_TENSOR_STRIDES, 903)                                     \
    X(ATTR_TENSOR_UNIQUE_ID, 906)                                   \
    X(ATTR_TENSOR_IS_VIRTUAL, 907)                                  \
    X(ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                           \
    X(ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                        \
    X(ATTR_VARIANT_PACK_WORKSPACE, 1003)                            \
    X(ATTR_ENGINE_GLOBAL_INDEX, 1301)                               \
    X(ATTR_ENGINE_NUMERICAL_NOTE, 1303)                             \
    X(ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)

enum {
#define PLAIT_X(name, value) CUDNN9_##name = value,
    CUDNN9_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
};

typedef void *cudnn_descriptor; /* cudnnBackendDescriptor_t */

/* name in the table, name in the library, result, arguments. Enums are ints. */
#define CUDNN9_FUNCTION_LIST(X)                                                                       \
    X(version, "cudnnGetVersion", size_t, (void))                                                     \
    X(cudart_version, "cudnnGetCudartVersion", size_t, (void))                                        \
    X(error_string, "cudnnGetErrorString", const char *, (int status))                                \
    X(last_error, "cudnnGetLastErrorString", void, (char *out, size_t room))                          \
    X(create, "cudnnCreate", int, (void **out))                                                       \
    X(destroy, "cudnnDestroy", int, (void *handle))                                                   \
    X(set_stream, "cudnnSetStream", int, (void *handle, void *stream))                                \
    X(make, "cudnnBackendCreateDescriptor", int, (int type, cudnn_descriptor *out))                   \
    X(drop, "cudnnBackendDestroyDescriptor", int, (cudnn_descriptor descriptor))                      \
    X(finalize, "cudnnBackendFinalize", int, (cudnn_descriptor descriptor))                           \
    X(set, "cudnnBackendSetAttribute", int,                                                           \
      (cudnn_descriptor descriptor, int attribute, int type, int64_t n, const void *values))          \
    X(get, "cudnnBackendGetAttribute", int,                                                           \
      (cudnn_descriptor descriptor, int attribute, int type, int64_t room, int64_t *n, void *values)) \
    X(execute, "cudnnBackendExecute", int, (void *handle, cudnn_descriptor plan, cudnn_descriptor pack))

struct cudnn_functions {
#define PLAIT_X(name, symbol, result, arguments) result(*name) arguments;
    CUDNN9_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};

#endif
