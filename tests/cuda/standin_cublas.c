/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for cuBLAS over that for the driver (standin.h): fp32 products by plain loops, in the order of the stream.
 *
 * Environment:
 *   PLAIT_STANDIN_CUBLAS_VERSION  its major version (13)
 *   PLAIT_STANDIN_CUBLAS_CREATE   status of cublasCreate (0)
 *   PLAIT_STANDIN_CUBLAS_GEMM     status of products (0)
 */
#include "standin_numbers.h"

#include "cublas12.h"

#define PLAIT_X(name, symbol, result, arguments) EXPORT result standin_##name arguments __asm__(symbol);
CUBLAS12_FUNCTION_LIST(PLAIT_X)
#undef PLAIT_X

struct handle {
    void *stream, *workspace;
    size_t bytes;
};

struct product { /* by columns: c [m][n] */
    int64_t m, n, k, lda, ldb, ldc;
    int transpose_a, transpose_b, tf32;
    float alpha, beta;
    const float *a, *b;
    float *c;
};

int standin_property(int which, int *out)
{
    *out = which == BLAS_MAJOR_VERSION ? (int)standin_setting("PLAIT_STANDIN_CUBLAS_VERSION", 13) : 0;
    return BLAS_CUBLAS_STATUS_SUCCESS;
}

const char *standin_status_string(int status)
{
    return status == BLAS_CUBLAS_STATUS_NOT_SUPPORTED ? "the requested functionality is not supported" : "an error";
}

int standin_create(void **out)
{
    const int status = (int)standin_setting("PLAIT_STANDIN_CUBLAS_CREATE", 0);

    if (!standin_has_context())
        return BLAS_CUBLAS_STATUS_NOT_INITIALIZED;
    if (status == 0)
        *out = calloc(1, sizeof(struct handle));
    return status;
}

int standin_destroy(void *handle)
{
    free(handle);
    return BLAS_CUBLAS_STATUS_SUCCESS;
}

/* As cuBLAS has it: the workspace is its own again. */
int standin_set_stream(void *handle, void *stream)
{
    *(struct handle *)handle = (struct handle){ .stream = stream };
    return BLAS_CUBLAS_STATUS_SUCCESS;
}

int standin_set_workspace(void *handle, void *workspace, size_t bytes)
{
    struct handle *h = handle;

    if ((uintptr_t)workspace % 256 != 0)
        return BLAS_CUBLAS_STATUS_INVALID_VALUE;
    h->workspace = workspace;
    h->bytes = bytes;
    return BLAS_CUBLAS_STATUS_SUCCESS;
}

static float element(const struct product *p, const float *from, int64_t at)
{
    uint32_t word;
    float value;

    memcpy(&word, &from[at], sizeof word);
    word &= p->tf32 ? ~UINT32_C(0x1fff) : UINT32_MAX;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void multiply(void *context)
{
    const struct product *p = context;

    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            float sum = 0, *c = &p->c[j * p->ldc + i];
            for (int64_t l = 0; l < p->k; l++)
                sum += element(p, p->a, p->transpose_a ? i * p->lda + l : l * p->lda + i) *
                       element(p, p->b, p->transpose_b ? l * p->ldb + j : j * p->ldb + l);
            *c = p->alpha * sum + (p->beta != 0 ? p->beta * *c : 0);
        }
}

static int put(const struct handle *h, const struct product *p)
{
    const struct standin_access accesses[] = {
        { p->a, (uint64_t)(p->lda * (p->transpose_a ? p->m : p->k)) * 4, 0 },
        { p->b, (uint64_t)(p->ldb * (p->transpose_b ? p->k : p->n)) * 4, 0 },
        { h->workspace, h->bytes, 1 },
        { p->c, (uint64_t)(p->ldc * p->n) * 4, 1 },
    };
    standin_operate_function *operate;

    *(void **)&operate = standin_driver("standin_operate");
    return operate == NULL || operate(h->stream, "cuBLAS's product", multiply, p, sizeof *p, accesses, 4) != 0
               ? BLAS_CUBLAS_STATUS_NOT_INITIALIZED
               : BLAS_CUBLAS_STATUS_SUCCESS;
}

int standin_gemm(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
                 int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                 int compute, int algorithm)
{
    const struct product p = { m,
                               n,
                               k,
                               lda,
                               ldb,
                               ldc,
                               op_a == BLAS_CUBLAS_OP_T,
                               op_b == BLAS_CUBLAS_OP_T,
                               compute == BLAS_CUBLAS_COMPUTE_32F_FAST_TF32,
                               *(const float *)alpha,
                               *(const float *)beta,
                               a,
                               b,
                               c };
    const int64_t rows_a = p.transpose_a ? k : m, rows_b = p.transpose_b ? n : k;
    const int status = (int)standin_setting("PLAIT_STANDIN_CUBLAS_GEMM", 0);
    const struct handle *h = handle;

    if (status != 0)
        return status;
    if (type_a != BLAS_CUDA_R_32F || type_b != BLAS_CUDA_R_32F || type_c != BLAS_CUDA_R_32F ||
        algorithm != BLAS_CUBLAS_GEMM_DEFAULT || (compute != BLAS_CUBLAS_COMPUTE_32F && !p.tf32) || m < 1 || n < 1 ||
        k < 1 || lda < rows_a || ldb < rows_b || ldc < m || h->workspace == NULL)
        return BLAS_CUBLAS_STATUS_INVALID_VALUE;
    return put(h, &p);
}
