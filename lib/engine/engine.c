/* SPDX-License-Identifier: BSD-3-Clause */
#include "operate.h"

#include "base/clock.h"
#include "base/status.h"
#include "failure/failure.h"
#include "progress/progress.h"
#include "slice.h"

#include <stdlib.h>
#include <string.h>

/* ---- Steps --------------------------------------------------------------------------------------- */

static inline void complete(const struct plait_run *run, struct plait_slice *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    const uint32_t *s = run->prog->successors + in->successor;

    f->done++;
    for (uint32_t k = 0; k < in->nsuccessor; k++)
        if (--f->pending[s[k]] == 0)
            f->ready[f->end_ready++] = s[k];
}

/* Copy-in: the staged copy of a SEND's data, made once for all its readers. */
static const char *stage(struct plait_run *run, struct plait_slice *f, const struct plait_instr *in, const char *data,
                         size_t bytes, bool streams)
{
    char *copy = f->stage + in->stage * f->stride;

    if (!f->staged[in->stage]) {
        run->space->copy(run->comm, copy, data, bytes, streams);
        f->staged[in->stage] = true;
        run->comm->stats.bytes_staged += bytes;
    }
    return copy;
}

/* The copy mode of a message. PLAIT_COPY_SINGLE also if the receiver reads it in place. */
static enum plait_copy_mode mode_of(const struct plait_run *run, const struct plait_link *link,
                                    const struct plait_instr *in, const void *data, size_t bytes)
{
    if (link->transport->reaches(link, data, bytes, false))
        return PLAIT_COPY_SINGLE;
    return plait_copy_mode_of(&run->comm->copies, plait_step_block_bytes(run, in),
                              !run->o->geometry.combines && plait_single_copy(run->space, link, data, bytes));
}

/* The peer may still read the staged message `number`. */
static void add_unread(struct plait_unread_range *unread, uint32_t number)
{
    const bool none = unread->first == unread->end;

    if (none || (int32_t)(number - unread->first) < 0)
        unread->first = number;
    if (none || (int32_t)(number + 1 - unread->end) > 0)
        unread->end = number + 1;
}

/* Offer a message; false when the window is full. */
static bool start_send(struct plait_run *run, struct plait_slice *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];
    struct plait_link *link = plait_step_link(run, in->peer);
    const uint32_t number = plait_step_number(run, f, in);
    const char *data = plait_step_address(run, f, run->prog->sources[in->source].span, in->wide);
    const size_t bytes = plait_step_bytes(run, f, in);
    const uint64_t header_word = plait_vform_header(run, in);
    enum plait_copy_mode mode;
    bool free_at_once = true;

    if (!link->transport->ready(link, number))
        return false;
    if (bytes <= run->space->mailbox) {
        free_at_once = link->transport->offer(link, number, run->fingerprint, header_word, data, bytes, true);
    } else if ((mode = mode_of(run, link, in, data, bytes)) == PLAIT_COPY_SINGLE) {
        link->transport->offer(link, number, run->fingerprint, header_word, data, bytes, false);
        free_at_once = false;
    } else {
        data = stage(run, f, in, data, bytes, mode == PLAIT_COPY_STREAMED);
        link->transport->offer(link, number, run->fingerprint, header_word, data, bytes, false);
        free_at_once = !run->space->queued; /* the queue waits for the readers, not this thread */
        if (free_at_once)
            add_unread(&f->unread[plait_step_rank(run, in->peer)], number);
    }
    run->comm->stats.messages++;
    run->comm->stats.bytes_sent += bytes;
    if (free_at_once)
        complete(run, f, i);
    else
        f->sending[f->nsending++] = i;
    return true;
}

/* Copies to the destination of a step. */
static void copy(const struct plait_run *run, const struct plait_instr *in, void *to, const void *from, size_t bytes)
{
    if (bytes == 0 || to == from) /* TMP may be NULL if bytes is 0, which memcpy forbids */
        return;
    run->space->copy(run->comm, to, from, bytes, run->streams && in->nsuccessor == 0);
    run->comm->stats.bytes_copied += bytes;
}

