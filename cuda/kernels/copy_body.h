/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_CUDA_COPY_BODY_H
#define PLAIT_CUDA_COPY_BODY_H

#include "body.h"

/* As the thread-th of nthread. */
BODY void plait_copy_bytes(void *dst, const void *src, uint64_t bytes, uint64_t thread, uint64_t nthread)
{
    char *d = (char *)dst;
    const char *s = (const char *)src;
    const uint64_t start = plait_head(d, 1, bytes);
    const uint64_t head = plait_is_line(s + start) ? start : bytes;
    const uint64_t nline = (bytes - head) / sizeof(struct plait_line);
    const uint64_t whole = nline * sizeof(struct plait_line);

    for (uint64_t i = thread; i < nline; i += nthread)
        plait_line_put(d + head + i * sizeof(struct plait_line),
                       plait_line_get(s + head + i * sizeof(struct plait_line)));
    for (uint64_t i = thread; i < bytes - whole; i += nthread) {
        const uint64_t at = i < head ? i : i + whole;
        d[at] = s[at];
    }
}

BODY uint32_t plait_copy_phases(const struct plait_cuda_copy *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

BODY void plait_copy_body(const struct plait_cuda_copy *a, uint32_t phase, const struct plait_where *at, double *shared)
{
    (void)phase, (void)shared;
    plait_copy_bytes(a->dst, a->src, a->bytes, plait_thread(at), plait_nthread(at));
}

BODY uint32_t plait_copies_phases(const struct plait_cuda_copies *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

/* Chunks are numbered through all copies; block b takes b, b + nblock, and so on. */
BODY void plait_copies_body(const struct plait_cuda_copies *a, uint32_t phase, const struct plait_where *at,
                            double *shared)
{
    uint64_t chunk = at->block, first = 0; /* of the copy */

    (void)phase, (void)shared;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct plait_cuda_copy *c = &a->copy[i];
        const uint64_t end = first + c->bytes / PLAIT_CUDA_CHUNK + (c->bytes % PLAIT_CUDA_CHUNK != 0);
        for (; chunk < end; chunk += at->nblock) {
            const uint64_t start = (chunk - first) * PLAIT_CUDA_CHUNK, left = c->bytes - start;
            plait_copy_bytes((char *)c->dst + start, (const char *)c->src + start,
                             left < PLAIT_CUDA_CHUNK ? left : PLAIT_CUDA_CHUNK, at->thread, at->nthread);
        }
        first = end;
    }
}

#endif
