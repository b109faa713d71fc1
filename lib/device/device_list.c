/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_whole.h"

#include "base/status.h"
#include "failure/failure.h"
#include "plan/plan_check.h"

#include <stdlib.h>

/* May `next` be part of the item before, behind its blocks in the same memory, or as struct plait_item says? */
static bool goes_on(const struct plait_item *item, const struct plait_item *next, size_t bytes)
{
    const bool alike = item->nsrc == next->nsrc && item->ndst == next->ndst && item->count == next->count;
    const uint32_t n = item->times;
    const size_t in = next->in - item->in, out = next->out - item->out;

    if (next->src == item->src && next->dst == item->dst + n && !item->gathers)
        return next->nsrc == item->nsrc && next->ndst == 1 && in == n * bytes && out == 0 && (n > 1 || alike);
    return next->dst == item->dst && next->src == item->src + n && (item->gathers || (n == 1 && alike)) &&
           next->nsrc == 1 && in == 0 && out == n * bytes;
}

static void add(struct plait_device_list *l, const struct plait_item *next)
{
    struct plait_item *item = l->end > l->w->items ? l->end - 1 : NULL;
    const size_t bytes = item != NULL ? item->count * l->size : 0;

    if (item != NULL && item->times == 1 && next->src == item->src && next->nsrc == item->nsrc &&
        next->dst == item->dst && next->ndst == item->ndst && next->in == item->in + bytes &&
        next->out == item->out + bytes) {
        item->count += next->count;
    } else if (item != NULL && goes_on(item, next, bytes)) {
        item->gathers = next->src != item->src;
        item->times++;
    } else {
        *l->end++ = *next;
    }
}

uint32_t plait_device_blocks_in_one(const struct plait_run *run, const struct plait_whole *w)
{
    const enum plait_kind kind = run->o->geometry.kind;

    return kind == PLAIT_KIND_VECTOR ? 1 : kind == PLAIT_KIND_PART ? w->largest : w->largest * w->largest;
}

struct plait_geometry plait_device_leaders_geometry(const struct plait_run *run, const struct plait_whole *w)
{
    return plait_geometry_of(run->o->coll, w->leaders.n, w->group[run->o->root], w->leaders.me, 1);
}

/* The offset of a block in IN or OUT of the leaders' plan, in bytes of the operation's type. */
static size_t place_of(const struct plait_device_list *l, const struct plait_side *side, uint32_t blk)
{
    const struct plait_whole *w = l->w;
    const enum plait_kind kind = l->run->o->geometry.kind;
    const uint32_t nrank = l->run->comm->nrank, s = kind == PLAIT_KIND_PAIR ? blk / nrank : 0, d = blk % nrank;
    const uint32_t slot = plait_side_slot(side, w->group[s] * w->leaders.n + w->group[d]);
    const size_t at = (size_t)slot * plait_device_blocks_in_one(l->run, w) + w->place[s] * w->largest + w->place[d];

    return kind == PLAIT_KIND_VECTOR ? 0 : at * l->run->o->bytes;
}

/*
 * The sizes and starts of a rank's slots, which the rank has written in the order of struct plait_sizes, for blocks of
 * different sizes; here in bytes. side: 0 IN, 1 OUT.
 */
static uint64_t *sizes_of(const struct plait_comm *comm, uint32_t rank)
{
    return plait_device_sizes(plait_device_shown_by(comm, rank), comm->nrank);
}

static size_t slot_bytes(const struct plait_device_list *l, uint32_t rank, unsigned side, uint32_t slot, bool start)
{
    const uint32_t nrank = l->run->comm->nrank;

    return plait_op_bytes(l->run->o, sizes_of(l->run->comm, rank)[(2 * side + start) * nrank + slot], false);
}

void plait_device_show_sizes(const struct plait_run *run)
{
    uint64_t *to = sizes_of(run->comm, run->comm->rank);

    for (uint32_t i = 0; i < 4 * run->comm->nrank; i++)
        to[i] = run->sizes.in[i];
}

