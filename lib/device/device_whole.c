/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_whole.h"

#include "base/status.h"
#include "failure/failure.h"
#include "plan/plan_check.h"
#include "progress/detector.h"

#include <stdlib.h>
#include <string.h>

#define MOST_MEMBERS 200 /* ranks of a group, whose addresses fit into the argument of a kernel */

enum phase { WHOLE, GATHER, SPREAD }; /* what a kernel makes: all; the leaders' IN; results, from their OUT */

struct plait_whole {
    /* Groups of ranks that share a GPU, in the order of their lowest ranks, the leaders. */
    struct plait_team leaders;
    uint32_t *group, *place; /* [nrank] a rank's group, and its place in that */
    uint32_t *size;          /* [leaders.n] ranks of each group */
    uint32_t largest;
    uint32_t nmember, *members; /* this rank's group */
    bool ordered;               /* the canonical order is that of the groups, and in each that of its ranks */

    uint64_t sequence;        /* of the operation that the rest is about */
    bool offered;             /* this rank's operands */
    uint32_t ntaken;          /* members whose operands have arrived, */
    bool *taken;              /* [nmember] these */
    const char **in;          /* [nmember] */
    char **out;               /* [nmember] */
    bool wide;                /* the leaders' plan is in fp32 */
    const void *from, *to;    /* IN and OUT of the leaders' plan */
    struct plait_item *items; /* [nitem] of room */
    const void **addresses;   /* [naddress] of room, for blocks whose size or place differs between ranks */
    size_t nitem, naddress;
    /* [captured] of IN and OUT: of the leaders' plan; of another rank that the driver does not show to processes */
    struct plait_scaled rooms[2][2];
};

/* ---- Memory ---------------------------------------------------------------------------------------- */

static enum plait_status make(struct plait_device_comm *d, uint32_t nrank)
{
    struct plait_whole *w = d->whole = calloc(1, sizeof *w);
    uint32_t *numbers = calloc(6 * (size_t)nrank, sizeof *numbers);

    if (w != NULL) {
        w->group = numbers;
        w->taken = calloc(nrank, sizeof *w->taken);
        w->in = calloc(nrank, sizeof *w->in);
        w->out = calloc(nrank, sizeof *w->out);
    }
    if (w != NULL && numbers != NULL && w->taken != NULL && w->in != NULL && w->out != NULL) {
        w->place = numbers + nrank;
        w->size = numbers + 2 * nrank;
        w->members = numbers + 3 * nrank;
        w->leaders.ranks = numbers + 4 * nrank;
        w->leaders.node = numbers + 5 * nrank;
        return PLAIT_OK;
    }
    if (w == NULL)
        free(numbers);
    plait_device_whole_destroy(d);
    return plait_fail_memory("out of memory for an operation");
}

void plait_device_whole_destroy(struct plait_device_comm *d)
{
    struct plait_whole *w = d->whole;

    if (w == NULL)
        return;
    free(w->group);
    free(w->taken);
    free(w->in);
    free(w->out);
    free(w->items);
    free(w->addresses);
    free(w);
    d->whole = NULL;
}

static bool has_room(void **array, size_t *have, size_t n, size_t size)
{
    void *more = n > *have ? realloc(*array, n * size) : *array;

    if (more == NULL && n > *have)
        return false;
    *array = more;
    *have = n > *have ? n : *have;
    return true;
}

/* This rank's own memory for operand 0, IN, or 1, OUT. */
static enum plait_status find_room(struct plait_run *run, uint32_t operand, size_t bytes, const void **out)
{
    struct plait_scaled *room = &run->comm->device->whole->rooms[run->capture != 0][operand];
    void *memory;

    if (room->bytes < bytes) {
        const enum plait_status status = plait_device_room(run->comm, bytes, &memory);
        if (status != PLAIT_OK)
            return status;
        *room = (struct plait_scaled){ memory, bytes }; /* a smaller one may be in use, and stays until the end */
    }
    *out = room->memory;
    return PLAIT_OK;
}

/* ---- Who takes part -------------------------------------------------------------------------------- */

static uint64_t gpu_of(const struct plait_comm *comm, uint32_t rank)
{
    return atomic_load(&comm->peers[rank].control->gpu);
}

