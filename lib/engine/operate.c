/* SPDX-License-Identifier: BSD-3-Clause */
#include "operate.h"

#include "base/clock.h"
#include "base/status.h"
#include "comm/port.h"
#include "eager/eager.h"
#include "failure/failure.h"
#include "prog.h"
#include "progress/detector.h"

#include <stdio.h>

#define COMPARE_EVERY PLAIT_EAGER_SMALL /* rooted operations between two checks of past calls */

enum plait_status plait_cannot_begin(struct plait_comm *comm, enum plait_status status, const struct plait_args *a)
{
    const bool combines = plait_geometry_of(a->coll, 1, 0, 0, 1).combines;
    char count[24] = "";

    if (comm->failed != PLAIT_OK || (status != PLAIT_ERR_NOMEM && status != PLAIT_ERR_SYSTEM))
        return status;
    if (!a->vform)
        snprintf(count, sizeof count, "%zu ", a->count);
    comm->sequence++; /* blame this operation, not the last one */
    return plait_comm_fail(comm, status, "cannot begin %s%s #%llu (%s%s%s%s): %s", plait_coll_name(a->coll),
                           a->vform ? "v" : "", (unsigned long long)comm->sequence, count, plait_dtype_name(a->type),
                           combines ? " " : "", combines ? plait_op_name(a->op) : "", plait_last_error());
}

static bool replaces_input(const struct plait_job *job)
{
    return job->scale != NULL || job->o->selection.divides || (job->o->aside && job->o->geometry.combines) ||
           (job->o->coll == PLAIT_ALLTOALL && job->in == job->out);
}

/*
 * A pre-multiplied sum is the sum of scaled inputs; some averages are the sum of divided inputs. An all-reduce puts
 * them in OUT and goes on in place if its plan is. Others use library memory, which the comm keeps for the next
 * operation, and so does the input of an all-to-all in place, and of a reduction in place whose plan is out of place.
 */
static __attribute__((noinline)) enum plait_status replace_input(struct plait_comm *comm, const struct plait_job *job,
                                                                 const void **in)
{
    const struct plait_op_plan *o = job->o;
    const struct plait_run *run = comm->run;
    struct plait_room *s = run->scaled;
    const size_t n = o->vform ? job->sizes.in_end : o->in_bytes / o->size, bytes = plait_op_bytes(o, n, false);
    void *to = job->out;

    if (n == 0)
        return PLAIT_OK;
    if (!plait_scales_inplace(o->coll) || (o->prog != NULL && !o->prog->inplace)) {
        const enum plait_status status = run->space->grow(comm, s, bytes);
        if (status != PLAIT_OK)
            return plait_cannot_begin(
                comm, status, &(struct plait_args){ o->coll, o->type, o->op, .count = o->count, .vform = o->vform });
        to = s->memory;
    }
    run->space->order(comm, &run->target);
    if (o->selection.divides)
        run->space->combine(run,
                            &(struct plait_combine){ .type = o->type,
                                                     .op = o->op,
                                                     .dst = to,
                                                     .src = &job->in,
                                                     .nsrc = 1,
                                                     .divisor = comm->nrank,
                                                     .count = n },
                            &(struct plait_how){ .divisor = comm->nrank });
    else if (job->scale != NULL)
        run->space->scale(run, to, job->in, n, job->scale, job->late);
    else
        run->space->copy(comm, to, job->in, bytes, false);
    *in = to;
    return PLAIT_OK;
}

/*
 * In a rooted collective some ranks exchange no messages, so their calls were not compared; a sender may also run
 * ahead. Such ranks may never wait for each other, so every COMPARE_EVERY operations they check past calls.
 */
static inline enum plait_status end_rooted(struct plait_comm *comm, const struct plait_op_plan *o)
{
    if (o->selection.eager || o->selection.split > 0)
        plait_eager_tell(comm, o);
    if (comm->sequence - comm->compared < COMPARE_EVERY)
        return PLAIT_OK;
    comm->compared = comm->sequence;
    return plait_probe_past_calls(comm);
}

