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
    uint32_t ntaken, *taken;  /* members whose operands have arrived: [nmember] 1 */
    const char **at[2];       /* [nmember] addresses of IN and OUT */
    bool wide;                /* the leaders' plan is in fp32 */
    const void *from, *to;    /* IN and OUT of the leaders' plan */
    struct plait_item *items; /* [bytes] of room for a list */
    size_t bytes;
    /* [captured] of IN and OUT: of the leaders' plan; of another rank that the driver does not show to processes */
    struct plait_scaled rooms[2][2];
};

/* ---- Memory ---------------------------------------------------------------------------------------- */

static enum plait_status make(struct plait_device_comm *d, uint32_t nrank)
{
    struct plait_whole *w = d->whole = calloc(1, sizeof *w);

    if (w == NULL || (w->group = calloc(7 * (size_t)nrank, sizeof *w->group)) == NULL ||
        (w->at[0] = calloc(2 * (size_t)nrank, sizeof *w->at[0])) == NULL) {
        plait_device_whole_destroy(d);
        return plait_fail_memory("out of memory for an operation");
    }
    w->place = w->group + nrank;
    w->size = w->place + nrank;
    w->members = w->size + nrank;
    w->taken = w->members + nrank;
    w->leaders.ranks = w->taken + nrank;
    w->leaders.node = w->leaders.ranks + nrank;
    w->at[1] = w->at[0] + nrank;
    return PLAIT_OK;
}

void plait_device_whole_destroy(struct plait_device_comm *d)
{
    struct plait_whole *w = d->whole;

    if (w == NULL)
        return;
    free(w->group);
    free(w->at[0]);
    free(w->items);
    free(w);
    d->whole = NULL;
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
    bool combines;
    size_t size;                /* bytes of what is counted: an element; without reduction a byte */
    struct plait_geometry g;    /* of the leaders' plan */
    struct plait_item *end;     /* behind the items so far */
    const void **end_addresses; /* behind the addresses so far: of blocks whose place differs between ranks */
};

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

