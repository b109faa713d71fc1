/* SPDX-License-Identifier: BSD-3-Clause */
#include "slice.h"

#include "base/status.h"
#include "eager/eager.h"
#include "operate.h"

#include <stdlib.h>
#include <string.h>

/* Bytes from slot to slot. Equal blocks have no padding, so adjacent slots are one piece, as in IN and OUT. */
static size_t stride_of(const struct plait_op_plan *o, size_t n, bool wide)
{
    if (o->geometry.kind != PLAIT_KIND_VECTOR)
        return plait_op_bytes(o, n, wide);
    return PLAIT_ROUND_UP(plait_op_bytes(o, (n + o->prog->nblk - 1) / o->prog->nblk, wide));
}

/* The offsets of the parts of a slice of n elements in library memory, in bytes, and the strides of its slots. */
struct layout {
    size_t tmp_stride, stride, wide_tmp, wide_out, stage, end;
};

static struct layout layout_of(const struct plait_op_plan *o, size_t n)
{
    const struct plait_prog *p = o->prog;
    const size_t nslot = o->geometry.kind == PLAIT_KIND_VECTOR ? 1 : o->geometry.out.nslot;
    struct layout l = { .tmp_stride = stride_of(o, n, false), .stride = stride_of(o, n, p->wide) };

    l.wide_tmp = PLAIT_ROUND_UP(l.tmp_stride * p->ntmp);
    l.wide_out = l.wide_tmp + (p->wide ? PLAIT_ROUND_UP(l.stride * p->ntmp) : 0);
    l.stage = l.wide_out + (p->wide ? PLAIT_ROUND_UP(plait_op_bytes(o, nslot * n, true)) : 0);
    l.end = l.stage + PLAIT_ROUND_UP(l.stride * p->nstage);
    return l;
}

bool plait_slice_idle(const struct plait_comm *comm, struct plait_slice *f)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        struct plait_unread_range *unread = &f->unread[r];
        const struct plait_link *link = comm->peers[r].link[comm->run->channel];
        while (unread->first != unread->end && link->transport->sent(link, unread->first))
            unread->first++;
        if (unread->first != unread->end)
            return false;
    }
    return true;
}

/* Bytes that slices use in rotation. A longer operation may have left more, which would not fit a cache. */
static size_t turn_of(const struct plait_run *run, const struct plait_slice *f)
{
    const size_t turn = run->need > run->comm->slice_bytes ? run->need : run->comm->slice_bytes;

    return turn < f->bytes ? turn : f->bytes;
}

void plait_slice_launch(struct plait_run *run, struct plait_slice *f)
{
    const struct plait_prog *p = run->prog;
    const size_t start_at = run->next_slice * run->o->selection.slice, n = plait_run_slice(run, start_at);
    const bool vector = run->o->geometry.kind == PLAIT_KIND_VECTOR;
    const struct layout l = layout_of(run->o, n);

    f->slice = run->next_slice++;
    f->start = start_at;
    f->stride = l.stride;
    f->tmp_stride = l.tmp_stride;
    if (f->used + run->need > turn_of(run, f))
        f->used = 0;
    f->tmp = f->memory + f->used;
    f->used += run->need;
    f->wide_tmp = f->tmp + l.wide_tmp;
    f->wide_out = f->tmp + l.wide_out;
    f->stage = f->tmp + l.stage;
    f->n = vector ? 0 : n;
    f->q = vector ? n / p->nblk : run->o->count;
    f->r = vector ? n % p->nblk : 0;
    f->in = run->in + plait_op_bytes(run->o, start_at, false);
    f->out = run->out + plait_op_bytes(run->o, plait_slice_place(run->o, &run->work, start_at), false);
    f->done = f->first_ready = f->end_ready = 0;
    f->nreceiving = f->nsending = f->nblocked = 0;
    memcpy(f->pending, p->ndeps, p->ninstr * sizeof *f->pending);
    memset(f->staged, 0, p->nstage * sizeof *f->staged);
    for (uint32_t i = 0; i < p->ninstr; i++)
        if (f->pending[i] == 0)
            f->ready[f->end_ready++] = i;
    if (run->work.prologue != NULL)
        run->work.prologue(run->work.arg, f->start, n);
}

static enum plait_status grow_lists(struct plait_comm *comm, struct plait_slice *f, const struct plait_prog *p)
{
    const uint32_t n = p->ninstr < f->capacity ? f->capacity : p->ninstr + 1;
    const uint32_t nstage = p->nstage < f->nstage ? f->nstage : p->nstage + 1;

    if (f->capacity == n && f->nstage == nstage)
        return PLAIT_OK;
    comm->stats.allocations++;
    const void **message = malloc(n * (sizeof *f->message + 5 * sizeof *f->ready) + nstage * sizeof *f->staged);
    if (message == NULL)
        return plait_fail_memory("out of memory to run a plan of %u steps", p->ninstr);
    free(f->message);
    f->message = message;
    f->ready = (uint32_t *)(f->message + n);
    f->receiving = f->ready + n;
    f->sending = f->receiving + n;
    f->blocked = f->sending + n;
    f->pending = f->blocked + n;
    f->staged = (bool *)(f->pending + n);
    f->capacity = n;
    f->nstage = nstage;
    return PLAIT_OK;
}

