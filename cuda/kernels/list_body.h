/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the blocks of a list (struct plait_cuda_list). */
#ifndef PLAIT_CUDA_LIST_BODY_H
#define PLAIT_CUDA_LIST_BODY_H

#include "copy_body.h"

struct plait_part {        /* elements start .. start + count of a block */
    uint32_t src, nsrc;    /* slots of the operands */
    uint32_t dst, ndst;    /* of the results */
    uint64_t in, out;      /* bytes from their addresses to the block */
    uint64_t start, count; /* elements */
    bool lines;
};

BODY const char *plait_list_at(const struct plait_cuda_list *a, uint32_t slot)
{
    return (const char *)(uintptr_t)a->slot[slot];
}

BODY char *plait_list_to(const struct plait_cuda_list *a, const struct plait_part *p, uint32_t d)
{
    return (char *)(uintptr_t)a->slot[p->dst + d] + p->out;
}

BODY bool plait_list_is_wide(const struct plait_cuda_list *a, uint32_t s)
{
    return s < 64 && (a->wide >> s & 1) != 0;
}

/* chunk: among those of the item's blocks; size: of an element */
BODY struct plait_part plait_part_of(const struct plait_cuda_list *a, const struct plait_cuda_item *item,
                                     uint32_t chunk, uint32_t size)
{
    const uint32_t block = item->times > 1 ? chunk / item->nchunk : 0;
    const uint64_t start = (uint64_t)(chunk - block * item->nchunk) * a->chunk, left = item->count - start;
    const uint64_t on = block * item->count * size;
    struct plait_part p;

    p.src = item->src + (item->gathers ? block : 0);
    p.dst = item->dst + (item->gathers ? 0 : block);
    p.nsrc = item->gathers && item->times > 1 ? 1 : item->nsrc;
    p.ndst = item->gathers || item->times == 1 ? item->ndst : 1;
    p.in = item->in + (item->gathers ? 0 : on);
    p.out = item->out + (item->gathers ? on : 0);
    p.start = start;
    p.count = left < a->chunk ? left : a->chunk;
    p.lines = item->lines != 0;
    return p;
}

enum { PLAIT_AT_ONCE = 4 }; /* lines that a thread reads before it writes the first */

/* Lines u, u + nthread and so on of s, of nline, to all results; `to`: bytes from a result's block. */
BODY void plait_part_lines(const struct plait_cuda_list *a, const struct plait_part *p, const char *s, uint64_t to,
                           uint64_t u, uint64_t nline, uint32_t nthread)
{
    struct plait_line lines[PLAIT_AT_ONCE];

    UNROLL for (uint32_t k = 0; k < PLAIT_AT_ONCE; k++) if (u + k * nthread < nline) lines[k] =
        plait_line_get(s + (u + k * nthread) * 16);
    for (uint32_t d = 0; d < p->ndst; d++) {
        char *t = plait_list_to(a, p, d) + to;
        UNROLL for (uint32_t k = 0; k < PLAIT_AT_ONCE; k++) if (t != s && u + k * nthread < nline)
            plait_line_put(t + (u + k * nthread) * 16, lines[k]);
    }
}

BODY void plait_part_copy(const struct plait_cuda_list *a, const struct plait_part *p, uint32_t size,
                          const struct plait_where *at)
{
    const char *s = plait_list_at(a, p->src) + p->in + p->start * size;
    const uint64_t bytes = p->count * size, head = p->lines ? plait_head(s, 1, bytes) : bytes;
    const uint64_t nline = (bytes - head) / 16, tail = head + nline * 16;

    for (uint64_t u = at->thread; u < nline; u += (uint64_t)PLAIT_AT_ONCE * at->nthread)
        plait_part_lines(a, p, s + head, p->start * size + head, u, nline, at->nthread);
    for (uint32_t d = 0; d < p->ndst; d++) {
        char *t = plait_list_to(a, p, d) + p->start * size;
        if (t == s)
            continue;
        plait_copy_bytes(t, s, head, at->thread, at->nthread);
        plait_copy_bytes(t + tail, s + tail, bytes - tail, at->thread, at->nthread);
    }
}

#endif
