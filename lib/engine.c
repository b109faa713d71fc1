/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include "clock.h"
#include "device_comm.h"
#include "device_run.h"
#include "failure.h"
#include "flight.h"
#include "sized.h"
#include "status.h"
#include "tiny.h"
#include "wait.h"
#include "way.h"

#include <stdlib.h>
#include <string.h>

/* ---- Addresses ----------------------------------------------------------------------------------- */

/* Of a slot of IN or OUT; in a vector slot b holds block b. */
static inline size_t slot_start(const struct plait_flight *f, uint32_t slot)
{
    return slot * f->q + (slot < f->r ? slot : f->r);
}

static inline size_t elements(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    if (run->o->sized)
        return plait_sized_elements(run, f, in->blk);
    return f->n > 0 ? in->nblk * f->n : slot_start(f, in->blk + in->nblk) - slot_start(f, in->blk);
}

/* Bytes of what an instruction moves or makes. */
static inline size_t bytes_of(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    return elements(run, f, in) * (in->wide ? sizeof(float) : run->o->size);
}

/* Wide values of OUT lie in its shadow: the caller's memory has no room for them. */
static inline char *address(const struct plait_run *run, const struct plait_flight *f, struct plait_span s, bool wide)
{
    if (s.buf == PLAIT_TMP)
        return f->tmp + s.slot * f->stride;
    if (wide)
        return f->shadow + (f->n > 0 ? s.slot * f->n : slot_start(f, s.slot)) * sizeof(float);
    if (run->o->sized)
        return s.buf == PLAIT_IN ? f->in + run->sizes.in_at[s.slot] * run->o->size
                                 : f->out + run->sizes.out_at[s.slot] * run->o->size;
    return (s.buf == PLAIT_IN ? f->in : f->out) + slot_start(f, s.slot) * run->o->size;
}

/* ---- Steps --------------------------------------------------------------------------------------- */

static inline struct plait_link *link_to(const struct plait_run *run, int32_t peer)
{
    return run->comm->peers[peer].link[run->channel];
}

static inline void complete(const struct plait_run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    const uint32_t *s = run->prog->successors + in->successor;

    f->done++;
    for (uint32_t k = 0; k < in->nsuccessor; k++)
        if (--f->pending[s[k]] == 0)
            f->ready[f->end_ready++] = s[k];
}

static inline uint32_t out_number(const struct plait_run *run, const struct plait_flight *f,
                                  const struct plait_instr *in)
{
    return link_to(run, in->peer)->next_out + (uint32_t)f->slice * run->prog->nsend[in->peer] + in->message;
}

static inline uint32_t in_number(const struct plait_run *run, const struct plait_flight *f,
                                 const struct plait_instr *in)
{
    return link_to(run, in->peer)->next_in + (uint32_t)f->slice * run->prog->nrecv[in->peer] + in->message;
}

static inline double stopwatch(const struct plait_run *run)
{
    return run->timed && run->began == 0 ? plait_clock() : 0;
}

static inline void add_busy(struct plait_run *run, double start)
{
    if (start > 0)
        run->busy += plait_clock() - start;
}

static const struct plait_passed not_measured;

/* What is to be said of a copy of this message: where there is a choice of ways. */
static struct plait_passed measured(const struct plait_run *run, const struct plait_instr *in, size_t bytes)
{
    return plait_ways_of_message(run, in, bytes) > 0 ? plait_way_passed(run, in, bytes) : not_measured;
}

enum { STAGED = 1, STAGED_PAST };