static void start(struct plait_run *run, struct plait_slice *f, uint32_t i)
{
    const struct plait_instr *in = &run->prog->instrs[i];

    if (in->peer >= 0 && plait_vform_over(run, f, in)) {
        complete(run, f, i);
        return;
    }
    switch ((enum plait_verb)in->verb) {
    case PLAIT_STEP_SEND:
        if (!start_send(run, f, i))
            f->blocked[f->nblocked++] = i;
        break;
    case PLAIT_STEP_RECV:
        f->receiving[f->nreceiving++] = i;
        break;
    case PLAIT_STEP_COPY:
        copy(run, in, plait_step_address(run, f, in->dst, in->wide),
             plait_step_address(run, f, run->prog->sources[in->source].span, in->wide), plait_step_bytes(run, f, in));
        complete(run, f, i);
        break;
    case PLAIT_STEP_REDUCE:
        plait_combine(run, f, i);
        complete(run, f, i);
        break;
    case PLAIT_NVERB:
        break;
    }
}

/* ---- One turn ------------------------------------------------------------------------------------ */

static bool poll_receives(struct plait_run *run, struct plait_slice *f)
{
    uint32_t kept = 0;
    const uint32_t n = f->nreceiving;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->receiving[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        struct plait_link *link = plait_step_link(run, in->peer);
        const size_t bytes = plait_step_bytes(run, f, in);
        size_t sent = bytes;
        char *to = in->borrowed ? NULL : plait_step_address(run, f, in->dst, in->wide);
        const void *data = link->transport->arrived(link, plait_step_number(run, f, in), run->fingerprint, to, &sent);
        const bool wrong =
            PLAIT_GUARDS && data != NULL && plait_vform_wrong(run, f, in, plait_step_number(run, f, in), sent, bytes);
        if (data == NULL || wrong) {
            f->receiving[kept++] = i;
            continue;
        }
        f->message[i] = data;
        if (!in->borrowed) {
            run->comm->stats.bytes_copied += data == to ? bytes : 0;
            copy(run, in, to, data, bytes);
            plait_step_release(run, f, in);
        }
        complete(run, f, i);
    }
    f->nreceiving = kept;
    return kept < n;
}

