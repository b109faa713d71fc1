/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_CUDA_COPY_BODY_H
#define PLAIT_CUDA_COPY_BODY_H

#include "widths.h"

/* The widest access that is aligned in both buffers: 1 << this many bytes, up to a cache line. */
BODY uint32_t plait_copy_shift(const void *dst, const void *src)
{
    const uint32_t apart = (uint32_t)((uintptr_t)dst - (uintptr_t)src);
    uint32_t shift = 0;

    while (shift < 4 && (apart >> shift & 1) == 0)
        shift++;
    return shift;
}

BODY void plait_copy_unit(void *dst, const void *src, uint32_t shift)
{
    switch (shift) {
    case 3:
        *(plait_bits64 *)dst = *(const plait_bits64 *)src;
        return;
    case 2:
        *(plait_bits32 *)dst = *(const plait_bits32 *)src;
        return;
    case 1:
        *(plait_bits16 *)dst = *(const plait_bits16 *)src;
        return;
    default:
        *(char *)dst = *(const char *)src;
    }
}

BODY void plait_copy_by(char *d, const char *s, uint64_t bytes, uint32_t shift, uint64_t thread, uint64_t nthread)
{
    const uint64_t first = (0 - (uint64_t)(uintptr_t)d) & ((1U << shift) - 1), head = first < bytes ? first : bytes;
    const uint64_t nunit = (bytes - head) >> shift, whole = nunit << shift;

    for (uint64_t i = thread; i < nunit; i += nthread)
        plait_copy_unit(d + head + (i << shift), s + head + (i << shift), shift);
    for (uint64_t i = thread; i < bytes - whole; i += nthread) {
        const uint64_t at = i < head ? i : i + whole;
        d[at] = s[at];
    }
}

enum { PLAIT_COPY_LINES = 4 }; /* of a thread in flight */

BODY void plait_copy_lines(char *d, const char *s, uint64_t bytes, uint64_t thread, uint64_t nthread)
{
    const uint64_t head = plait_head(d, 1, bytes), nline = (bytes - head) / 16, whole = nline * 16;

    for (uint64_t i = thread; i < nline; i += PLAIT_COPY_LINES * nthread) {
        struct plait_line line[PLAIT_COPY_LINES];
        UNROLL for (uint32_t k = 0; k < PLAIT_COPY_LINES; k++) if (i + k * nthread < nline) line[k] =
            plait_line_get(s + head + (i + k * nthread) * 16);
        UNROLL for (uint32_t k = 0; k < PLAIT_COPY_LINES; k++) if (i + k * nthread < nline)
            plait_line_put(d + head + (i + k * nthread) * 16, line[k]);
    }
    for (uint64_t i = thread; i < bytes - whole; i += nthread) {
        const uint64_t at = i < head ? i : i + whole;
        d[at] = s[at];
    }
}

/* The part of thread `thread` of nthread. */
BODY void plait_copy_bytes(void *dst, const void *src, uint64_t bytes, uint64_t thread, uint64_t nthread)
{
    char *d = (char *)dst;
    const char *s = (const char *)src;
    const uint32_t shift = plait_copy_shift(d, s);

    if (shift == 4)
        plait_copy_lines(d, s, bytes, thread, nthread);
    else
        plait_copy_by(d, s, bytes, shift, thread, nthread);
}

BODY uint32_t plait_copies_phases(const struct plait_cuda_copies *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

/* Chunks are numbered over all copies; block b takes chunks b, b + nblock, and so on. */
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
