/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_whole.h"

#include "base/status.h"
#include "failure/failure.h"
#include "plan/plan_check.h"
#include "progress/detector.h"

#include <stdlib.h>
#include <string.h>

#define LEADER     0
#define MOST_RANKS 200 /* whose addresses fit into the argument of a kernel */

struct plait_whole {
    uint64_t sequence;        /* of the operation that the rest is about */
    bool offered;             /* this rank's operands */
    uint32_t ntaken;          /* ranks whose operands have arrived, */
    bool *taken;              /* [nrank] these */
    const char **in;          /* [nrank] */
    char **out;               /* [nrank] */
    struct plait_item *items; /* [nitem] of room */
    const void **addresses;   /* [naddress] of room, for blocks whose size or place differs between ranks */
    size_t nitem, naddress;
    struct plait_scaled copies[2][2]; /* [captured] of IN and OUT that the driver does not show to other processes */
};

/* ---- Memory ---------------------------------------------------------------------------------------- */

static enum plait_status make(struct plait_device_comm *d, uint32_t nrank)
{
    struct plait_whole *w = d->whole = calloc(1, sizeof *w);

    if (w != NULL) {
        w->taken = calloc(nrank, sizeof *w->taken);
        w->in = calloc(nrank, sizeof *w->in);
        w->out = calloc(nrank, sizeof *w->out);
    }
    if (w != NULL && w->taken != NULL && w->in != NULL && w->out != NULL)
        return PLAIT_OK;
    plait_device_whole_destroy(d);
    return plait_fail_memory("out of memory for an operation");
}

void plait_device_whole_destroy(struct plait_device_comm *d)
{
    struct plait_whole *w = d->whole;

    if (w == NULL)
        return;
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

/* ---- Who takes part -------------------------------------------------------------------------------- */

/* Are all ranks on this rank's GPU? It is known when each has shown its own. */
static enum plait_together find_together(const struct plait_comm *comm)
{
    if (comm->remote != NULL || comm->nrank > MOST_RANKS)
        return PLAIT_APART;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_device_shown *shown = plait_device_shown_by(comm, r);
        if (shown == NULL)
            return PLAIT_NOT_SHOWN;
        if (memcmp(shown->uuid, comm->device->shown->uuid, sizeof shown->uuid) != 0)
            return PLAIT_APART;
    }
    return PLAIT_TOGETHER;
}

uint32_t plait_device_whole_awaited(const struct plait_run *run, uint32_t *ranks, uint32_t most)
{
    const struct plait_comm *comm = run->comm;
    const struct plait_device_comm *d = comm->device;
    const struct plait_whole *w = d->whole;
    uint32_t n = 0;

    for (uint32_t r = 0; r < comm->nrank && n < most; r++)
        if (d->together == PLAIT_NOT_SHOWN ? plait_device_shown_by(comm, r) == NULL
            : comm->rank == LEADER         ? w == NULL || w->sequence != comm->sequence || !w->taken[r]
                                           : r == LEADER)
            ranks[n++] = r;
    return n;
}

/* ---- What is made ----------------------------------------------------------------------------------- */