static bool poll_sends(struct plait_run *run, struct plait_slice *f)
{
    uint32_t kept = 0, n = f->nsending;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = f->sending[k];
        const struct plait_instr *in = &run->prog->instrs[i];
        const struct plait_link *link = plait_step_link(run, in->peer);
        if (link->transport->sent(link, plait_step_number(run, f, in)))
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

/* Poll, mark steps done, release successors, start ready steps. False: nothing moved. */
static bool turn(struct plait_run *run, struct plait_slice *f)
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

/* ---- Progress, as others see it ------------------------------------------------------------------ */

/* Every step of the slices so far is done. */
static void note_slices(struct plait_run *run, uint64_t n)
{
    struct plait_progress *p;

    run->done_slices = n;
    if (!PLAIT_GUARDS)
        return;
    p = plait_ring_progress(&run->comm->own->ring, run->comm->sequence);
    atomic_store_explicit(&p->slices, (uint32_t)run->done_slices, memory_order_relaxed);
    atomic_store_explicit(&p->steps, run->done_slices * run->prog->ninstr, memory_order_relaxed);
}

static void note_slice(struct plait_run *run, const struct plait_slice *f)
{
    if (run->work.epilogue != NULL)
        run->work.epilogue(run->work.arg, f->start, plait_run_slice(run, f->start));
    note_slices(run, run->done_slices + 1);
}

/* ---- Running ------------------------------------------------------------------------------------- */

static enum plait_status connect_links(const struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_prog *p = run->prog;

    for (uint32_t k = 0; k < p->nrank; k++) {
        const uint32_t r = plait_step_rank(run, (int32_t)k);
        if (p->nsend[k] + p->nrecv[k] > 0 && plait_connect(comm, r, run->channel) == NULL)
            return plait_fail(PLAIT_ERR_NOMEM, "no transport leads to rank %u, or memory is short", r);
    }
    return PLAIT_OK;
}

/*
 * Streaming stores for copied results that would not stay in a cache, unless they replace an operand that was read just
 * before, or an epilogue reads them. Over hosts a network reads what is written.
 */
static bool streams(const struct plait_run *run)
{
    const struct plait_op_plan *o = run->o;
    const size_t bytes = plait_op_bytes(o, plait_run_count(run), false); /* of the vector or of a block */

    return run->comm->remote == NULL && !(o->geometry.combines && o->inplace) && !run->work.scratch &&
           (o->geometry.combines ? bytes : bytes * o->geometry.out.nslot) >= run->comm->streams_from;
}

/* `in`: the job's input, or what replaces it. */
static enum plait_status begin_plan(struct plait_run *run, const struct plait_job *job, const void *in)
{
    struct plait_comm *comm = run->comm;

    run->o = job->o;
    run->prog = job->o->prog;
    run->ranks = run->inner.state == PLAIT_INNER_RUNS ? run->inner.team->ranks : NULL;
    run->in = (char *)(uintptr_t)in;
    run->out = job->out;
    run->nslice = plait_job_slices(job);
    run->next_slice = run->done_slices = run->wrong_sender = 0;
    run->nplace = run->space->host || run->nslice > PLAIT_NSLICE ? PLAIT_NSLICE : (uint32_t)run->nslice;
    run->fits = false;
    run->streams = streams(run);
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++) {
        struct plait_slice *f = &run->slices[d];
        f->done = run->prog->ninstr;
        f->nreceiving = f->nsending = f->nblocked = 0;
    }
    return plait_comm_fail_too(comm, connect_links(run));
}

enum plait_status plait_engine_begin(struct plait_comm *comm, const struct plait_job *job, const void *in)
{
    struct plait_run *run = comm->run;

    run->fingerprint = plait_message_fingerprint(job->o, comm->sequence) + plait_job_salt(job);
    run->sizes = job->sizes;
    run->channel = run->space->channel;
    run->inner.state = PLAIT_INNER_NONE;
    plait_wait_init(&run->wait, &plait_run_waits, run);
    return begin_plan(run, job, in);
}

/* From here on the operation's progress is the plan's. */
static void show_plan(const struct plait_run *run)
{
    if (PLAIT_GUARDS)
        plait_progress_begin(&run->comm->own->ring, run->comm->sequence, plait_clock_ns(), run->nslice,
                             run->nslice * run->prog->ninstr);
}

/* The team's plan runs now. Its messages carry what the operation's carry, and more. */
static enum plait_status begin_inner(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    struct plait_job job = { .out = run->inner.out };
    const enum plait_status status = plait_comm_fail_too(comm, plait_bind_inner(comm, run->o, &run->inner, &job.o));

    if (status != PLAIT_OK)
        return status;
    run->outer = run->o;
    run->whole = false;
    run->inner.state = PLAIT_INNER_RUNS;
    run->fingerprint += plait_message_fingerprint(job.o, 0);
    const enum plait_status begun = begin_plan(run, &job, run->inner.in);
    show_plan(run);
    return begun;
}