static inline enum plait_status end(struct plait_comm *comm, const struct plait_op_plan *o)
{
    enum plait_status status = PLAIT_OK;

    comm->stats.operations++;
    o->tally->count.operations++;
    o->tally->count.bytes += o->vform ? 0 : o->bytes;
    const uint64_t uncompared = atomic_load_explicit(&comm->own->uncompared, memory_order_relaxed);
    if (o->geometry.rooted && uncompared == 0)
        atomic_store_explicit(&comm->own->uncompared, comm->sequence, memory_order_relaxed);
    atomic_store_explicit(&comm->own->done, comm->sequence, memory_order_release);
    if (o->geometry.rooted)
        status = end_rooted(comm, o);
    else if (PLAIT_GUARDS && __builtin_expect(uncompared != 0, 0)) /* all have called the operations not yet compared */
        status = plait_probe_past_calls(comm);
    if (PLAIT_GUARDS)
        plait_ring_expect(&comm->own->ring, comm->sequence + 1);
    return status;
}

/* Show in the ring that this rank is inside, before it looks for failures (plait_engine_turn()). */
static void enter_engine(struct plait_comm *comm, const struct plait_job *job)
{
    if (!PLAIT_GUARDS)
        return;
    const uint64_t nslice = comm->run->whole ? 0 : plait_job_slices(job);
    struct plait_what what = job->o->what;
    if (job->o->vform)
        what.count = job->sizes.known;
    plait_ring_add(&comm->own->ring, comm->sequence, comm->run->word ^ (uint64_t)plait_job_salt(job) << 32, &what,
                   memory_order_seq_cst);
    plait_progress_begin(&comm->own->ring, comm->sequence, plait_clock_ns(), nslice, nslice * job->o->prog->ninstr);
}

/*
 * A v-form may have both: small blocks take the eager path, large ones go through the engine at the same time. Others
 * have one of the two.
 */
static void begin_parts(struct plait_comm *comm, const struct plait_job *job)
{
    const struct plait_selection *s = &job->o->selection;
    struct plait_run *run = comm->run;

    run->work = job->work;
    run->eager_pending = s->eager || s->split > 0;
    run->engine_pending = !s->eager && (s->split == 0 || !plait_eager_has_all(job->o, &job->sizes, comm->nrank));
    run->word = plait_word(job->o, ++comm->sequence);
    run->whole = run->engine_pending && run->space->whole != NULL && s->whole && job->work.prologue == NULL &&
                 job->work.epilogue == NULL;
    run->published = run->single_copy = run->by_single_copy = run->finished = false;
    run->taken = 0;
    if (run->engine_pending)
        enter_engine(comm, job);
    else if (PLAIT_GUARDS)
        plait_ring_add(&comm->own->ring, comm->sequence, run->word, &job->o->what, memory_order_release);
}

enum plait_status plait_run_begin(struct plait_comm *comm, const struct plait_job *job)
{
    const struct plait_op_plan *o = job->o;
    struct plait_run *run = comm->run;
    const void *in = job->in;

    comm->limit = job->deadline;
    run->o = o;
    run->space = o->space;
    run->target = (struct plait_target){ .queue = job->queue };
    enum plait_status status = o->space->begin(run);
    if (status != PLAIT_OK) {
        comm->sequence++; /* blame this operation, not the last one */
        return plait_comm_fail(comm, status, "%s", plait_last_error());
    }
    if (__builtin_expect(replaces_input(job), 0)) {
        status = replace_input(comm, job, &in);
        if (status != PLAIT_OK)
            return status;
    }
    begin_parts(comm, job);
    if (run->engine_pending)
        return plait_engine_begin(comm, job, in);
    if (job->work.prologue != NULL)
        job->work.prologue(job->work.arg, 0, o->count);
    plait_eager_begin(run, o, &job->sizes, run->word, in, job->out);
    return PLAIT_OK;
}

