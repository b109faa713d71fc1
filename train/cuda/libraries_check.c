/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled where the headers of cuDNN and cuBLAS are: checks that cudnn9.h and cublas12.h agree with them. There is
 * nothing to run.
 */
#include "cublas12.h"
#include "cudnn9.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <stdbool.h>

#define PLAIT_X(name, value) _Static_assert((int)CUDNN_##name == (value), "CUDNN_" #name);
CUDNN9_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, value) _Static_assert((int)name == (value), #name);
CUBLAS12_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
_Static_assert(CUDNN_MAJOR >= 9, "cuDNN 9");

/* Enums are passed as ints. */
_Static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnBackendAttributeName_t) == sizeof(int) &&
                   sizeof(cudnnBackendAttributeType_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int) &&
                   sizeof(cudnnBackendDescriptorType_t) == sizeof(int) &&
                   sizeof(cudnnBackendNumericalNote_t) == sizeof(int) && sizeof(cublasStatus_t) == sizeof(int) &&
                   sizeof(cublasOperation_t) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int) &&
                   sizeof(cublasGemmAlgo_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int),
               "enums");
_Static_assert(sizeof(cudnnBackendDescriptor_t) == sizeof(cudnn_descriptor), "descriptors");

/* Each function takes the arguments that are passed to it: never called, but compiled. */
void libraries_check(void *p, void **out, const void *in, char *text, int i, int64_t n, size_t bytes);

void libraries_check(void *p, void **out, const void *in, char *text, int i, int64_t n, size_t bytes)
{
    int status = 0;

    bytes += cudnnGetVersion() + cudnnGetCudartVersion();
    in = cudnnGetErrorString((cudnnStatus_t)i);
    cudnnGetLastErrorString(text, bytes);
    status |= (int)cudnnCreate((cudnnHandle_t *)out) | (int)cudnnDestroy(p) | (int)cudnnSetStream(p, p);
    status |= (int)cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)i, out);
    status |= (int)cudnnBackendDestroyDescriptor(p) | (int)cudnnBackendFinalize(p);
    status |= (int)cudnnBackendSetAttribute(p, (cudnnBackendAttributeName_t)i, (cudnnBackendAttributeType_t)i, n, in);
    status |=
        (int)cudnnBackendGetAttribute(p, (cudnnBackendAttributeName_t)i, (cudnnBackendAttributeType_t)i, n, &n, p);
    status |= (int)cudnnBackendExecute(p, p, p);
    status |= (int)cublasGetProperty((libraryPropertyType)i, &i);
    in = cublasGetStatusString((cublasStatus_t)i);
    status |= (int)cublasCreate_v2((cublasHandle_t *)out) | (int)cublasDestroy_v2(p) | (int)cublasSetStream_v2(p, p);
    status |= (int)cublasSetWorkspace_v2(p, p, bytes);
    status |=
        (int)cublasGemmEx(p, (cublasOperation_t)i, (cublasOperation_t)i, i, i, i, in, in, (cudaDataType)i, i, in,
                          (cudaDataType)i, i, in, p, (cudaDataType)i, i, (cublasComputeType_t)i, (cublasGemmAlgo_t)i);
    *out = status != 0 ? p : NULL;
}