static void enter(struct plait_whole *w, const struct plait_comm *comm, uint32_t rank)
{
    uint32_t *leaders = (uint32_t *)(uintptr_t)w->leaders.ranks, *node = (uint32_t *)(uintptr_t)w->leaders.node, g = 0;

    while (g < w->leaders.n && gpu_of(comm, leaders[g]) != gpu_of(comm, rank))
        g++;
    if (g == w->leaders.n) {
        leaders[g] = rank;
        node[g] = comm->node != NULL ? comm->node[rank] : 0;
        w->leaders.n++;
    }
    w->group[rank] = g;
    w->place[rank] = w->size[g]++;
    w->largest = w->size[g] > w->largest ? w->size[g] : w->largest;
}

/* Which ranks share a GPU? It is known, on all ranks alike, when each has shown its own. */
static enum plait_status find_groups(struct plait_comm *comm, enum plait_together *out)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (gpu_of(comm, r) == 0)
            return PLAIT_OK;
    const enum plait_status status = make(comm->device, comm->nrank);
    if (status != PLAIT_OK)
        return status;
    struct plait_whole *w = comm->device->whole;
    for (uint32_t r = 0; r < comm->nrank; r++)
        enter(w, comm, r);
    w->leaders.me = w->group[comm->rank];
    w->leaders.node = comm->node != NULL ? w->leaders.node : NULL;
    w->ordered = (w->size[0] & (w->size[0] - 1)) == 0;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        w->ordered &= w->group[r] == r / w->size[0];
        if (w->group[r] == w->leaders.me)
            w->members[w->nmember++] = r;
    }
    const bool apart = (w->leaders.n > 1 && w->largest == 1) || w->largest > MOST_MEMBERS;
    *out = apart ? PLAIT_APART : PLAIT_TOGETHER;
    return PLAIT_OK;
}

/* Blocks of different sizes, and sums in the canonical order if the groups do not have it, run step by step. */
static bool is_served(const struct plait_run *run, const struct plait_whole *w)
{
    const struct plait_op_plan *o = run->o;
    const bool canonical = o->geometry.combines && (run->comm->reproducible || o->call.reproducible);

    return w->leaders.n == 1 || (!o->vform && (w->ordered || !canonical));
}

uint32_t plait_device_whole_awaited(const struct plait_run *run, uint32_t *ranks, uint32_t most)
{
    const struct plait_comm *comm = run->comm;
    const struct plait_whole *w = comm->device->whole;
    uint32_t n = 0;

    for (uint32_t r = 0; w == NULL && r < comm->nrank && n < most; r++)
        if (gpu_of(comm, r) == 0)
            ranks[n++] = r;
    if (w != NULL && w->members[0] != comm->rank && n < most)
        ranks[n++] = w->members[0];
    for (uint32_t i = 0; w != NULL && w->members[0] == comm->rank && i < w->nmember && n < most; i++)
        if (w->sequence != comm->sequence || !w->taken[i])
            ranks[n++] = w->members[i];
    return n;
}

/* ---- What is made ----------------------------------------------------------------------------------- */

struct making { /* the list of a kernel, in the making */
    struct plait_run *run;
    struct plait_whole *w;
    enum phase phase;
    uint32_t nblk, n; /* n: items so far */
    bool combines;
    size_t size;  /* bytes of what is counted: an element; without reduction a byte */
    size_t bytes; /* of a block */
};

/* Is `next` the block that follows those of `item`, as struct plait_item says? */
static bool goes_on(const struct plait_item *item, const struct plait_item *next, size_t bytes)
{
    const bool alike = item->nsrc == next->nsrc && item->ndst == next->ndst;
    const uint32_t n = item->times;

    if (!item->gathers && next->src == item->src && next->nsrc == item->nsrc && next->dst == item->dst + n &&
        next->ndst == 1 && next->in == item->in + n * bytes && next->out == item->out)
        return n > 1 || alike;
    return (item->gathers || (n == 1 && alike)) && next->dst == item->dst && next->src == item->src + n &&
           next->nsrc == 1 && next->in == item->in && next->out == item->out + n * bytes;
}

/* Does it lie behind `item`, in the same operands and results? */
static bool lengthens(const struct plait_item *item, const struct plait_item *next, size_t size)
{
    return item->times == 1 && next->src == item->src && next->nsrc == item->nsrc && next->dst == item->dst &&
           next->ndst == item->ndst && next->in == item->in + item->count * size &&
           next->out == item->out + item->count * size;
}