/* The staged copy of a SEND's data; made once for all peers that get it. */
static const char *stage(struct plait_run *run, struct plait_flight *f, const struct plait_instr *in, const char *data,
                         size_t bytes, enum plait_passing way)
{
    unsigned char *staged = &f->staged[in->stage];
    const bool past = *staged ? *staged == STAGED_PAST : way == PLAIT_PASS_PAST;
    char *copy = (past ? f->past : f->stage) + in->stage * f->stride;

    if (!*staged) {
        const enum plait_copying which = past ? PLAIT_STAGING_PAST : PLAIT_STAGING;
        const double start = stopwatch(run);
        const struct plait_passed m = measured(run, in, bytes);
        const double alone = plait_lend_clock(run->comm, which, m);
        if (run->queue != NULL)
            plait_device_copy(run, copy, data, bytes);
        else if (past)
            run->comm->kernels->stream(copy, data, bytes);
        else
            plait_copy(run->comm->kernels, copy, data, bytes);
        add_busy(run, start);
        plait_lend_copied(run->comm, which, m, alone);
        *staged = past ? STAGED_PAST : STAGED;
        run->comm->stats.bytes_staged += bytes;
    }
    link_to(run, in->peer)->past_out = past;
    return copy;
}

/* Offer a message; false when the window is full. */
static bool start_send(struct plait_run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    struct plait_link *link = link_to(run, in->peer);
    const uint32_t number = out_number(run, f, in);
    const char *data = address(run, f, run->prog->sources[in->source].span, in->wide);
    const size_t bytes = bytes_of(run, f, in);
    const uint64_t note = plait_sized_note(run, in);
    enum plait_passing way;
    bool free_at_once = true;

    if (!link->transport->ready(link, number))
        return false;
    link->past_out = false;
    if (bytes <= PLAIT_POST_DATA && run->queue == NULL) {
        free_at_once = link->transport->offer(link, number, run->fingerprint, note, data, bytes, true);
    } else if ((way = plait_way_of_message(run, link, in, data, bytes)) == PLAIT_PASS_LENT) {
        link->transport->offer(link, number, run->fingerprint, note, data, bytes, false);
        free_at_once = false;
    } else {
        data = stage(run, f, in, data, bytes, way);
        link->transport->offer(link, number, run->fingerprint, note, data, bytes, false);
        free_at_once = run->queue == NULL; /* the stream waits, not the host */
        if (free_at_once)
            plait_read_later(&f->late[in->peer], number);
    }
    run->comm->stats.messages++;
    run->comm->stats.bytes_sent += bytes;
    if (free_at_once)
        complete(run, f, i);
    else
        f->sending[f->nsending++] = i;
    return true;
}

static void copy(struct plait_run *run, void *to, const void *from, size_t bytes)
{
    const double start = stopwatch(run);

    if (bytes == 0 || to == from) /* TMP may have no memory then, which memcpy does not take; in place it is there */
        return;
    if (run->queue != NULL)
        plait_device_copy(run, to, from, bytes);
    else if (run->way & PLAIT_RESULT_PAST)
        run->comm->kernels->stream(to, from, bytes);
    else
        plait_copy(run->comm->kernels, to, from, bytes);
    add_busy(run, start);
    run->comm->stats.bytes_copied += bytes;
}

static void release(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    struct plait_link *link = link_to(run, in->peer);
    link->transport->release(link, in_number(run, f, in));
}

static inline const struct plait_how *how_of(const struct plait_run *run, const struct plait_instr *in)
{
    return in->final ? &run->o->last : &run->o->inner;
}

static void reduce_mixed(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in,
                         const void *const *from, size_t n)
{
    uint64_t wide = 0;

    for (uint32_t k = 0; k < in->nsource; k++)
        wide |= (uint64_t)run->prog->sources[in->source + k].wide << k;
    plait_reduce_mixed(run->comm->kernels, run->o->type, run->o->op, address(run, f, in->dst, in->wide), in->wide, from,
                       wide, in->nsource, n, how_of(run, in));
}

/* Will a SEND of this result be staged? */
static bool is_staged(const struct plait_run *run, const struct plait_instr *in, const char *to, size_t bytes)
{
    if (!in->sent || bytes <= PLAIT_POST_DATA)
        return false;
    for (uint32_t k = 0; k < in->nsuccessor; k++) {
        const struct plait_instr *next = &run->prog->instrs[run->prog->successors[in->successor + k]];
        const struct plait_link *link = next->verb == PLAIT_STEP_SEND ? link_to(run, next->peer) : NULL;
        if (link != NULL && !link->transport->reaches(link, to, bytes, false))
            return true;
    }
    return false;
}

