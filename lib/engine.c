/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include "clock.h"
#include "flight.h"
#include "status.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

struct run {
    struct plait_comm *comm;
    const struct plait_op_plan *o;
    const struct plait_prog *prog;
    unsigned way; /* of writing: enum plait_way */
    bool timed;   /* measure `busy` */
    double busy;  /* seconds spent copying and reducing before the first message came */
    double began; /* clock when it came; from then on waiting counts too, as the others' writing causes it */
    size_t need;  /* library memory of the largest slice */
    uint64_t next_slice, done_slices;
    char *in, *out;
    struct plait_wait wait;
    enum plait_status failed; /* a message is not what it must be */
};

/* ---- Addresses ----------------------------------------------------------------------------------- */

/* Of a slot of IN or OUT; in a vector slot b holds block b. */
static inline size_t slot_start(const struct plait_flight *f, uint32_t slot)
{
    return slot * f->q + (slot < f->r ? slot : f->r);
}

/* Of a block that this rank gives or gets. */
static size_t sized_elements(const struct run *run, uint32_t blk)
{
    const struct plait_geometry *g = &run->o->geometry;
    const struct plait_sizes *v = &run->comm->sizes;
    const uint32_t slot = plait_side_slot(&g->in, blk);

    return slot != UINT32_MAX ? v->in[slot] : v->out[plait_side_slot(&g->out, blk)];
}

static inline size_t elements(const struct run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    if (run->o->sized)
        return sized_elements(run, in->blk);
    return f->n > 0 ? in->nblk * f->n : slot_start(f, in->blk + in->nblk) - slot_start(f, in->blk);
}

/* Bytes of what an instruction moves or makes. */
static inline size_t bytes_of(const struct run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    return elements(run, f, in) * (in->wide ? sizeof(float) : run->o->size);
}

/* Wide values of OUT lie in its shadow: the caller's memory has no room for them. */
static inline char *address(const struct run *run, const struct plait_flight *f, struct plait_span s, bool wide)
{
    if (s.buf == PLAIT_TMP)
        return f->tmp + s.slot * f->stride;
    if (wide)
        return f->shadow + (f->n > 0 ? s.slot * f->n : slot_start(f, s.slot)) * sizeof(float);
    if (run->o->sized)
        return s.buf == PLAIT_IN ? f->in + run->comm->sizes.in_at[s.slot] * run->o->size
                                 : f->out + run->comm->sizes.out_at[s.slot] * run->o->size;
    return (s.buf == PLAIT_IN ? f->in : f->out) + slot_start(f, s.slot) * run->o->size;
}

/* ---- Steps --------------------------------------------------------------------------------------- */

static inline void complete(const struct run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    const uint32_t *s = run->prog->successors + in->successor;

    f->done++;
    for (uint32_t k = 0; k < in->nsuccessor; k++)
        if (--f->pending[s[k]] == 0)
            f->ready[f->end_ready++] = s[k];
}

static inline uint32_t out_number(const struct run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    return run->comm->peers[in->peer].link->next_out + (uint32_t)f->slice * run->prog->nsend[in->peer] + in->message;
}

static inline uint32_t in_number(const struct run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    return run->comm->peers[in->peer].link->next_in + (uint32_t)f->slice * run->prog->nrecv[in->peer] + in->message;
}

static inline double stopwatch(const struct run *run)
{
    return run->timed && run->began == 0 ? plait_clock() : 0;
}

static inline void add_busy(struct run *run, double start)
{
    if (start > 0)
        run->busy += plait_clock() - start;
}

/* The staged copy of a SEND's data; made once for all peers that get it. */
static const char *stage(struct run *run, struct plait_flight *f, const struct plait_instr *in, const char *data,
                         size_t bytes)
{
    char *copy = f->stage + in->stage * f->stride;

    if (!f->staged[in->stage]) {
        const double start = stopwatch(run);
        if (run->way & PLAIT_SHARED_PAST)
            run->comm->kernels->stream(copy, data, bytes);
        else
            memcpy(copy, data, bytes);
        add_busy(run, start);
        f->staged[in->stage] = 1;
        run->comm->stats.bytes_staged += bytes;
    }
    return copy;
}

static void read_later(struct plait_late *late, uint32_t number)
{
    const bool none = late->first == late->end;

    if (none || (int32_t)(number - late->first) < 0)
        late->first = number;
    if (none || (int32_t)(number + 1 - late->end) > 0)
        late->end = number + 1;
}