/* One turn of each slice in flight. Idle slices take the next slices in round-robin order. */
static bool turn_slices(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const uint64_t depth = run->nslice < PLAIT_NSLICE ? run->nslice : PLAIT_NSLICE;
    const uint64_t first = run->nplace == PLAIT_NSLICE ? comm->next_slice_in_flight : 0;
    bool moved = false;

    for (uint64_t d = 0; d < depth; d++) {
        const uint64_t place = (first + d) % PLAIT_NSLICE;
        struct plait_slice *f = &run->slices[place];
        if (f->done == run->prog->ninstr) {
            if ((first + run->next_slice) % PLAIT_NSLICE != place || run->next_slice == run->nslice ||
                !plait_slice_idle(comm, f))
                continue;
            plait_slice_launch(run, f);
            moved = true;
        }
        moved |= turn(run, f);
        if (f->done == run->prog->ninstr)
            note_slice(run, f);
    }
    return moved;
}

/* Advance the links' message numbers: the next operation's messages follow this one's. */
static void pass_numbers(struct plait_run *run)
{
    for (uint32_t i = 0; i < run->prog->ninstr; i++) {
        const struct plait_instr *in = &run->prog->instrs[i];
        if (in->verb == PLAIT_STEP_SEND)
            plait_step_link(run, in->peer)->next_out += plait_vform_slices(run, in);
        else if (in->verb == PLAIT_STEP_RECV)
            plait_step_link(run, in->peer)->next_in += plait_vform_slices(run, in);
    }
    run->comm->next_slice_in_flight = (run->comm->next_slice_in_flight + run->nslice) % PLAIT_NSLICE;
}

/* After a turn. ended: it was the last use of the caller's queue. */
static enum plait_status poll_space(const struct plait_run *run, bool ended)
{
    if (ended)
        run->space->end(run->comm);
    return run->space->poll(run->comm);
}

static enum plait_status turn_whole(struct plait_run *run, bool *moved, bool *ended)
{
    struct plait_comm *comm = run->comm;

    run->space->order(comm, &run->target);
    enum plait_status status = plait_comm_fail_too(comm, run->space->whole(run, moved, ended));
    if (status == PLAIT_OK)
        status = poll_space(run, *ended);
    if (status == PLAIT_OK && run->inner.state == PLAIT_INNER_ASKED)
        status = begin_inner(run);
    if (status != PLAIT_OK || !*ended)
        return status;
    note_slices(run, run->nslice);
    return plait_probe_failures(comm);
}

/*
 * This rank reads no peer's memory before its ring shows it inside the operation and it has then looked for failures.
 * A failed rank waits in lifecycle/destroy.c for the ranks that it sees inside. Each side writes its own flag and then
 * reads the other's (Dekker's pattern), so both flags are sequentially consistent.
 */
enum plait_status plait_engine_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;

    if (run->whole) {
        const enum plait_status status = turn_whole(run, moved, ended);
        if (run->whole || status != PLAIT_OK || run->inner.state == PLAIT_INNER_RUNS)
            return status;
        show_plan(run);
    }
    if (!run->fits) {
        enum plait_status status = plait_comm_fail_too(comm, plait_slices_fit(run));
        if (status == PLAIT_OK && run->fits)
            status = plait_probe_failures(comm);
        if (status != PLAIT_OK || !run->fits)
            return status;
    }
    run->space->order(comm, &run->target);
    *moved = turn_slices(run);
    const enum plait_status status =
        poll_space(run, run->done_slices == run->nslice && run->inner.state != PLAIT_INNER_RUNS);
    if (status != PLAIT_OK)
        return status;
    if (run->wrong_sender > 0) /* only now: peers that see this rank fail assume that it reads no more */
        return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, run->wrong_sender - 1,
                                "rank %u sends %zu bytes where rank %u expects %zu", run->wrong_sender - 1,
                                run->wrong_bytes, comm->rank, run->expected_bytes);
    if (run->done_slices < run->nslice)
        return PLAIT_OK;
    pass_numbers(run);
    if (run->inner.state == PLAIT_INNER_RUNS) {
        run->o = run->outer;
        run->inner.state = PLAIT_INNER_DONE;
        run->whole = *moved = true;
        return PLAIT_OK;
    }
    *ended = true;
    return plait_probe_failures(comm);
}