/*
 * Past the caches, in pieces that stay in the first-level cache; the staged copy is made of the same pieces. The
 * sources are advanced.
 */
static void reduce_past_caches(struct plait_run *run, struct plait_flight *f, const struct plait_instr *in,
                               const void **from, size_t n, bool staged)
{
    _Alignas(PLAIT_LINE) char piece[4096];
    const size_t size = run->o->size, most = sizeof piece / size;
    const bool past = run->way & PLAIT_SHARED_PAST;
    char *to = address(run, f, in->dst, false);
    char *copy = staged ? (past ? f->past : f->stage) + in->stage * f->stride : NULL;

    for (size_t at = 0; at < n; at += most) {
        const size_t here = n - at < most ? n - at : most;
        run->o->reduce(piece, from, in->nsource, here, how_of(run, in));
        if (staged && past)
            run->comm->kernels->stream(copy + at * size, piece, here * size);
        else if (staged)
            plait_copy(run->comm->kernels, copy + at * size, piece, here * size);
        run->comm->kernels->stream(to + at * size, piece, here * size);
        for (uint32_t k = 0; k < in->nsource; k++)
            from[k] = (const char *)from[k] + here * size;
    }
    if (staged) {
        f->staged[in->stage] = past ? STAGED_PAST : STAGED;
        run->comm->stats.bytes_staged += n * size;
    }
}

/* A result that others read where it lies goes the way of what they read; one that is staged goes that of results. */
static bool goes_past_caches(const struct plait_run *run, const struct plait_instr *in, bool staged)
{
    return staged ? run->way & PLAIT_RESULT_PAST : in->sent && (run->way & PLAIT_SHARED_PAST);
}

/* The RECV of what is read where its sender has it, the first of them; NULL: there is none. */
static const struct plait_instr *first_borrowed(const struct plait_run *run, const struct plait_instr *in)
{
    const struct plait_source *s = run->prog->sources + in->source;

    for (uint32_t k = 0; k < in->nsource; k++)
        if (s[k].borrowed != PLAIT_NONE)
            return &run->prog->instrs[s[k].borrowed];
    return NULL;
}

/* Which copy it is when this rank takes the message that arrived last. */
static inline enum plait_copying taking_of(const struct plait_run *run, const struct plait_instr *recv)
{
    return link_to(run, recv->peer)->past_in ? PLAIT_TAKING_PAST : PLAIT_TAKING_STAGED;
}

/* Where what a REDUCE reads is put if its sender lends it; NULL: it does not. */
static inline char *landing(const struct plait_run *run, const struct plait_flight *f, const struct plait_instr *in)
{
    const struct plait_flight *where = run->nslice == 1 ? run->flights : f; /* in its cache */

    if (!run->lands)
        return NULL;
    return in->dst.buf == PLAIT_TMP ? where->land + in->dst.slot * f->stride : address(run, f, in->dst, false);
}

/* Its sender is free. */
static inline bool is_landed(const struct plait_run *run, const struct plait_flight *f, uint32_t i)
{
    const char *at = landing(run, f, &run->prog->instrs[i]);
    return at != NULL && f->message[i] == at;
}

/* The same when it reduces the message. */
static inline enum plait_copying combining_of(const struct plait_run *run, const struct plait_flight *f,
                                              const struct plait_instr *recv)
{
    return is_landed(run, f, (uint32_t)(recv - run->prog->instrs)) ? PLAIT_COMBINING : taking_of(run, recv);
}