/* Offer a message; false when the window is full. */
static bool start_send(struct run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    struct plait_link *link = run->comm->peers[in->peer].link;
    const uint32_t number = out_number(run, f, in);
    const char *data = address(run, f, run->prog->sources[in->source].span, in->wide);
    const size_t bytes = bytes_of(run, f, in);
    bool free_at_once = true;

    if (!link->transport->ready(link, number))
        return false;
    if (bytes <= PLAIT_POST_DATA) {
        free_at_once = link->transport->offer(link, number, run->o->fingerprint, data, bytes, true);
    } else if (link->transport->reaches(link, data, bytes)) {
        link->transport->offer(link, number, run->o->fingerprint, data, bytes, false);
        free_at_once = false;
    } else {
        link->transport->offer(link, number, run->o->fingerprint, stage(run, f, in, data, bytes), bytes, false);
        read_later(&f->late[in->peer], number);
    }
    run->comm->stats.messages++;
    run->comm->stats.bytes_sent += bytes;
    if (free_at_once)
        complete(run, f, i);
    else
        f->sending[f->nsending++] = i;
    return true;
}

static void copy(struct run *run, void *to, const void *from, size_t bytes)
{
    const double start = stopwatch(run);

    if (bytes == 0 || to == from) /* TMP may have no memory then, which memcpy does not take; in place it is there */
        return;
    if (run->way & PLAIT_RESULT_PAST)
        run->comm->kernels->stream(to, from, bytes);
    else
        memcpy(to, from, bytes);
    add_busy(run, start);
    run->comm->stats.bytes_copied += bytes;
}

static void release(const struct run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    struct plait_link *link = run->comm->peers[in->peer].link;
    link->transport->release(link, in_number(run, f, in));
}

static inline const struct plait_how *how_of(const struct run *run, const struct plait_instr *in)
{
    return in->final ? &run->o->last : &run->o->inner;
}

static void reduce_mixed(const struct run *run, const struct plait_flight *f, const struct plait_instr *in,
                         const void *const *from, size_t n)
{
    uint64_t wide = 0;

    for (uint32_t k = 0; k < in->nsource; k++)
        wide |= (uint64_t)run->prog->sources[in->source + k].wide << k;
    plait_reduce_mixed(run->comm->kernels, run->o->type, run->o->op, address(run, f, in->dst, in->wide), in->wide, from,
                       wide, in->nsource, n, how_of(run, in));
}

/* Will a SEND of this result be staged? */
static bool is_staged(const struct run *run, const struct plait_instr *in, const char *to, size_t bytes)
{
    if (!in->sent || bytes <= PLAIT_POST_DATA)
        return false;
    for (uint32_t k = 0; k < in->nsuccessor; k++) {
        const struct plait_instr *next = &run->prog->instrs[run->prog->successors[in->successor + k]];
        const struct plait_link *link = next->verb == PLAIT_STEP_SEND ? run->comm->peers[next->peer].link : NULL;
        if (link != NULL && !link->transport->reaches(link, to, bytes))
            return true;
    }
    return false;
}

/*
 * Past the caches, in pieces that stay in the first-level cache; the staged copy is made of the same pieces. The
 * sources are advanced.
 */
static void reduce_past_caches(struct run *run, struct plait_flight *f, const struct plait_instr *in, const void **from,
                               size_t n, bool staged)
{
    _Alignas(PLAIT_LINE) char piece[4096];
    const size_t size = run->o->size, most = sizeof piece / size;
    char *to = address(run, f, in->dst, false), *copy = staged ? f->stage + in->stage * f->stride : NULL;

    for (size_t at = 0; at < n; at += most) {
        const size_t here = n - at < most ? n - at : most;
        run->o->reduce(piece, from, in->nsource, here, how_of(run, in));
        if (staged && (run->way & PLAIT_SHARED_PAST))
            run->comm->kernels->stream(copy + at * size, piece, here * size);
        else if (staged)
            memcpy(copy + at * size, piece, here * size);
        run->comm->kernels->stream(to + at * size, piece, here * size);
        for (uint32_t k = 0; k < in->nsource; k++)
            from[k] = (const char *)from[k] + here * size;
    }
    if (staged) {
        f->staged[in->stage] = 1;
        run->comm->stats.bytes_staged += n * size;
    }
}