/* The engine first: a rank sends nothing before it has the memory for the whole operation. */
enum plait_status plait_run_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;
    enum plait_status status = PLAIT_OK;
    bool over = false, more = false;

    if (run->engine_pending)
        status = plait_engine_turn(comm, moved, &over);
    run->engine_pending &= !over;
    if (status == PLAIT_OK && run->eager_pending && (!run->engine_pending || run->fits)) {
        over = false;
        status = plait_eager_turn(run, &more, &over);
        run->eager_pending = !over;
        if (over && run->work.epilogue != NULL) /* the operation is one slice */
            run->work.epilogue(run->work.arg, 0, run->o->count);
    }
    *moved |= more;
    *ended = status == PLAIT_OK && !run->eager_pending && !run->engine_pending;
    return *ended ? end(comm, run->o) : status;
}

static __attribute__((noinline)) enum plait_status turn_to_the_end(struct plait_comm *comm)
{
    enum plait_status status = PLAIT_OK;

    for (bool ended = false, moved = false; status == PLAIT_OK && !ended; moved = false) {
        status = plait_run_turn(comm, &moved, &ended);
        if (moved || ended)
            plait_wait_progress(comm, &comm->run->wait);
        else if (status == PLAIT_OK)
            status = plait_wait_turn(comm, &comm->run->wait);
        if (!ended)
            plait_network_turn(comm);
    }
    return status;
}

static inline __attribute__((always_inline)) enum plait_status run_eager(struct plait_comm *comm,
                                                                         const struct plait_op_plan *o,
                                                                         const struct plait_sizes *v, const void *in,
                                                                         void *out, double deadline)
{
    if (PLAIT_GUARDS)
        comm->limit = deadline;
    const uint32_t environment = plait_fpenv_enter(); /* waiting may compute, too */
    const uint64_t word = plait_word(o, ++comm->sequence);
    if (PLAIT_GUARDS)
        plait_ring_add(&comm->own->ring, comm->sequence, word, &o->what, memory_order_release);
    bool ended = false;
    enum plait_status status = plait_eager_run(comm, o, v, word, in, out, &ended);
    if (status == PLAIT_OK)
        status = __builtin_expect(ended, 1) ? end(comm, o) : turn_to_the_end(comm);
    plait_fpenv_leave(environment);
    return status;
}

enum plait_status plait_run_job(struct plait_comm *comm, const struct plait_job *job)
{
    if (job->o->selection.eager && !replaces_input(job) && job->work.arg == NULL)
        return run_eager(comm, job->o, &job->sizes, job->in, job->out, job->deadline);
    const uint32_t environment = plait_fpenv_enter();
    enum plait_status status = plait_run_begin(comm, job);

    if (status == PLAIT_OK)
        status = turn_to_the_end(comm);
    if (status != PLAIT_OK)
        comm->run->space->end(comm);
    plait_fpenv_leave(environment);
    return status;
}

static __attribute__((noinline)) enum plait_status run_as_job(struct plait_comm *comm, const struct plait_args *a,
                                                              const struct plait_call *call)
{
    const struct plait_job job = plait_job_of(comm->last, a, call);

    return plait_run_job(comm, &job);
}

enum plait_status plait_run(struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call)
{
    const struct plait_op_plan *o = comm->last;
    const bool eager = o->selection.eager || (o->selection.split > 0 && plait_eager_has_all(o, a->sizes, comm->nrank));

    if (!eager || (call != NULL && call->scale != NULL) || (o->coll == PLAIT_ALLTOALL && a->in == a->out))
        return run_as_job(comm, a, call);
    return run_eager(comm, o, a->sizes, a->in, a->out, call != NULL ? call->deadline : 0);
}