/* The operands (side 0) or results of a block in this rank's group. Returns their number. */
static uint32_t find_members(struct plait_device_list *l, const struct plait_holders *h, unsigned side,
                             const void *const **table, size_t *offset)
{
    const struct plait_whole *w = l->w;
    const uint32_t first = h->n == 1 ? w->place[h->first] : 0;
    const uint32_t n = h->n > 1 ? w->nmember : w->group[h->first] == w->leaders.me;

    *offset = l->run->o->vform ? 0 : h->slot * l->run->o->bytes;
    *table = l->run->o->vform ? l->end_addresses : (const void *const *)(w->at[side] + first);
    for (uint32_t i = first; l->run->o->vform && i < first + n; i++)
        *l->end_addresses++ = w->at[side][i] + slot_bytes(l, w->members[i], side, h->slot, true);
    return n;
}

static enum plait_status check_sizes(const struct plait_device_list *l, const struct plait_block *block, size_t wanted)
{
    for (uint32_t r = block->from.first; r < block->from.first + block->from.n; r++) {
        const size_t sent = slot_bytes(l, r, 0, block->from.slot, false);
        if (sent != wanted)
            return plait_comm_blame(l->run->comm, PLAIT_ERR_MISMATCH, r,
                                    "rank %u sends %zu bytes where rank %u expects %zu", r, sent, block->to.first,
                                    wanted);
    }
    return PLAIT_OK;
}

static enum plait_status list_block(struct plait_device_list *l, uint32_t b)
{
    const struct plait_op_plan *o = l->run->o;
    const struct plait_whole *w = l->w;
    const struct plait_block block = plait_block_of(o->coll, l->run->comm->nrank, o->root, b);
    const size_t bytes = o->vform ? slot_bytes(l, block.to.first, 1, block.to.slot, false) : o->bytes;
    const void *const *to = &w->from;
    struct plait_item item = { .src = &w->to, .nsrc = 1, .ndst = 1, .count = bytes / l->size, .times = 1 };
    const enum plait_status status = o->vform ? check_sizes(l, &block, bytes) : PLAIT_OK;

    if (l->phase == PLAIT_LIST_SPREAD)
        item.in = place_of(l, &l->g.out, b);
    else
        item.nsrc = find_members(l, &block.from, 0, &item.src, &item.in);
    if (l->phase == PLAIT_LIST_GATHER)
        item.out = place_of(l, &l->g.in, b);
    else
        item.ndst = find_members(l, &block.to, 1, &to, &item.out);
    if (l->phase == PLAIT_LIST_SPREAD && item.ndst > 0 && to[0] == w->to) { /* it is there already */
        to++;
        item.ndst--;
    }
    item.dst = (void *const *)(uintptr_t)to;
    if (status == PLAIT_OK && bytes > 0 && item.nsrc > 0 && item.ndst > 0)
        add(l, &item);
    return status;
}

enum plait_status plait_device_list(struct plait_device_list *l)
{
    const struct plait_op_plan *o = l->run->o;
    struct plait_whole *w = l->w;
    const uint32_t nrank = l->run->comm->nrank, n = plait_block_count(o->coll, nrank), nblk = n > 0 ? n : 1;
    const size_t naddress = o->vform ? nblk * ((size_t)nrank + 1) : 0;
    const size_t bytes = nblk * sizeof *w->items + naddress * sizeof *l->end_addresses;
    enum plait_status status = PLAIT_OK;

    if (w->bytes < bytes) {
        free(w->items);
        w->items = malloc(bytes);
        w->bytes = w->items != NULL ? bytes : 0;
    }
    if (w->items == NULL)
        return plait_fail_memory("out of memory for an operation");
    l->g = plait_device_leaders_geometry(l->run, w);
    l->combines = o->geometry.combines && (l->phase != PLAIT_LIST_SPREAD || w->wide);
    l->size = l->combines ? o->size : 1;
    l->end = w->items;
    l->end_addresses = (const void **)(uintptr_t)(w->items + nblk);
    if (o->vform)
        plait_device_show_sizes(l->run);
    for (uint32_t b = 0; b < nblk && status == PLAIT_OK && !(l->phase == PLAIT_LIST_GATHER && w->from == w->at[0][0]);
         b++)
        status = list_block(l, b);
    return status;
}