/* A result that others read where it lies goes the way of what they read; one that is staged goes that of results. */
static bool goes_past_caches(const struct run *run, const struct plait_instr *in, bool staged)
{
    return staged ? run->way & PLAIT_RESULT_PAST : in->sent && (run->way & PLAIT_SHARED_PAST);
}

static void do_reduce(struct run *run, struct plait_flight *f, uint32_t i)
{
    enum { MOST = 1024 };
    const struct plait_instr *in = &run->prog->instrs[i];
    const struct plait_source *s = run->prog->sources + in->source;
    const size_t n = elements(run, f, in);
    const void *from[MOST];
    const double start = stopwatch(run);

    for (uint32_t k = 0; k < in->nsource; k++)
        from[k] = s[k].borrowed != PLAIT_NONE ? f->message[s[k].borrowed] : address(run, f, s[k].span, s[k].wide);
    const bool staged =
        run->way != 0 && !in->mixed && is_staged(run, in, address(run, f, in->dst, false), n * run->o->size);
    if (n > 0 && in->mixed)
        reduce_mixed(run, f, in, from, n);
    else if (n > 0 && goes_past_caches(run, in, staged))
        reduce_past_caches(run, f, in, from, n, staged);
    else if (n > 0)
        run->o->reduce(address(run, f, in->dst, false), from, in->nsource, n, how_of(run, in));
    add_busy(run, start);
    run->comm->stats.bytes_reduced += bytes_of(run, f, in);
    for (uint32_t k = 0; k < in->nsource; k++)
        if (s[k].borrowed != PLAIT_NONE)
            release(run, f, &run->prog->instrs[s[k].borrowed]);
    complete(run, f, i);
}

static void start(struct run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];

    switch ((enum plait_verb)in->verb) {
    case PLAIT_STEP_SEND:
        if (!start_send(run, f, i))
            f->blocked[f->nblocked++] = i;
        break;
    case PLAIT_STEP_RECV:
        f->receiving[f->nreceiving++] = i;
        break;
    case PLAIT_STEP_COPY:
        copy(run, address(run, f, in->dst, in->wide), address(run, f, run->prog->sources[in->source].span, in->wide),
             bytes_of(run, f, in));
        complete(run, f, i);
        break;
    case PLAIT_STEP_REDUCE:
        do_reduce(run, f, i);
        break;
    case PLAIT_NVERB:
        break;
    }
}

/* ---- One turn ------------------------------------------------------------------------------------ */

static bool poll_receives(struct run *run, struct plait_flight *f)
{
    uint32_t kept = 0;
    const uint32_t n = f->nreceiving;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->receiving[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        struct plait_link *link = run->comm->peers[in->peer].link;
        const size_t bytes = bytes_of(run, f, in);
        size_t sent = bytes;
        char *to = in->borrowed ? NULL : address(run, f, in->dst, in->wide);
        const void *data = link->transport->arrived(link, in_number(run, f, in), run->o->fingerprint, to, &sent);
        const bool wrong = PLAIT_GUARDS && data != NULL && sent != bytes;
        if (wrong && run->failed == PLAIT_OK)
            run->failed = plait_comm_blame(run->comm, PLAIT_ERR_MISMATCH, (uint32_t)in->peer,
                                           "rank %d sends %zu bytes where rank %u expects %zu", in->peer, sent,
                                           run->comm->rank, bytes);
        if (data == NULL || wrong) {
            f->receiving[kept++] = i;
            continue;
        }
        f->message[i] = data;
        if (run->timed && run->began == 0)
            run->began = plait_clock();
        if (!in->borrowed) {
            if (data != to)
                copy(run, to, data, bytes);
            release(run, f, in);
        }
        complete(run, f, i);
    }
    f->nreceiving = kept;
    return kept < n;
}

static bool poll_sends(struct run *run, struct plait_flight *f)
{
    uint32_t kept = 0, n = f->nsending;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->sending[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        const struct plait_link *link = run->comm->peers[in->peer].link;
        if (link->transport->sent(link, out_number(run, f, in)))
            complete(run, f, i);
        else
            f->sending[kept++] = i;
    }
    f->nsending = kept;
    const uint32_t nblocked = f->nblocked;
    f->nblocked = 0;
    for (uint32_t k = 0; k < nblocked; k++)
        if (!start_send(run, f, f->blocked[k]))
            f->blocked[f->nblocked++] = f->blocked[k];
    return kept < n || f->nblocked < nblocked;
}