static void add(struct making *m, const struct plait_item *next)
{
    struct plait_item *item = m->n > 0 ? &m->w->items[m->n - 1] : NULL;

    if (item != NULL && lengthens(item, next, m->size)) {
        item->count += next->count;
    } else if (item != NULL && goes_on(item, next, m->bytes)) {
        item->gathers = next->src != item->src;
        item->times++;
    } else {
        m->w->items[m->n++] = *next;
    }
}

/* The holders of a block that are in this rank's group: n of them, from this member on. */
static uint32_t find_members(const struct plait_whole *w, const struct plait_holders *h, uint32_t *first)
{
    *first = h->n == 1 ? w->place[h->first] : 0;
    return h->n > 1 ? w->nmember : w->group[h->first] == w->leaders.me;
}

/* Blocks of the operation in one block of the leaders' plan; groups of fewer ranks leave some unused. */
static uint32_t blocks_in_one(const struct plait_run *run, const struct plait_whole *w)
{
    const enum plait_kind kind = run->o->geometry.kind;

    return kind == PLAIT_KIND_VECTOR ? 1 : kind == PLAIT_KIND_PART ? w->largest : w->largest * w->largest;
}

static struct plait_geometry geometry_of_leaders(const struct plait_run *run, const struct plait_whole *w)
{
    return plait_geometry_of(run->o->coll, w->leaders.n, w->group[run->o->root], w->leaders.me, 1);
}

/* Where a block lies in IN or OUT of the leaders' plan, in blocks. */
static size_t place_of(const struct making *m, const struct plait_side *side, uint32_t blk)
{
    const struct plait_whole *w = m->w;
    const enum plait_kind kind = m->run->o->geometry.kind;
    const uint32_t nrank = m->run->comm->nrank, s = kind == PLAIT_KIND_PAIR ? blk / nrank : 0, d = blk % nrank;

    if (kind == PLAIT_KIND_VECTOR)
        return 0;
    if (kind == PLAIT_KIND_PART)
        return (size_t)plait_side_slot(side, w->group[blk]) * w->largest + w->place[blk];
    return ((size_t)plait_side_slot(side, w->group[s] * w->leaders.n + w->group[d]) * w->largest + w->place[s]) *
               w->largest +
           w->place[d];
}

static void list_blocks(struct making *m)
{
    const struct plait_op_plan *o = m->run->o;
    const struct plait_whole *w = m->w;
    const struct plait_geometry g = geometry_of_leaders(m->run, w);

    for (uint32_t b = 0; b < m->nblk; b++) {
        const struct plait_block block = plait_block_of(o->coll, m->run->comm->nrank, o->root, b);
        uint32_t from, to;
        struct plait_item item = { .src = &w->from,
                                   .dst = (void *const *)(uintptr_t)&w->to,
                                   .nsrc = 1,
                                   .ndst = 1,
                                   .count = m->bytes / m->size,
                                   .times = 1 };
        if (m->phase == SPREAD) {
            item.src = &w->to;
            item.in = place_of(m, &g.out, b) * m->bytes;
        } else {
            item.nsrc = find_members(w, &block.from, &from);
            item.src = (const void *const *)(w->in + from);
            item.in = block.from.slot * m->bytes;
        }
        if (m->phase == GATHER) {
            item.dst = (void *const *)(uintptr_t)&w->from;
            item.out = place_of(m, &g.in, b) * m->bytes;
        } else {
            item.ndst = find_members(w, &block.to, &to);
            item.dst = (void *const *)(w->out + to);
            item.out = block.to.slot * m->bytes;
        }
        if (m->phase == SPREAD && item.ndst > 0 && to == 0 && w->out[0] == w->to) { /* it is there already */
            item.dst++;
            item.ndst--;
        }
        if (item.nsrc > 0 && item.ndst > 0)
            add(m, &item);
    }
}

/* ---- Blocks of different sizes ----------------------------------------------------------------------- */

/* The sizes and starts of a rank's slots, which the rank has written: IN's sizes, IN's starts, OUT's sizes, OUT's. */
static uint64_t *sizes_of(const struct plait_comm *comm, uint32_t rank)
{
    return plait_device_sizes(plait_device_shown_by(comm, rank), comm->nrank);
}

static void show_sizes(const struct plait_run *run)
{
    const struct plait_geometry *g = &run->o->geometry;
    const struct plait_sizes *s = &run->sizes;
    const size_t *const from[] = { s->in, s->in_at, s->out, s->out_at };
    uint64_t *to = sizes_of(run->comm, run->comm->rank);

    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < (k < 2 ? g->in.nslot : g->out.nslot); i++)
            to[k * run->comm->nrank + i] = from[k][i];
}