static enum plait_status grow_memory(struct plait_run *run, struct plait_slice *f)
{
    struct plait_comm *comm = run->comm;
    struct plait_room room = { f->memory, f->bytes };

    if (run->need <= f->bytes)
        return PLAIT_OK;
    if (!plait_slice_idle(comm, f)) {
        run->fits = false;
        return PLAIT_OK;
    }
    const enum plait_status status =
        run->space->grow(comm, &room, run->need < comm->slice_bytes ? comm->slice_bytes : run->need);
    f->memory = room.memory;
    f->bytes = room.bytes;
    f->used = 0;
    return status;
}

enum plait_status plait_slices_fit(struct plait_run *run)
{
    const size_t count = plait_run_count(run), most = run->o->selection.slice;
    enum plait_status status = PLAIT_OK;

    run->need = layout_of(run->o, most < count ? most : count).end;
    run->fits = true;
    for (uint32_t d = 0; d < run->nplace && status == PLAIT_OK; d++) {
        status = grow_lists(run->comm, &run->slices[d], run->prog);
        if (status == PLAIT_OK)
            status = grow_memory(run, &run->slices[d]);
    }
    return status;
}

/* ---- REDUCE --------------------------------------------------------------------------------------- */

static void reduce(const struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                   const void *const *from, size_t n)
{
    const struct plait_how *how = in->final ? &run->o->last : &run->o->inner;
    struct plait_combine c = { .type = run->o->type,
                               .op = run->o->op,
                               .dst = plait_step_address(run, f, in->dst, in->wide),
                               .src = from,
                               .nsrc = in->nsource,
                               .divisor = how->divisor,
                               .wide_dst = in->wide,
                               .count = n };

    for (uint32_t k = 0; in->mixed && k < in->nsource; k++)
        c.wide |= (uint64_t)run->prog->sources[in->source + k].wide << k;
    run->space->combine(run, &c, how);
}

void plait_combine(struct plait_run *run, struct plait_slice *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    const struct plait_source *s = run->prog->sources + in->source;
    const size_t n = plait_step_elements(run, f, in);
    const void *from[PLAIT_MOST_SOURCES];

    for (uint32_t k = 0; k < in->nsource; k++)
        from[k] =
            s[k].borrowed != PLAIT_NONE ? f->message[s[k].borrowed] : plait_step_address(run, f, s[k].span, s[k].wide);
    if (n > 0)
        reduce(run, f, in, from, n);
    run->comm->stats.bytes_reduced += plait_step_bytes(run, f, in);
    for (uint32_t k = 0; k < in->nsource; k++)
        if (s[k].borrowed != PLAIT_NONE)
            plait_step_release(run, f, &run->prog->instrs[s[k].borrowed]);
}

/* ---- Variable block sizes ------------------------------------------------------------------------- */

bool plait_vform_wrong(struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                       uint32_t number, size_t sent, size_t expected)
{
    const struct plait_link *link = plait_step_link(run, in->peer);
    size_t before = plait_op_bytes(run->o, f->start, in->wide);
    uint32_t print;
    uint64_t whole;

    if (plait_by_pairs(run->o) && link->transport->peek(link, number, &print, &whole) &&
        whole != plait_vform_header(run, in)) {
        before = 0;
        sent = whole;
        expected = plait_vform_header(run, in);
    }
    if (sent == expected)
        return false;
    run->wrong_sender = plait_step_rank(run, in->peer) + 1;
    run->wrong_bytes = before + sent;
    run->expected_bytes = before + expected;
    return true;
}

/* ---- For the failure detector --------------------------------------------------------------------- */

static uint32_t add_peers(const struct plait_run *run, const uint32_t *instrs, uint32_t n, uint32_t *ranks,
                          uint32_t have, uint32_t most)
{
    for (uint32_t k = 0; k < n && have < most; k++) {
        const uint32_t peer = plait_step_rank(run, run->prog->instrs[instrs[k]].peer);
        bool known = false;
        for (uint32_t j = 0; j < have; j++)
            known |= ranks[j] == peer;
        if (!known)
            ranks[have++] = peer;
    }
    return have;
}

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;
    uint32_t n = 0;

    if (run->whole)
        return run->space->whole_awaited(run, ranks, most);
    if (run->eager_pending && run->fits && most > 0)
        n = plait_eager_awaited(run, ranks, 1);
    if (most > 0 && run->space->queued && run->space->is_behind(run->comm)) /* this rank's own work, before any peer */
        ranks[n++] = run->comm->rank;
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++) {
        const struct plait_slice *f = &run->slices[d];
        n = add_peers(run, f->receiving, f->nreceiving, ranks, n, most);
        n = add_peers(run, f->sending, f->nsending, ranks, n, most);
        n = add_peers(run, f->blocked, f->nblocked, ranks, n, most);
        for (uint32_t r = 0; r < run->comm->nrank && n < most; r++)
            if (f->done == run->prog->ninstr && f->unread[r].first != f->unread[r].end)
                ranks[n++] = r;
    }
    return n;
}

static uint64_t steps_done(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;
    uint64_t n = run->done_slices * run->prog->ninstr;

    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        if (run->slices[d].done < run->prog->ninstr)
            n += run->slices[d].done;
    *of = run->nslice * run->prog->ninstr;
    return n;
}

const struct plait_wait_kind plait_run_waits = { awaited, steps_done };