/* Poll, mark done, release successors, start what is ready. False: nothing moved. */
static bool turn(struct run *run, struct plait_flight *f)
{
    bool moved = poll_receives(run, f);

    if (f->nsending + f->nblocked > 0)
        moved |= poll_sends(run, f);
    while (f->first_ready < f->end_ready) {
        start(run, f, f->ready[f->first_ready++]);
        moved = true;
    }
    return moved;
}

/* Start the next slice in an idle flight. */
static void launch(struct run *run, struct plait_flight *f)
{
    const struct plait_prog *p = run->prog;
    const size_t start_at = run->next_slice * run->o->selection.slice;
    const size_t left = plait_op_count(run->comm, run->o) - start_at;
    const size_t n = left < run->o->selection.slice ? left : run->o->selection.slice;

    const bool vector = run->o->geometry.kind == PLAIT_KIND_VECTOR;

    f->slice = run->next_slice++;
    f->stride = plait_flight_stride(run->o, n);
    if (f->used + run->need > f->bytes)
        f->used = 0;
    f->tmp = f->memory + f->used;
    f->used += run->need;
    f->shadow = f->tmp + PLAIT_ROUND_UP(f->stride * p->ntmp);
    f->stage = f->shadow + plait_flight_shadow(run->o, n);
    f->n = vector ? 0 : n;
    f->q = vector ? n / p->nblk : run->o->count;
    f->r = vector ? n % p->nblk : 0;
    f->in = run->in + start_at * run->o->size;
    f->out = run->out + start_at * run->o->size;
    f->done = f->first_ready = f->end_ready = 0;
    f->nreceiving = f->nsending = f->nblocked = 0;
    memcpy(f->pending, p->ndeps, p->ninstr * sizeof *f->pending);
    memset(f->staged, 0, p->nstage);
    for (uint32_t i = 0; i < p->ninstr; i++)
        if (f->pending[i] == 0)
            f->ready[f->end_ready++] = i;
}

/* ---- Waiting ------------------------------------------------------------------------------------- */

static uint32_t add_peers(const struct run *run, const uint32_t *instrs, uint32_t n, uint32_t *ranks, uint32_t have,
                          uint32_t most)
{
    for (uint32_t k = 0; k < n && have < most; k++) {
        const uint32_t peer = (uint32_t)run->prog->instrs[instrs[k]].peer;
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
    const struct run *run = context;
    uint32_t n = 0;

    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        const struct plait_flight *f = &run->comm->flights[d];
        n = add_peers(run, f->receiving, f->nreceiving, ranks, n, most);
        n = add_peers(run, f->sending, f->nsending, ranks, n, most);
        n = add_peers(run, f->blocked, f->nblocked, ranks, n, most);
        for (uint32_t r = 0; r < run->comm->nrank && n < most; r++)
            if (f->done == run->prog->ninstr && f->late[r].first != f->late[r].end)
                ranks[n++] = r;
    }
    return n;
}

static uint64_t steps_done(const void *context)
{
    const struct run *run = context;
    uint64_t n = run->done_slices * run->prog->ninstr;

    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++)
        if (run->comm->flights[d].done < run->prog->ninstr)
            n += run->comm->flights[d].done;
    return n;
}

/* A slice more is done, and so is every step of it. */
static void note_slice(struct run *run)
{
    struct plait_progress *p;

    run->done_slices++;
    if (!PLAIT_GUARDS)
        return;
    p = plait_ring_progress(&run->comm->own->ring, run->comm->sequence);
    atomic_store_explicit(&p->slices, (uint32_t)run->done_slices, memory_order_relaxed);
    atomic_store_explicit(&p->steps, run->done_slices * run->prog->ninstr, memory_order_relaxed);
}

/* ---- The way to write (trial.h) -------------------------------------------------------------------- */