/* The slot of IN (side 0) or OUT (2) of a rank: its elements, its address. */
static uint64_t slot_size(const struct making *m, uint32_t rank, uint32_t side, uint32_t slot)
{
    return sizes_of(m->run->comm, rank)[side * m->run->comm->nrank + slot];
}

static const char *slot_address(const struct making *m, uint32_t rank, uint32_t side, uint32_t slot)
{
    const char *base = side == 0 ? m->w->in[rank] : m->w->out[rank];

    return base + plait_op_bytes(m->run->o, slot_size(m, rank, side + 1, slot), false);
}

static enum plait_status check_size(const struct making *m, const struct plait_block *block, uint64_t wanted)
{
    struct plait_comm *comm = m->run->comm;

    for (uint32_t i = 0; i < block->from.n; i++) {
        const uint32_t r = block->from.first + i;
        const uint64_t sent = slot_size(m, r, 0, block->from.slot);
        if (sent != wanted)
            return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, r, "rank %u sends %zu bytes where rank %u expects %zu", r,
                                    plait_op_bytes(m->run->o, sent, false), block->to.first,
                                    plait_op_bytes(m->run->o, wanted, false));
    }
    return PLAIT_OK;
}

static enum plait_status list_vform(struct making *m)
{
    const struct plait_op_plan *o = m->run->o;
    const void **address = m->w->addresses;
    enum plait_status status = PLAIT_OK;

    for (uint32_t b = 0; b < m->nblk && status == PLAIT_OK; b++) {
        const struct plait_block block = plait_block_of(o->coll, m->run->comm->nrank, o->root, b);
        const uint64_t count = slot_size(m, block.to.first, 2, block.to.slot);
        struct plait_item item = { .src = address,
                                   .dst = (void *const *)(uintptr_t)(address + block.from.n),
                                   .nsrc = block.from.n,
                                   .ndst = block.to.n,
                                   .count = plait_op_bytes(o, count, false) / m->size,
                                   .times = 1 };
        status = check_size(m, &block, count);
        for (uint32_t i = 0; i < block.from.n; i++)
            *address++ = slot_address(m, block.from.first + i, 0, block.from.slot);
        for (uint32_t i = 0; i < block.to.n; i++)
            *address++ = slot_address(m, block.to.first + i, 2, block.to.slot);
        if (count > 0)
            m->w->items[m->n++] = item;
    }
    return status;
}

static enum plait_status make_list(struct making *m)
{
    const struct plait_op_plan *o = m->run->o;
    struct plait_whole *w = m->w;
    const uint32_t nrank = m->run->comm->nrank, nblk = plait_block_count(o->coll, nrank);

    m->nblk = nblk > 0 ? nblk : 1;
    m->combines = o->geometry.combines && (m->phase != SPREAD || w->wide);
    m->size = m->combines ? o->size : 1;
    m->bytes = o->bytes;
    if ((!o->vform && m->bytes == 0) || (m->phase == GATHER && w->from == w->in[0]))
        return PLAIT_OK;
    if (!has_room((void **)&w->items, &w->nitem, m->nblk, sizeof *w->items) ||
        (o->vform && !has_room((void **)(uintptr_t)&w->addresses, &w->naddress, m->nblk * ((size_t)nrank + 1),
                               sizeof *w->addresses)))
        return plait_fail_memory("out of memory for an operation");
    if (o->vform)
        return list_vform(m);
    list_blocks(m);
    return PLAIT_OK;
}

/* ---- The leader -------------------------------------------------------------------------------------- */

static struct plait_link *link_to(const struct plait_run *run, uint32_t rank)
{
    return plait_connect(run->comm, rank, run->channel);
}

static void launch(const struct making *m)
{
    struct plait_comm *comm = m->run->comm;
    const struct plait_op_plan *o = m->run->o;
    const struct plait_list list = { .type = m->combines ? o->type : PLAIT_UINT8,
                                     .op = m->combines ? o->op : PLAIT_SUM,
                                     .divisor = m->phase == WHOLE ? o->last.divisor : 0,
                                     .wide = m->phase == SPREAD && m->w->wide,
                                     .wide_dst = m->phase == GATHER && m->w->wide,
                                     .items = m->w->items,
                                     .n = m->n };
    struct plait_queue *queue = m->n > 0 ? plait_device_here(comm) : NULL;

    for (uint32_t i = 0; i < m->n; i++)
        *(m->combines ? &comm->stats.bytes_reduced : &comm->stats.bytes_copied) +=
            m->w->items[i].times * m->w->items[i].count * m->size;
    if (queue != NULL)
        plait_device_note(comm, comm->device->plugin->make(queue, &list));
}

