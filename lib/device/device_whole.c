/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_whole.h"

#include "base/status.h"
#include "failure/failure.h"
#include "plan/plan_check.h"
#include "progress/detector.h"

#include <stdlib.h>
#include <string.h>

#define MOST_MEMBERS 200 /* ranks of a group, whose addresses fit into the argument of a kernel */

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
    struct plait_room *room = &run->comm->device->whole->rooms[run->target.note != 0][operand];
    const enum plait_status status = plait_device_grow(run->comm, room, bytes);

    *out = room->memory;
    return status;
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
static enum plait_status find_groups(struct plait_comm *comm)
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
    w->apart = (w->leaders.n > 1 && w->largest == 1) || w->largest > MOST_MEMBERS;
    return PLAIT_OK;
}

/* Blocks of different sizes, and sums in the canonical order if the groups do not have it, run step by step. */
static bool is_served(const struct plait_run *run, const struct plait_whole *w)
{
    const struct plait_op_plan *o = run->o;
    const bool canonical = o->geometry.combines && (run->comm->reproducible || o->call.reproducible);

    return !w->apart && (w->leaders.n == 1 || (!o->vform && (w->ordered || !canonical)));
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

/* ---- The leader -------------------------------------------------------------------------------------- */

static struct plait_link *link_to(const struct plait_run *run, uint32_t rank)
{
    return plait_connect(run->comm, rank, run->channel);
}

static void launch(const struct plait_device_list *l)
{
    struct plait_comm *comm = l->run->comm;
    const struct plait_op_plan *o = l->run->o;
    const struct plait_list list = { .type = l->combines ? o->type : PLAIT_UINT8,
                                     .op = l->combines ? o->op : PLAIT_SUM,
                                     .divisor = l->phase == PLAIT_LIST_WHOLE ? o->last.divisor : 0,
                                     .wide = l->phase == PLAIT_LIST_SPREAD && l->w->wide,
                                     .wide_dst = l->phase == PLAIT_LIST_GATHER && l->w->wide,
                                     .items = l->w->items,
                                     .n = (uint32_t)(l->end - l->w->items) };
    struct plait_queue *queue = list.n > 0 ? plait_device_queue(comm) : NULL;

    for (const struct plait_item *i = l->w->items; i < l->end; i++)
        *(l->combines ? &comm->stats.bytes_reduced : &comm->stats.bytes_copied) += i->times * i->count * l->size;
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
    const struct plait_geometry g = plait_device_leaders_geometry(run, w);
    const uint32_t each = plait_device_blocks_in_one(run, w);
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

/* All operands are known; and once more, when the leaders' plan has run. */
static enum plait_status lead(struct plait_run *run, struct plait_whole *w)
{
    const bool spreads = run->inner.state == PLAIT_INNER_DONE;
    struct plait_device_list l = { .run = run,
                                   .w = w,
                                   .phase = spreads             ? PLAIT_LIST_SPREAD
                                            : w->leaders.n == 1 ? PLAIT_LIST_WHOLE
                                                                : PLAIT_LIST_GATHER };
    enum plait_status status = l.phase == PLAIT_LIST_GATHER ? plan_leaders(run, w) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = plait_device_list(&l);
    if (status == PLAIT_OK)
        status = plait_probe_failures(run->comm);
    if (status != PLAIT_OK)
        return status;
    for (uint32_t i = 1; i < w->nmember && !spreads; i++)
        plait_device_await(link_to(run, w->members[i]), link_to(run, w->members[i])->next_in);
    launch(&l);
    return PLAIT_OK;
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
    const enum plait_status status = lead(run, w);
    *ended = status == PLAIT_OK && run->inner.state != PLAIT_INNER_ASKED;
    if (*ended)
        answer(run, w);
    return status;
}

/* ---- The other ranks --------------------------------------------------------------------------------- */

static size_t out_bytes(const struct plait_run *run)
{
    return run->o->vform ? plait_op_bytes(run->o, run->sizes.out_end, false) : run->o->out_bytes;
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
        plait_device_show_sizes(run);
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
    const enum plait_status status = comm->device->whole == NULL ? find_groups(comm) : PLAIT_OK;
    struct plait_whole *w = comm->device->whole;

    run->whole = w == NULL || is_served(run, w);
    if (w == NULL || !run->whole)
        return status;
    if (w->sequence != comm->sequence) {
        w->sequence = comm->sequence;
        plait_progress_whole(&comm->own->ring, comm->sequence);
        w->offered = false;
        w->ntaken = 0;
        memset(w->taken, 0, comm->nrank * sizeof *w->taken);
    }
    return comm->rank == w->members[0] ? turn_leader(run, w, moved, ended) : turn_other(run, w, moved, ended);
}