static void add(struct making *m, const struct plait_item *next)
{
    struct plait_item *item = m->end > m->w->items ? m->end - 1 : NULL;
    const size_t bytes = item != NULL ? item->count * m->size : 0;

    if (item != NULL && item->times == 1 && next->src == item->src && next->nsrc == item->nsrc &&
        next->dst == item->dst && next->ndst == item->ndst && next->in == item->in + bytes &&
        next->out == item->out + bytes) {
        item->count += next->count;
    } else if (item != NULL && goes_on(item, next, bytes)) {
        item->gathers = next->src != item->src;
        item->times++;
    } else {
        *m->end++ = *next;
    }
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

/* Where a block lies in IN or OUT of the leaders' plan, in bytes of the operation's type. */
static size_t place_of(const struct making *m, const struct plait_side *side, uint32_t blk)
{
    const struct plait_whole *w = m->w;
    const enum plait_kind kind = m->run->o->geometry.kind;
    const uint32_t nrank = m->run->comm->nrank, s = kind == PLAIT_KIND_PAIR ? blk / nrank : 0, d = blk % nrank;
    const uint32_t slot = plait_side_slot(side, w->group[s] * w->leaders.n + w->group[d]);
    const size_t at = (size_t)slot * blocks_in_one(m->run, w) + w->place[s] * w->largest + w->place[d];

    return kind == PLAIT_KIND_VECTOR ? 0 : at * m->run->o->bytes;
}

/*
 * The sizes and starts of a rank's slots, which the rank has written in the order of struct plait_sizes, for blocks of
 * different sizes; here in bytes. side: 0 IN, 1 OUT.
 */
static uint64_t *sizes_of(const struct plait_comm *comm, uint32_t rank)
{
    return plait_device_sizes(plait_device_shown_by(comm, rank), comm->nrank);
}

static size_t slot_bytes(const struct making *m, uint32_t rank, unsigned side, uint32_t slot, bool start)
{
    const uint32_t nrank = m->run->comm->nrank;

    return plait_op_bytes(m->run->o, sizes_of(m->run->comm, rank)[(2 * side + start) * nrank + slot], false);
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

/* The operands (side 0) or results of a block in this rank's group. Returns their number. */
static uint32_t find_members(struct making *m, const struct plait_holders *h, unsigned side, const void *const **table,
                             size_t *offset)
{
    const struct plait_whole *w = m->w;
    const uint32_t first = h->n == 1 ? w->place[h->first] : 0;
    const uint32_t n = h->n > 1 ? w->nmember : w->group[h->first] == w->leaders.me;

    *offset = m->run->o->vform ? 0 : h->slot * m->run->o->bytes;
    *table = m->run->o->vform ? m->end_addresses : (const void *const *)(w->at[side] + first);
    for (uint32_t i = first; m->run->o->vform && i < first + n; i++)
        *m->end_addresses++ = w->at[side][i] + slot_bytes(m, w->members[i], side, h->slot, true);
    return n;
}

static enum plait_status check_sizes(const struct making *m, const struct plait_block *block, size_t wanted)
{
    for (uint32_t r = block->from.first; r < block->from.first + block->from.n; r++) {
        const size_t sent = slot_bytes(m, r, 0, block->from.slot, false);
        if (sent != wanted)
            return plait_comm_blame(m->run->comm, PLAIT_ERR_MISMATCH, r,
                                    "rank %u sends %zu bytes where rank %u expects %zu", r, sent, block->to.first,
                                    wanted);
    }
    return PLAIT_OK;
}

static enum plait_status list_block(struct making *m, uint32_t b)
{
    const struct plait_op_plan *o = m->run->o;
    const struct plait_whole *w = m->w;
    const struct plait_block block = plait_block_of(o->coll, m->run->comm->nrank, o->root, b);
    const size_t bytes = o->vform ? slot_bytes(m, block.to.first, 1, block.to.slot, false) : o->bytes;
    const void *const *to = &w->from;
    struct plait_item item = { .src = &w->to, .nsrc = 1, .ndst = 1, .count = bytes / m->size, .times = 1 };
    const enum plait_status status = o->vform ? check_sizes(m, &block, bytes) : PLAIT_OK;

    if (m->phase == SPREAD)
        item.in = place_of(m, &m->g.out, b);
    else
        item.nsrc = find_members(m, &block.from, 0, &item.src, &item.in);
    if (m->phase == GATHER)
        item.out = place_of(m, &m->g.in, b);
    else
        item.ndst = find_members(m, &block.to, 1, &to, &item.out);
    if (m->phase == SPREAD && item.ndst > 0 && to[0] == w->to) { /* it is there already */
        to++;
        item.ndst--;
    }
    item.dst = (void *const *)(uintptr_t)to;
    if (status == PLAIT_OK && bytes > 0 && item.nsrc > 0 && item.ndst > 0)
        add(m, &item);
    return status;
}

static enum plait_status make_list(struct making *m)
{
    const struct plait_op_plan *o = m->run->o;
    struct plait_whole *w = m->w;
    const uint32_t nrank = m->run->comm->nrank, n = plait_block_count(o->coll, nrank), nblk = n > 0 ? n : 1;
    const size_t naddress = o->vform ? nblk * ((size_t)nrank + 1) : 0;
    const size_t bytes = nblk * sizeof *w->items + naddress * sizeof *m->end_addresses;
    enum plait_status status = PLAIT_OK;

    if (w->bytes < bytes) {
        free(w->items);
        w->items = malloc(bytes);
        w->bytes = w->items != NULL ? bytes : 0;
    }
    if (w->items == NULL)
        return plait_fail_memory("out of memory for an operation");
    m->g = geometry_of_leaders(m->run, w);
    m->combines = o->geometry.combines && (m->phase != SPREAD || w->wide);
    m->size = m->combines ? o->size : 1;
    m->end = w->items;
    m->end_addresses = (const void **)(uintptr_t)(w->items + nblk);
    if (o->vform)
        show_sizes(m->run);
    for (uint32_t b = 0; b < nblk && status == PLAIT_OK && !(m->phase == GATHER && w->from == w->at[0][0]); b++)
        status = list_block(m, b);
    return status;
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
                                     .n = (uint32_t)(m->end - m->w->items) };
    struct plait_queue *queue = list.n > 0 ? plait_device_here(comm) : NULL;

    for (const struct plait_item *i = m->w->items; i < m->end; i++)
        *(m->combines ? &comm->stats.bytes_reduced : &comm->stats.bytes_copied) += i->times * i->count * m->size;
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
        w->at[0][i] = o.in;
        w->at[1][i] = o.out;
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
    w->at[1][0] = own.out;
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
    if (out_bytes(run) > 0 && w->at[1][0] != run->out) /* back from the copy */
        plait_device_copy(run->comm, run->out, w->at[1][0], out_bytes(run));
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
