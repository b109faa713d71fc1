/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include "collectives.h"

#include <stdlib.h>

bool parts_init(struct parts *p, uint32_t n)
{
    p->count = calloc(n, sizeof *p->count);
    p->elements = calloc(n, sizeof *p->elements);
    p->start = calloc(n, sizeof *p->start);
    return p->count != NULL && p->elements != NULL && p->start != NULL;
}

void parts_finish(struct parts *p)
{
    free(p->count);
    free(p->elements);
    free(p->start);
}

struct parts parts_of(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                      const struct parts *room)
{
    const struct parts none = { NULL, NULL, NULL };
    uint64_t start = 0;

    if (!collective_is_vform(coll) || side->nslot == 0)
        return none;
    for (uint32_t i = 0; i < side->nslot; i++) {
        const uint64_t end = collective_elements(coll, nrank, count, side, i + 1);
        room->count[i] = end - start;
        room->elements[i] = (int)(end - start);
        room->start[i] = (int)start;
        start = end;
    }
    return *room;
}