struct making { /* the list of an operation, in the making */
    struct plait_run *run;
    struct plait_whole *w;
    uint32_t nblk, n; /* n: items so far */
    size_t size;      /* bytes of what is counted: an element; without reduction a byte */
    size_t bytes;     /* of a block */
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

static void add(struct making *m, const struct plait_item *next)
{
    struct plait_item *item = m->n > 0 ? &m->w->items[m->n - 1] : NULL;

    if (item == NULL || !goes_on(item, next, m->bytes)) {
        m->w->items[m->n++] = *next;
        return;
    }
    item->gathers = next->src != item->src;
    item->times++;
}

static void list_blocks(struct making *m)
{
    const struct plait_op_plan *o = m->run->o;
    const struct plait_whole *w = m->w;

    for (uint32_t b = 0; b < m->nblk; b++) {
        const struct plait_block block = plait_block_of(o->coll, m->run->comm->nrank, o->root, b);
        const struct plait_item item = { .src = (const void *const *)(w->in + block.from.first),
                                         .dst = (void *const *)(w->out + block.to.first),
                                         .nsrc = block.from.n,
                                         .ndst = block.to.n,
                                         .in = block.from.slot * m->bytes,
                                         .out = block.to.slot * m->bytes,
                                         .count = m->bytes / m->size,
                                         .times = 1 };
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
    m->size = o->geometry.combines ? o->size : 1;
    m->bytes = o->bytes;
    if (!o->vform && m->bytes == 0)
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
    const struct plait_list list = { .type = o->geometry.combines ? o->type : PLAIT_UINT8,
                                     .op = o->geometry.combines ? o->op : PLAIT_SUM,
                                     .divisor = o->last.divisor,
                                     .items = m->w->items,
                                     .n = m->n };
    struct plait_queue *queue = m->n > 0 ? plait_device_here(comm) : NULL;

    for (uint32_t i = 0; i < m->n; i++)
        *(o->geometry.combines ? &comm->stats.bytes_reduced : &comm->stats.bytes_copied) +=
            m->w->items[i].times * m->w->items[i].count * m->size;
    if (queue != NULL)
        plait_device_note(comm, comm->device->plugin->make(queue, &list));
}

/* All operands are known. The other ranks hear of it when all is on the stream. */
static enum plait_status lead(struct plait_run *run, struct plait_whole *w)
{
    struct plait_comm *comm = run->comm;
    struct making m = { .run = run, .w = w };

    if (run->o->vform)
        show_sizes(run);
    enum plait_status status = make_list(&m);
    if (status == PLAIT_OK)
        status = plait_probe_failures(comm);
    if (status != PLAIT_OK)
        return status;
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != LEADER)
            plait_device_await(link_to(run, r), link_to(run, r)->next_in);
    launch(&m);
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != LEADER)
            plait_device_answer(link_to(run, r), link_to(run, r)->next_in);
    plait_device_rest(comm);
    comm->stats.messages += comm->nrank - 1;
    for (uint32_t r = 0; r < comm->nrank && plait_device_works(comm); r++)
        if (r != LEADER)
            plait_device_let_go(link_to(run, r), link_to(run, r)->next_in++);
    return PLAIT_OK;
}

static enum plait_status turn_leader(struct plait_run *run, struct plait_whole *w, bool *moved, bool *ended)
{
    struct plait_comm *comm = run->comm;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        struct plait_operands o = { run->in, run->out };
        struct plait_link *link = r != LEADER ? link_to(run, r) : NULL;
        if (w->taken[r])
            continue;
        if (r != LEADER && link == NULL)
            return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", r);
        if (r != LEADER && !plait_device_take_operands(link, link->next_in, run->fingerprint, &o))
            continue;
        w->in[r] = o.in;
        w->out[r] = o.out;
        w->taken[r] = *moved = true;
        w->ntaken++;
    }
    *ended = w->ntaken == comm->nrank && plait_device_works(comm);
    return *ended ? lead(run, w) : PLAIT_OK;
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
    struct plait_scaled *copy = &comm->device->whole->copies[run->capture != 0][operand];
    void *memory;

    if (bytes == 0 || plait_device_shows(link, operand, *at))
        return PLAIT_OK;
    if (copy->bytes < bytes) {
        const enum plait_status status = plait_device_room(comm, bytes, &memory);
        if (status != PLAIT_OK)
            return status;
        *copy = (struct plait_scaled){ memory, bytes }; /* a smaller one may be in use, and stays until the end */
    }
    plait_device_copy(comm, copy->memory, *at, bytes);
    comm->stats.bytes_staged += bytes;
    *at = copy->memory;
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
    struct plait_link *link = link_to(run, LEADER);

    if (link == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", LEADER);
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

    if (d->together == PLAIT_NOT_SHOWN)
        d->together = find_together(comm);
    run->whole = d->together != PLAIT_APART;
    if (d->together != PLAIT_TOGETHER)
        return PLAIT_OK;
    if (d->whole == NULL && make(d, comm->nrank) != PLAIT_OK)
        return PLAIT_ERR_NOMEM;
    struct plait_whole *w = d->whole;
    if (w->sequence != comm->sequence) {
        w->sequence = comm->sequence;
        w->offered = false;
        w->ntaken = 0;
        memset(w->taken, 0, comm->nrank * sizeof *w->taken);
    }
    return comm->rank == LEADER ? turn_leader(run, w, moved, ended) : turn_other(run, w, moved, ended);
}
