/* SPDX-License-Identifier: BSD-3-Clause */
/* cuBLAS 12 and 13, as far as products need it; like cudnn9.h. */
#ifndef PLAIT_TRAIN_CUDA_CUBLAS12_H
#define PLAIT_TRAIN_CUDA_CUBLAS12_H

#include <stddef.h>

/* name in the header, value */
#define CUBLAS12_VALUE_LIST(X)          \
    X(CUBLAS_STATUS_SUCCESS, 0)         \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1) \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)    \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)   \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)  \
    X(CUBLAS_OP_N, 0)                   \
    X(CUBLAS_OP_T, 1)                   \
    X(CUBLAS_COMPUTE_32F, 68)           \
    X(CUBLAS_COMPUTE_32F_FAST_TF32, 77) \
    X(CUBLAS_GEMM_DEFAULT, -1)          \
    X(CUDA_R_32F, 0)                    \
    X(MAJOR_VERSION, 0)                 \
    X(MINOR_VERSION, 1)                 \
    X(PATCH_LEVEL, 2)

enum {
#define PLAIT_X(name, value) BLAS_##name = value,
    CUBLAS12_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
};

/* name in the table, name in the library, result, arguments. Enums are ints; alpha and beta are the host's. */
#define CUBLAS12_FUNCTION_LIST(X)                                                                                    \
    X(property, "cublasGetProperty", int, (int which, int *out))                                                     \
    X(status_string, "cublasGetStatusString", const char *, (int status))                                            \
    X(create, "cublasCreate_v2", int, (void **out))                                                                  \
    X(destroy, "cublasDestroy_v2", int, (void *handle))                                                              \
    X(set_stream, "cublasSetStream_v2", int, (void *handle, void *stream))                                           \
    X(set_workspace, "cublasSetWorkspace_v2", int, (void *handle, void *workspace, size_t bytes))                    \
    X(gemm, "cublasGemmEx", int,                                                                                     \
      (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda, \
       const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,              \
       int algorithm))

struct cublas_functions {
#define PLAIT_X(name, symbol, result, arguments) result(*name) arguments;
    CUBLAS12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X
};

#endif