static void choose_way(struct run *run)
{
    struct plait_comm *comm = run->comm;
    const size_t bytes = run->o->count * run->o->size;

    run->busy = run->began = 0;
    run->way = 0;
    run->timed = false;
    if (bytes >= PLAIT_TRIAL_LEAST && comm->nrank > 1 && !run->o->geometry.rooted)
        run->way = plait_trial_start(&comm->trials, bytes, &run->timed);
    plait_ring_record(&comm->own->ring, comm->sequence)->what.wanted = plait_trial_of(&comm->trials, bytes)->wanted;
}

/*
 * Every rank wrote its record before it sent anything, and everyone hears of everyone, so all see the same. That is not
 * so in rooted collectives, which therefore try nothing.
 */
static void report_way(struct run *run)
{
    struct plait_comm *comm = run->comm;
    const size_t bytes = run->o->count * run->o->size;
    uint32_t wanted = 0;

    if (!run->timed)
        return;
    plait_trial_report(&comm->trials, bytes, run->busy + (run->began > 0 ? plait_clock() - run->began : 0));
    for (uint32_t r = 0; bytes >= PLAIT_TRIAL_WATCHED && r < comm->nrank; r++)
        wanted += plait_ring_record(&comm->peers[r].control->ring, comm->sequence)->what.wanted;
    if (2 * wanted > comm->nrank)
        plait_trial_again(plait_trial_of(&comm->trials, bytes));
}

/* ---- Running ------------------------------------------------------------------------------------- */

enum plait_status plait_engine_run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out)
{
    const uint64_t nslice = o->selection.nslice, first = comm->next_flight;
    const uint64_t depth = nslice < PLAIT_NFLIGHT ? nslice : PLAIT_NFLIGHT;
    struct run run;
    enum plait_status status = PLAIT_OK;

    run.comm = comm;
    run.o = o;
    run.prog = o->prog;
    run.in = (char *)(uintptr_t)in;
    run.out = out;
    run.next_slice = run.done_slices = 0;
    choose_way(&run);
    run.failed = PLAIT_OK;
    run.need = plait_flight_need(comm, o);
    plait_wait_init(&run.wait, awaited, &run);
    run.wait.steps = steps_done;
    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        struct plait_flight *f = &comm->flights[d];
        f->done = run.prog->ninstr;
        f->nreceiving = f->nsending = f->nblocked = 0;
    }
    while (run.done_slices < nslice && status == PLAIT_OK) {
        bool moved = false;
        for (uint64_t d = 0; d < depth; d++) {
            struct plait_flight *f = &comm->flights[(first + d) % PLAIT_NFLIGHT];
            if (f->done == run.prog->ninstr) {
                if ((first + run.next_slice) % PLAIT_NFLIGHT != (first + d) % PLAIT_NFLIGHT ||
                    run.next_slice == nslice || !plait_flight_idle(comm, f))
                    continue;
                launch(&run, f);
                moved = true;
            }
            moved |= turn(&run, f);
            if (f->done == run.prog->ninstr)
                note_slice(&run);
        }
        if (run.failed != PLAIT_OK)
            status = run.failed;
        else if (moved)
            plait_wait_progress(comm, &run.wait);
        else
            status = plait_wait_turn(comm, &run.wait);
    }
    for (uint32_t r = 0; r < comm->nrank; r++) {
        struct plait_link *link = comm->peers[r].link;
        if (link != NULL) {
            link->next_out += (uint32_t)nslice * run.prog->nsend[r];
            link->next_in += (uint32_t)nslice * run.prog->nrecv[r];
        }
    }
    comm->next_flight = (first + nslice) % PLAIT_NFLIGHT;
    if (status == PLAIT_OK)
        report_way(&run);
    return status == PLAIT_OK ? plait_look_for_failures(comm) : status;
}

static enum plait_status connect_links(struct plait_comm *comm, const struct plait_prog *p)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        struct plait_link **link = &comm->peers[r].link;
        if (*link != NULL || p->nsend[r] + p->nrecv[r] == 0)
            continue;
        for (const struct plait_transport *const *t = plait_transports; *t != NULL && *link == NULL; t++)
            if ((*link = (*t)->connect(comm, r)) != NULL)
                (*link)->transport = *t;
        if (*link == NULL)
            return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", r);
    }
    return PLAIT_OK;
}

enum plait_status plait_engine_prepare(struct plait_comm *comm, const struct plait_op_plan *o)
{
    const enum plait_status status = connect_links(comm, o->prog);
    return status == PLAIT_OK ? plait_flights_fit(comm, o) : status;
}