static void do_reduce(struct plait_run *run, struct plait_flight *f, uint32_t i)
{
    enum { MOST = 1024 };
    const struct plait_instr *in = &run->prog->instrs[i];
    const struct plait_source *s = run->prog->sources + in->source;
    const size_t n = elements(run, f, in);
    const void *from[MOST];
    const double start = stopwatch(run);
    const struct plait_instr *recv = first_borrowed(run, in);
    const struct plait_passed m = recv != NULL ? measured(run, recv, bytes_of(run, f, recv)) : not_measured;
    const enum plait_copying which = recv != NULL ? combining_of(run, f, recv) : PLAIT_COMBINING;
    const double alone = plait_lend_clock(run->comm, which, m);

    for (uint32_t k = 0; k < in->nsource; k++)
        from[k] = s[k].borrowed != PLAIT_NONE ? f->message[s[k].borrowed] : address(run, f, s[k].span, s[k].wide);
    const bool staged =
        run->way != 0 && !in->mixed && is_staged(run, in, address(run, f, in->dst, false), n * run->o->size);
    if (n > 0 && run->queue != NULL)
        plait_device_combine(run, in, address(run, f, in->dst, in->wide), from, n);
    else if (n > 0 && in->mixed)
        reduce_mixed(run, f, in, from, n);
    else if (n > 0 && goes_past_caches(run, in, staged))
        reduce_past_caches(run, f, in, from, n, staged);
    else if (n > 0)
        run->o->reduce(address(run, f, in->dst, false), from, in->nsource, n, how_of(run, in));
    add_busy(run, start);
    plait_lend_copied(run->comm, which, m, alone);
    run->comm->stats.bytes_reduced += bytes_of(run, f, in);
    for (uint32_t k = 0; k < in->nsource; k++)
        if (s[k].borrowed != PLAIT_NONE && !is_landed(run, f, s[k].borrowed))
            release(run, f, &run->prog->instrs[s[k].borrowed]);
    complete(run, f, i);
}

static void start(struct plait_run *run, struct plait_flight *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];

    switch ((enum plait_verb)in->verb) {
    case PLAIT_STEP_SEND:
        if (plait_sized_over(run, f, in))
            complete(run, f, i);
        else if (!start_send(run, f, i))
            f->blocked[f->nblocked++] = i;
        break;
    case PLAIT_STEP_RECV:
        if (plait_sized_over(run, f, in))
            complete(run, f, i);
        else
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

static bool poll_receives(struct plait_run *run, struct plait_flight *f)
{
    uint32_t kept = 0;
    const uint32_t n = f->nreceiving;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->receiving[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        struct plait_link *link = link_to(run, in->peer);
        const size_t bytes = bytes_of(run, f, in);
        size_t sent = bytes;
        char *to = in->borrowed ? landing(run, f, in) : address(run, f, in->dst, in->wide);
        link->row = plait_way_passed(run, in, bytes).row;
        const void *data = link->transport->arrived(link, in_number(run, f, in), run->fingerprint, to, &sent);
        const bool wrong =
            PLAIT_GUARDS && data != NULL && plait_sized_wrong(run, f, in, in_number(run, f, in), sent, bytes);
        if (data == NULL || wrong) {
            f->receiving[kept++] = i;
            continue;
        }
        f->message[i] = data;
        if (run->timed && run->began == 0)
            run->began = plait_clock();
        if (!in->borrowed) {
            run->comm->stats.bytes_copied += data == to ? bytes : 0;
            const enum plait_copying which = taking_of(run, in);
            const struct plait_passed m = data != to ? measured(run, in, bytes) : not_measured;
            if (plait_lend_is_beyond(m) && in->nsuccessor == 0 &&
                !run->work.scratch) { /* nothing here reads it again */
                plait_lend_take(run->comm, link->past_in, to, data, m);
                run->comm->stats.bytes_copied += bytes;
            } else {
                const double start = plait_lend_clock(run->comm, which, m);
                copy(run, to, data, bytes);
                plait_lend_copied(run->comm, which, m, start);
            }
            release(run, f, in);
        } else if (is_landed(run, f, i)) {
            run->comm->stats.bytes_copied += bytes;
            release(run, f, in);
        }
        complete(run, f, i);
    }
    f->nreceiving = kept;
    return kept < n;
}

static bool poll_sends(struct plait_run *run, struct plait_flight *f)
{
    uint32_t kept = 0, n = f->nsending;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->sending[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        const struct plait_link *link = link_to(run, in->peer);
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
static bool turn(struct plait_run *run, struct plait_flight *f)
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

/* ---- Waiting ------------------------------------------------------------------------------------- */

static uint32_t add_peers(const struct plait_run *run, const uint32_t *instrs, uint32_t n, uint32_t *ranks,
                          uint32_t have, uint32_t most)
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
    const struct plait_run *run = context;
    uint32_t n = 0;

    if (run->slots && run->fits && most > 0)
        n = plait_tiny_awaited(run, ranks, 1);
    if (run->queue != NULL && run->comm->device->nstaging > 0 && most > 0) /* for its own queue, before any other */
        ranks[n++] = run->comm->rank;
    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        const struct plait_flight *f = &run->flights[d];
        n = add_peers(run, f->receiving, f->nreceiving, ranks, n, most);
        n = add_peers(run, f->sending, f->nsending, ranks, n, most);
        n = add_peers(run, f->blocked, f->nblocked, ranks, n, most);
        for (uint32_t r = 0; r < run->comm->nrank && n < most; r++)
            if (f->done == run->prog->ninstr && f->late[r].first != f->late[r].end)
                ranks[n++] = r;
    }
    return n;
}

static uint64_t steps_done(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;
    uint64_t n = run->done_slices * run->prog->ninstr;

    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++)
        if (run->flights[d].done < run->prog->ninstr)
            n += run->flights[d].done;
    *of = run->nslice * run->prog->ninstr;
    return n;
}

