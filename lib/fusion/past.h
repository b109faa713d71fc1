/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing an array past the caches, piece by piece, whatever its alignment. Only whole lines go past them, so what does
 * not fill one waits for the next piece; byte 0 of the buffer stands for the beginning of the line.
 */
#ifndef PLAIT_LIB_FUSION_PAST_H
#define PLAIT_LIB_FUSION_PAST_H

#include "pass.h"

#include <string.h>

struct plait_past {
    const struct plait_kernels *k;
    char *line;        /* where the buffer goes, whole lines */
    size_t lead, held; /* bytes of the buffer: those in front that are not the array's; all */
    _Alignas(64) char buffer[64 + PLAIT_PASS_PIECE * 8];
};

static inline void plait_past_init(struct plait_past *p, const struct plait_kernels *k, void *to)
{
    p->k = k;
    p->lead = p->held = (uintptr_t)to % 64;
    p->line = (char *)to - p->lead;
}

/* Where the next piece is to be put. */
static inline void *plait_past_room(struct plait_past *p)
{
    return p->buffer + p->held;
}

/* Where whole lines may be written past the caches by somebody else, who does; NULL: what waits comes before them. */
static inline void *plait_past_skip(struct plait_past *p, size_t bytes)
{
    char *at = p->line;

    if (p->held > 0 || bytes % 64 > 0)
        return NULL;
    p->line += bytes;
    return at;
}

/* It is there. */
static inline void plait_past_put(struct plait_past *p, size_t bytes)
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

/* That was all. */
static inline void plait_past_finish(struct plait_past *p)
{
    memcpy(p->line + p->lead, p->buffer + p->lead, p->held - p->lead);
    p->k->stream_end();
}

#endif
