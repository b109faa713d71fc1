/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"

#include "libraries.h"

#include "../../cuda/driver.h"

#include <limits.h>

/*
 * cuBLAS's matrices lie by columns, so it computes the transposed product: DST' [columns][rows] = WEIGHTS' x SRC'. What
 * lies by rows here is already transposed for it.
 */
const char *product_run(struct libraries *l, const struct device_product *s, bool tf32, const void *src,
                        const void *weights, void *dst)
{
    const int rows = (int)s->rows, inner = (int)s->inner, columns = (int)s->columns;
    const float one = 1, to = s->add || s->bias ? 1 : 0;

    if (s->rows > INT_MAX || s->inner > INT_MAX || s->columns > INT_MAX)
        return plait_cuda_say("a product of %u x %u by %u x %u is too large for cuBLAS", s->rows, s->inner, s->inner,
                              s->columns);
    const int status =
        l->blas.gemm(l->products, s->weights_columns ? BLAS_CUBLAS_OP_T : BLAS_CUBLAS_OP_N,
                     s->src_columns ? BLAS_CUBLAS_OP_T : BLAS_CUBLAS_OP_N, columns, rows, inner, &one, weights,
                     BLAS_CUDA_R_32F, s->weights_columns ? inner : columns, src, BLAS_CUDA_R_32F,
                     s->src_columns ? rows : inner, &to, dst, BLAS_CUDA_R_32F, columns,
                     tf32 ? BLAS_CUBLAS_COMPUTE_32F_FAST_TF32 : BLAS_CUBLAS_COMPUTE_32F, BLAS_CUBLAS_GEMM_DEFAULT);
    if (status == BLAS_CUBLAS_STATUS_SUCCESS)
        return NULL;
    return plait_cuda_say("the product of %d x %d by %d x %d: cublasGemmEx of cuBLAS %s (%s): %s", rows, inner, inner,
                          columns, l->blas_version, l->blas_file, l->blas.status_string(status));
}