/* A slice more is done, and so is every step of it. */
static void note_slice(struct plait_run *run, const struct plait_flight *f)
{
    struct plait_progress *p;

    if (run->work.epilogue != NULL)
        run->work.epilogue(run->work.arg, f->start, plait_run_slice(run, f->start));
    run->done_slices++;
    if (!PLAIT_GUARDS)
        return;
    p = plait_ring_progress(&run->comm->own->ring, run->comm->sequence);
    atomic_store_explicit(&p->slices, (uint32_t)run->done_slices, memory_order_relaxed);
    atomic_store_explicit(&p->steps, run->done_slices * run->prog->ninstr, memory_order_relaxed);
}

/* ---- Running ------------------------------------------------------------------------------------- */

static enum plait_status connect_links(const struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_prog *p = run->prog;

    for (uint32_t r = 0; r < comm->nrank; r++)
        if (p->nsend[r] + p->nrecv[r] > 0 && plait_connect(comm, r, run->channel) == NULL)
            return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", r);
    return PLAIT_OK;
}

/* The others must not wait for a rank that fails alone. */
static enum plait_status fail_all(struct plait_comm *comm, enum plait_status status)
{
    return status == PLAIT_OK || comm->failed != PLAIT_OK ? status
                                                          : plait_comm_fail(comm, status, "%s", plait_last_error());
}

enum plait_status plait_engine_begin(struct plait_comm *comm, const struct plait_job *job, const void *in)
{
    struct plait_run *run = comm->run;

