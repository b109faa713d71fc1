/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write an array with streaming stores, piece by piece, at any alignment. Only whole cache lines are streamed: the rest
 * of a piece waits in the buffer for the next piece. Byte 0 of the buffer is the first byte of a cache line.
 */
#ifndef PLAIT_LIB_FUSION_STREAMING_H
#define PLAIT_LIB_FUSION_STREAMING_H

#include "pass.h"

#include <string.h>

struct plait_streaming {
    const struct plait_kernels *k;
    char *line;        /* destination of the buffer, aligned to a cache line */
    size_t lead, held; /* bytes in the buffer: before the array's start; in all */
    _Alignas(64) char buffer[64 + PLAIT_PASS_PIECE * 8];
};

static inline void plait_streaming_init(struct plait_streaming *p, const struct plait_kernels *k, void *to)
{
    p->k = k;
    p->lead = p->held = (uintptr_t)to % 64;
    p->line = (char *)to - p->lead;
}

/* The caller writes the next piece here, then calls plait_streaming_put(). */
static inline void *plait_streaming_room(struct plait_streaming *p)
{
    return p->buffer + p->held;
}

/* The caller itself streams `bytes` to the returned address. NULL: bytes wait in the buffer or make no whole lines. */
static inline void *plait_streaming_skip(struct plait_streaming *p, size_t bytes)
{
    char *at = p->line;

    if (p->held > 0 || bytes % 64 > 0)
        return NULL;
    p->line += bytes;
    return at;
}

/* The piece is in the buffer: stream the whole cache lines. */
static inline void plait_streaming_put(struct plait_streaming *p, size_t bytes)
{
    const size_t whole = (p->held + bytes) / 64 * 64, skip = p->lead > 0 ? 64 : 0;

    p->held += bytes;
    if (whole == 0)
        return;
    memcpy(p->line + p->lead, p->buffer + p->lead, skip - p->lead);
    p->k->stream_some(p->line + skip, p->buffer + skip, whole - skip);
    p->line += whole;
    p->held -= whole;
    p->lead = 0;
    memcpy(p->buffer, p->buffer + whole, p->held);
}

/* Write the rest. */
static inline void plait_streaming_finish(struct plait_streaming *p)
{
    memcpy(p->line + p->lead, p->buffer + p->lead, p->held - p->lead);
    p->k->stream_end();
}

#endif