/*
 * The leaders' plan: its collective, its operands. 16- and 8-bit floats go in fp32, so that they are rounded once: that
 * takes no more bytes between GPUs than two ranks' own operands. Memory of the caller's is used where it is as good.
 */
static enum plait_status plan_leaders(struct plait_run *run, struct plait_whole *w)
{
    const struct plait_op_plan *o = run->o;
    const struct plait_geometry g = geometry_of_leaders(run, w);
    const uint32_t each = blocks_in_one(run, w);
    const bool vector = o->geometry.kind == PLAIT_KIND_VECTOR;
    struct plait_inner *inner = &run->inner;
    enum plait_status status = PLAIT_OK;

    w->wide = o->geometry.combines && plait_rounds(o->type);
    inner->state = PLAIT_INNER_ASKED;
    inner->team = &w->leaders;
    inner->type = w->wide ? PLAIT_FLOAT32 : o->type;
    inner->count = o->count * each;
    inner->root = o->geometry.rooted ? w->group[o->root] : 0;
    const size_t bytes = inner->count * plait_dtype_size(inner->type);
    w->from = w->to = NULL;
    const bool alone = o->geometry.rooted && !o->geometry.combines ? o->root == run->comm->rank : w->nmember == 1;
    if (vector && alone && !w->wide && !(o->geometry.combines && run->in == run->out))
        w->from = run->in;
    else
        status = find_room(run, 0, g.in.nslot * bytes, &w->from);
    if (vector && o->geometry.out.nslot > 0 && !w->wide)
        w->to = run->out;
    else if (status == PLAIT_OK)
        status = find_room(run, 1, g.out.nslot * bytes, &w->to);
    inner->in = w->from;
    inner->out = (void *)(uintptr_t)w->to;
    return status;
}

/* All operands are known. */
static enum plait_status lead(struct plait_run *run, struct plait_whole *w)
{
    struct plait_comm *comm = run->comm;
    struct making m = { .run = run, .w = w, .phase = w->leaders.n == 1 ? WHOLE : GATHER };
    enum plait_status status = m.phase == GATHER ? plan_leaders(run, w) : PLAIT_OK;

    if (run->o->vform)
        show_sizes(run);
    if (status == PLAIT_OK)
        status = make_list(&m);
    if (status == PLAIT_OK)
        status = plait_probe_failures(comm);
    if (status != PLAIT_OK)
        return status;
    for (uint32_t i = 1; i < w->nmember; i++)
        plait_device_await(link_to(run, w->members[i]), link_to(run, w->members[i])->next_in);
    launch(&m);
    return PLAIT_OK;
}

/* The leaders' plan has run. */
static enum plait_status spread(struct plait_run *run, struct plait_whole *w)
{
    struct making m = { .run = run, .w = w, .phase = SPREAD };
    const enum plait_status status = make_list(&m);

    if (status == PLAIT_OK)
        launch(&m);
    return status;
}

/* The other ranks hear of it when all is on the stream. */
static void answer(struct plait_run *run, const struct plait_whole *w)
{
    struct plait_comm *comm = run->comm;

    for (uint32_t i = 1; i < w->nmember; i++) {
        struct plait_link *link = link_to(run, w->members[i]);
        link->transport->release(link, link->next_in++);
    }
    comm->stats.messages += w->nmember - 1;
}

static enum plait_status turn_leader(struct plait_run *run, struct plait_whole *w, bool *moved, bool *ended)
{
    const struct plait_comm *comm = run->comm;
    enum plait_status status;

    for (uint32_t i = 0; i < w->nmember; i++) {
        struct plait_operands o = { run->in, run->out };
        struct plait_link *link = i > 0 ? link_to(run, w->members[i]) : NULL;
        if (w->taken[i])
            continue;
        if (i > 0 && link == NULL)
            return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", w->members[i]);
        if (i > 0 && !plait_device_take_operands(link, link->next_in, run->fingerprint, &o))
            continue;
        w->in[i] = o.in;
        w->out[i] = o.out;
        w->taken[i] = *moved = true;
        w->ntaken++;
    }
    if (w->ntaken < w->nmember || !plait_device_works(comm))
        return PLAIT_OK;
    status = run->inner.state == PLAIT_INNER_DONE ? spread(run, w) : lead(run, w);
    *ended = status == PLAIT_OK && run->inner.state != PLAIT_INNER_ASKED;
    if (*ended)
        answer(run, w);
    return status;
}