    run->o = job->o;
    run->prog = job->o->prog;
    run->fingerprint = plait_message_fingerprint(job->o, comm->sequence) + plait_job_salt(job);
    run->sizes = job->sizes;
    run->in = (char *)(uintptr_t)in;
    run->out = job->out;
    run->nslice = plait_job_slices(job);
    run->next_slice = run->done_slices = run->wrong = 0;
    run->fits = false;
    run->lands = job->queue == NULL && run->comm->cma && run->comm->nprocess > 0 && run->o->geometry.combines &&
                 run->o->selection.once;
    run->queue = job->queue;
    run->channel = job->queue != NULL ? PLAIT_CHANNEL_DEVICE : PLAIT_CHANNEL_COLLECTIVES;
    run->flights = comm->flights;
    if (job->queue != NULL) {
        enum plait_status status = plait_device_captures(comm, job->queue, &run->capture);
        if (status == PLAIT_OK && run->capture != 0 && comm->remote != NULL)
            status = plait_fail(PLAIT_ERR_UNSUPPORTED, "%s", plait_device_no_graph);
        if (status != PLAIT_OK)
            return fail_all(comm, status);
        run->flights = comm->device->flights[run->capture != 0];
    }
    plait_wait_init(&run->wait, NULL, awaited, run);
    run->wait.steps = steps_done;
    plait_wait_for_bytes(comm, &run->wait, plait_run_bytes(run));
    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        struct plait_flight *f = &run->flights[d];
        f->done = run->prog->ninstr;
        f->nreceiving = f->nsending = f->nblocked = 0;
    }
    plait_way_choose(run);
    return fail_all(comm, connect_links(run));
}

static enum plait_status make_room(struct plait_run *run)
{
    run->need = plait_flight_need(run);
    return fail_all(run->comm, plait_flights_fit(run, &run->fits));
}

/* One turn of each slice in flight; of idle flights those whose turn it is take the next slice. */
static bool turn_flights(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const uint64_t depth = run->nslice < PLAIT_NFLIGHT ? run->nslice : PLAIT_NFLIGHT;
    const uint64_t first = run->queue == NULL ? comm->next_flight : 0;
    bool moved = false;

    for (uint64_t d = 0; d < depth; d++) {
        const uint64_t place = (first + d) % PLAIT_NFLIGHT;
        struct plait_flight *f = &run->flights[place];
        if (f->done == run->prog->ninstr) {
            if ((first + run->next_slice) % PLAIT_NFLIGHT != place || run->next_slice == run->nslice ||
                !plait_flight_idle(comm, f))
                continue;
            plait_flight_launch(run, f);
            moved = true;
        }
        moved |= turn(run, f);
        if (f->done == run->prog->ninstr)
            note_slice(run, f);
    }
    return moved;
}

/* The next operation's messages follow this one's. */
static void pass_numbers(struct plait_run *run)
{
    if (plait_sized_by_pairs(run))
        plait_sized_pass(run);
    for (uint32_t r = 0; !plait_sized_by_pairs(run) && r < run->comm->nrank; r++) {
        struct plait_link *link = link_to(run, (int32_t)r);
        if (link != NULL) {
            link->next_out += (uint32_t)run->nslice * run->prog->nsend[r];
            link->next_in += (uint32_t)run->nslice * run->prog->nrecv[r];
        }
    }
    if (run->queue == NULL)
        run->comm->next_flight = (run->comm->next_flight + run->nslice) % PLAIT_NFLIGHT;
}

/*
 * Nothing of others is read before this rank was seen inside, by the ring, and then looked for failures: a rank that
 * failed waits in destroy for those it sees inside (comm.c). Both sides write one flag and then read the other's, so
 * both flags are sequentially consistent.
 */
enum plait_status plait_engine_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;

    if (!run->fits) {
        enum plait_status status = make_room(run);
        if (status == PLAIT_OK && run->fits)
            status = plait_look_for_failures(comm);
        if (status != PLAIT_OK || !run->fits)
            return status;
    }
    if (run->queue != NULL)
        plait_device_aim(comm, run->queue, run->capture);
    *moved = turn_flights(run);
    if (run->queue != NULL && !plait_device_works(comm))
        return plait_device_status(comm);
    if (run->wrong > 0) /* said only now: who sees this rank fail takes it that it reads no more */
        return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, run->wrong - 1,
                                "rank %u sends %zu bytes where rank %u expects %zu", run->wrong - 1, run->wrong_bytes,
                                comm->rank, run->expected_bytes);
    if (run->done_slices < run->nslice)
        return PLAIT_OK;
    pass_numbers(run);
    plait_way_report(run);
    *ended = true;
    return plait_look_for_failures(comm);
}
