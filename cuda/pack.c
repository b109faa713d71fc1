/* SPDX-License-Identifier: BSD-3-Clause */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

/*
 * Tables on the device, in one allocation: the arrays; the arrays without data, for which zeros are packed; the pieces
 * of each; and the results for square_sum().
 */
struct plait_packing {
    struct gpu *gpu;
    enum plait_dtype type; /* of the payload */
    uint32_t n, npiece;
    bool sums;
    uint32_t *first;                               /* [n + 1] first piece of each array */
    char *memory;                                  /* device memory: */
    size_t pieces, squares, infinite, zero, bytes; /* offsets in it; its size */
    double *seen;                                  /* pinned: [npiece] squares, then `infinite`; or NULL */
};

static size_t seen_bytes(const struct plait_packing *p)
{
    return p->npiece * sizeof(double) + sizeof(uint32_t);
}

/* Lay out the tables. */
static void place(struct plait_packing *p)
{
    p->pieces = 2 * (size_t)p->n * sizeof(struct plait_cuda_tensor);
    p->squares = p->pieces + 2 * (size_t)p->npiece * sizeof(struct plait_cuda_piece);
    p->infinite = p->squares + p->npiece * sizeof(double);
    p->zero = p->infinite + sizeof(uint32_t);
    p->bytes = p->zero + sizeof(uint32_t);
}

static void fill(const struct plait_packing *p, const struct plait_segment *s, char *tables)
{
    struct plait_cuda_tensor *tensors = (void *)tables;
    struct plait_cuda_piece *pieces = (void *)(tables + p->pieces);

    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t i = 0; i < p->n; i++) {
            tensors[half * p->n + i] =
                (struct plait_cuda_tensor){ half == 0 ? s[i].data : NULL, s[i].at, (uint32_t)s[i].type };
            pieces = plait_cuda_cut(pieces, half * p->n + i, s[i].count);
        }
}

static const char *upload(struct plait_packing *p, const char *tables)
{
    cu_address memory = 0;
    void *seen = NULL;
    const char *why = plait_cuda_take(p->bytes, &memory);

    p->memory = (char *)(uintptr_t)memory;
    if (why == NULL && p->sums)
        why = plait_cuda_why(plait_cuda.mem_alloc_host(&seen, seen_bytes(p), DRIVER_HOST_PORTABLE), "cuMemHostAlloc");
    p->seen = seen;
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.copy_async(memory, (cu_address)(uintptr_t)tables, p->bytes, p->gpu->stream),
                             "cuMemcpyAsync");
    if (why == NULL)
        why = plait_cuda_why(plait_cuda.stream_synchronize(p->gpu->stream), "cuStreamSynchronize");
    return why;
}

const char *plait_cuda_make_packing(int device, const struct plait_segment *segments, uint32_t n,
                                    enum plait_dtype payload, bool sums, struct plait_packing **out)
{
    struct plait_packing *p = calloc(1, sizeof *p);
    char *tables = NULL;
    const char *why = NULL;

    if (p != NULL)
        p->first = calloc(n + 1, sizeof *p->first);
    if (p != NULL && p->first != NULL) {
        for (uint32_t i = 0; i < n; i++)
            p->first[i + 1] = p->first[i] + (uint32_t)plait_cuda_npiece(segments[i].count);
        p->n = n;
        p->npiece = p->first[n];
        p->type = payload;
        p->sums = sums;
        place(p);
        tables = calloc(1, p->bytes);
    }
    if (tables == NULL)
        why = plait_cuda_say("out of memory for tables of %u arrays", n);
    if (why == NULL)
        why = plait_cuda_gpu(device, &p->gpu);
    if (why == NULL) {
        fill(p, segments, tables);
        INSIDE(p->gpu, why = upload(p, tables));
    }
    free(tables);
    if (why == NULL)
        *out = p;
    else
        plait_cuda_free_packing(p);
    return why;
}

void plait_cuda_free_packing(struct plait_packing *p)
{
    const char *why;

    if (p != NULL && p->memory != NULL)
        TWICE(p->gpu, "cuMemFree", plait_cuda.mem_free((cu_address)(uintptr_t)p->memory));
    if (p != NULL && p->seen != NULL)
        TWICE(p->gpu, "cuMemFreeHost", plait_cuda.mem_free_host(p->seen));
    if (p != NULL)
        free(p->first);
    free(p);
}

/* Make the pieces from `first` on. */
static const char *launch(const struct plait_queue *q, const struct plait_packing *p, enum plait_cuda_kernel kernel,
                          uint32_t first, uint32_t npiece, struct plait_cuda_pack a)
{
    const char *why;

    a.tensors = (const void *)p->memory;
    a.pieces = (const struct plait_cuda_piece *)(const void *)(p->memory + p->pieces) + first;
    a.npiece = npiece;
    a.type = (uint32_t)p->type;
    ENTERED(q->gpu, true, why = plait_cuda_launch(q->gpu, q->stream, kernel, plait_cuda_piece_blocks(npiece), &a));
    return why;
}

const char *plait_cuda_pack_into(struct plait_queue *q, const struct plait_packing *p, void *payload, double factor)
{
    return launch(q, p, PLAIT_CUDA_KERNEL_plait_pack, 0, p->npiece,
                  (struct plait_cuda_pack){ .payload = payload, .factor = factor });
}

const char *plait_cuda_zero(struct plait_queue *q, const struct plait_packing *p, void *payload, uint32_t segment)
{
    return launch(q, p, PLAIT_CUDA_KERNEL_plait_pack, p->npiece + p->first[segment],
                  p->first[segment + 1] - p->first[segment],
                  (struct plait_cuda_pack){ .payload = payload, .factor = 1 });
}

static const char *copy(const struct plait_queue *q, const void *to, const void *from, size_t bytes)
{
    const char *why;

    PUT(q->gpu, "cuMemcpyAsync",
        plait_cuda.copy_async((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, bytes, q->stream));
    return why;
}

const char *plait_cuda_unpack_from(struct plait_queue *q, const struct plait_packing *p, void *payload, double factor)
{
    struct plait_cuda_pack a = { .payload = payload, .factor = factor };
    const char *why = NULL;

    if (p->sums) {
        a.squares = (double *)(void *)(p->memory + p->squares);
        a.infinite = (uint32_t *)(void *)(p->memory + p->infinite);
        why = copy(q, a.infinite, p->memory + p->zero, sizeof *a.infinite);
    }
    if (why == NULL)
        why = launch(q, p, PLAIT_CUDA_KERNEL_plait_unpack, 0, p->npiece, a);
    if (why == NULL && p->sums)
        why = copy(q, p->seen, a.squares, seen_bytes(p));
    return why;
}

bool plait_cuda_square_sum(const struct plait_packing *p, uint32_t segment, double *square)
{
    uint32_t infinite;

    memcpy(&infinite, p->seen + p->npiece, sizeof infinite);
    *square = 0;
    for (uint32_t i = p->first[segment]; i < p->first[segment + 1]; i++)
        *square += p->seen[i];
    return infinite == 0;
}