/* ---- The other ranks --------------------------------------------------------------------------------- */

static size_t out_bytes(const struct plait_run *run)
{
    size_t end = 0;

    for (uint32_t i = 0; run->o->vform && i < run->o->geometry.out.nslot; i++)
        if (run->sizes.out[i] > 0 && run->sizes.out_at[i] + run->sizes.out[i] > end)
            end = run->sizes.out_at[i] + run->sizes.out[i];
    return run->o->vform ? plait_op_bytes(run->o, end, false) : run->o->out_bytes;
}

/* A copy of memory that the driver does not show to the leader's process. *at: the memory, or the copy. */
static enum plait_status show(struct plait_run *run, struct plait_link *link, uint32_t operand, const char **at,
                              size_t bytes)
{
    struct plait_comm *comm = run->comm;
    const void *copy;

    if (bytes == 0 || plait_device_shows(link, operand, *at))
        return PLAIT_OK;
    const enum plait_status status = find_room(run, operand, bytes, &copy);
    if (status != PLAIT_OK)
        return status;
    plait_device_copy(comm, (void *)(uintptr_t)copy, *at, bytes);
    comm->stats.bytes_staged += bytes;
    *at = copy;
    if (!plait_device_shows(link, operand, *at))
        plait_device_note(comm, "memory of the library's own cannot be shown to other processes");
    return PLAIT_OK;
}

static enum plait_status offer(struct plait_run *run, struct plait_whole *w, struct plait_link *link)
{
    const size_t in_bytes = run->o->vform ? plait_op_bytes(run->o, run->sizes.in_end, false) : run->o->in_bytes;
    const char *in = in_bytes > 0 ? run->in : NULL, *out = out_bytes(run) > 0 ? run->out : NULL;
    enum plait_status status = show(run, link, 0, &in, in_bytes);

    if (status == PLAIT_OK)
        status = show(run, link, 1, &out, out_bytes(run));
    if (status != PLAIT_OK)
        return status;
    if (run->o->vform)
        show_sizes(run);
    const struct plait_operands own = { in, (char *)(uintptr_t)out };
    plait_device_offer_operands(link, link->next_out, run->fingerprint, &own);
    w->out[0] = own.out;
    run->comm->stats.messages++;
    run->comm->stats.bytes_sent += in_bytes;
    return PLAIT_OK;
}

static enum plait_status turn_other(struct plait_run *run, struct plait_whole *w, bool *moved, bool *ended)
{
    struct plait_link *link = link_to(run, w->members[0]);

    if (link == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", w->members[0]);
    if (!w->offered) {
        if (!link->transport->ready(link, link->next_out))
            return PLAIT_OK;
        w->offered = *moved = true;
        return offer(run, w, link);
    }
    if (!link->transport->sent(link, link->next_out))
        return PLAIT_OK;
    link->next_out++;
    if (out_bytes(run) > 0 && w->out[0] != run->out) /* back from the copy */
        plait_device_copy(run->comm, run->out, w->out[0], out_bytes(run));
    *moved = *ended = true;
    return PLAIT_OK;
}

enum plait_status plait_device_whole_turn(struct plait_run *run, bool *moved, bool *ended)
{
    struct plait_comm *comm = run->comm;
    struct plait_device_comm *d = comm->device;
    enum plait_status status = PLAIT_OK;

    if (d->together == PLAIT_NOT_SHOWN)
        status = find_groups(comm, &d->together);
    run->whole = d->together == PLAIT_NOT_SHOWN || (d->together == PLAIT_TOGETHER && is_served(run, d->whole));
    if (status != PLAIT_OK || !run->whole || d->together == PLAIT_NOT_SHOWN)
        return status;
    struct plait_whole *w = d->whole;
    if (w->sequence != comm->sequence) {
        w->sequence = comm->sequence;
        w->offered = false;
        w->ntaken = 0;
        memset(w->taken, 0, comm->nrank * sizeof *w->taken);
    }
    return comm->rank == w->members[0] ? turn_leader(run, w, moved, ended) : turn_other(run, w, moved, ended);
}
