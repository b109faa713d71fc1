/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the blocks of a list (struct plait_cuda_list). */
#ifndef PLAIT_CUDA_LIST_BODY_H
#define PLAIT_CUDA_LIST_BODY_H

#include "copy_body.h"

struct plait_part {     /* of a block: `count` elements */
    uint64_t in, out;   /* bytes from the operands' addresses, and from the results', to the part */
    uint32_t src, nsrc; /* slots of the operands */
    uint32_t dst, ndst; /* of the results */
    uint32_t count;
    bool lines;
};

BODY const char *plait_list_at(const struct plait_cuda_list *a, uint32_t slot)
{
    return (const char *)(uintptr_t)a->slot[slot];
}

BODY char *plait_list_to(const struct plait_cuda_list *a, uint32_t slot)
{
    return (char *)(uintptr_t)a->slot[slot];
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
    const uint64_t on = block * item->count;
    const bool gathers = item->gathers != 0;
    struct plait_part p;

    p.in = item->in + (gathers ? start : on + start) * size;
    p.out = item->out + (gathers ? on + start : start) * size;
    p.src = item->src + (gathers ? block : 0);
    p.dst = item->dst + (gathers ? 0 : block);
    p.nsrc = gathers ? 1 : item->nsrc;
    p.ndst = gathers || item->times == 1 ? item->ndst : 1;
    p.count = left < a->chunk ? (uint32_t)left : a->chunk;
    p.lines = item->lines != 0;
    return p;
}

/*
 * `work` on the parts of a block of threads: chunks are numbered over all blocks of all items, and it takes chunks b,
 * b + nblock, and so on.
 */
#define plait_list_walk(a, at, size, part, work)                                                           \
    do {                                                                                                   \
        uint64_t chunk_ = (at)->block, first_ = 0; /* of the item */                                       \
        for (uint32_t i_ = 0; i_ < (a)->nitem; i_++) {                                                     \
            const struct plait_cuda_item *item_ = &(a)->item[i_];                                          \
            const uint64_t end_ = first_ + (uint64_t)item_->nchunk * item_->times;                         \
            for (; chunk_ < end_; chunk_ += (at)->nblock) {                                                \
                const struct plait_part part = plait_part_of(a, item_, (uint32_t)(chunk_ - first_), size); \
                work;                                                                                      \
            }                                                                                              \
            first_ = end_;                                                                                 \
        }                                                                                                  \
    } while (0)

/* Lines u, u + nthread and so on of a part, of nline, from `head` bytes on. */
BODY void plait_part_lines(const struct plait_cuda_list *a, const struct plait_part *p, uint32_t head, uint32_t u,
                           uint32_t nline, uint32_t nthread)
{
    const char *s = plait_list_at(a, p->src) + p->in + head;
    struct plait_line lines[PLAIT_COPY_LINES];

    UNROLL for (uint32_t k = 0; k < PLAIT_COPY_LINES; k++) if (u + k * nthread < nline) lines[k] =
        plait_line_get(s + (u + k * nthread) * 16);
    for (uint32_t d = 0; d < p->ndst; d++) {
        char *t = plait_list_to(a, p->dst + d) + p->out + head;
        UNROLL for (uint32_t k = 0; k < PLAIT_COPY_LINES; k++) if (t != s && u + k * nthread < nline)
            plait_line_put(t + (u + k * nthread) * 16, lines[k]);
    }
}

/* The bytes of one operand, to all results. size: of an element */
BODY void plait_part_copy(const struct plait_cuda_list *a, const struct plait_part *p, uint32_t size,
                          const struct plait_where *at)
{
    const char *s = plait_list_at(a, p->src) + p->in;
    const uint32_t bytes = p->count * size, head = p->lines ? (uint32_t)plait_head(s, 1, bytes) : bytes;
    const uint32_t nline = (bytes - head) / 16, tail = head + nline * 16;

    for (uint32_t u = at->thread; u < nline; u += PLAIT_COPY_LINES * at->nthread)
        plait_part_lines(a, p, head, u, nline, at->nthread);
    for (uint32_t d = 0; d < p->ndst && nline * 16 < bytes; d++) {
        char *t = plait_list_to(a, p->dst + d) + p->out;
        if (t == s)
            continue;
        plait_copy_bytes(t, s, head, at->thread, at->nthread);
        plait_copy_bytes(t + tail, s + tail, bytes - tail, at->thread, at->nthread);
    }
}

BODY uint32_t plait_copy_phases(const struct plait_cuda_list *a, const struct plait_where *at)
{
    (void)a, (void)at;
    return 1;
}

BODY void plait_copy_body(const struct plait_cuda_list *a, uint32_t phase, const struct plait_where *at, double *shared)
{
    (void)phase, (void)shared;
    plait_list_walk(a, at, 1, part, plait_part_copy(a, &part, 1, at));
}

#endif
