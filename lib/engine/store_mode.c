/* SPDX-License-Identifier: BSD-3-Clause */
#include "store_mode.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "select.h"
#include "sized.h"

static struct plait_autotunes *trials_of(const struct plait_run *run)
{
    return &run->comm->trials[run->o->geometry.combines];
}

/* bytes: of the vector or of a block. If only results are tuned, it pays only for results too large for caches. */
static bool is_worth_a_trial(const struct plait_op_plan *o, size_t bytes)
{
    return o->geometry.combines ? bytes >= PLAIT_AUTOTUNE_LEAST : bytes * o->geometry.out.nslot >= PLAIT_AUTOTUNE_ALONE;
}

void plait_store_mode_choose(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const size_t bytes = plait_run_count(run) * run->o->size;

    run->busy = run->began = 0;
    run->way = 0;
    run->timed = false;
    if (is_worth_a_trial(run->o, bytes) && comm->nrank > 1 && run->space->host && comm->remote == NULL &&
        plait_store_mode_is_tried(run->o))
        run->way = plait_autotune_start(trials_of(run), bytes, &run->timed);
    if (run->work.scratch) /* only the epilogue reads it, from the cache */
        run->way &= ~(unsigned)PLAIT_RESULT_PAST;
    plait_ring_record(&comm->own->ring, comm->sequence)->what.wanted = plait_autotune_of(trials_of(run), bytes)->wanted;
}

/* Every rank writes its record before it sends, and all ranks exchange messages, so all get the same answer. */
static bool most_wanted(const struct plait_comm *comm)
{
    uint32_t wanted = 0;

    for (uint32_t r = 0; r < comm->nrank; r++)
        wanted += plait_ring_record(&comm->peers[r].control->ring, comm->sequence)->what.wanted;
    return 2 * wanted > comm->nrank;
}

void plait_store_mode_report(struct plait_run *run)
{
    const size_t bytes = plait_run_count(run) * run->o->size;
    struct plait_autotunes *all = trials_of(run);

    if (!run->timed)
        return;
    plait_autotune_report(all, bytes, run->busy + (run->began > 0 ? plait_clock() - run->began : 0));
    if (bytes >= PLAIT_AUTOTUNE_WATCHED &&
        (all->results_alone ? plait_autotune_of(all, bytes)->wanted : most_wanted(run->comm)))
        plait_autotune_again(all, bytes);
}

_Static_assert(PLAIT_AUTOTUNE_LENT == PLAIT_COPY_ROUND, "most first blocks are lent, and the next ones staged");

/* May it be a single copy? No byte limit for uncut blocks: staged, their copy-in and copy-out would not overlap. */
static bool is_lendable(const struct plait_run *run, const struct plait_instr *in, size_t bytes)
{
    const struct plait_op_plan *o = run->o;
    size_t taken = bytes;

    if (o->sized)
        taken = o->selection.slice == SIZE_MAX ? 0 : plait_sized_taken(run, in->blk) * o->size;
    return o->selection.once && (!o->geometry.combines || run->lands) &&
           plait_copies_once(o->coll, bytes, taken, run->comm->oversubscribed);
}

unsigned plait_ways_of_message(const struct plait_run *run, const struct plait_instr *in, size_t bytes)
{
    const unsigned plain = 1U << PLAIT_COPY_STAGED, past = 1U << PLAIT_COPY_STREAMED, lent = 1U << PLAIT_COPY_SINGLE;

    if (!run->space->host || bytes < PLAIT_LEAST_ONCE ||
        (run->o->geometry.combines && plait_store_mode_is_tried(run->o)))
        return 0;
    return plain | past | (is_lendable(run, in, bytes) ? lent : 0);
}

struct plait_copied plait_store_mode_passed(const struct plait_run *run, const struct plait_instr *in, size_t bytes)
{
    const struct plait_geometry *g = &run->o->geometry;
    const size_t blocks = in->nblk * plait_run_count(run) / (g->kind == PLAIT_KIND_VECTOR ? run->prog->nblk : 1);
    const size_t whole = (run->o->sized ? plait_sized_block(run, in->blk) : blocks) * run->o->size;
    const bool cut = whole > bytes, gives = g->rooted && g->in.nslot > 0; /* this rank is the root, or has one reader */
    const bool ahead = cut && gives && in->readers > 1;

    return (struct plait_copied){ .bytes = bytes,
                                  .row = plait_copy_row(run->o->coll, whole),
                                  .whole = whole,
                                  .others = ahead ? in->readers - 1 : 0,
                                  .waits = cut && !ahead };
}

enum plait_copy_mode plait_store_mode_of_message(const struct plait_run *run, const struct plait_link *link,
                                                 const struct plait_instr *in, const void *data, size_t bytes)
{
    unsigned may = plait_ways_of_message(run, in, bytes);

    if (link->transport->reaches(link, data, bytes, false))
        return PLAIT_COPY_SINGLE;
    if (!link->transport->reaches(link, data, bytes, true))
        may &= ~(1U << PLAIT_COPY_SINGLE);
    if (may != 0)
        return plait_copy_mode_of_slice(run->comm, (uint32_t)in->peer, plait_store_mode_passed(run, in, bytes), may,
                                        run->o->geometry.combines, run->comm->sequence);
    return run->way & PLAIT_SHARED_PAST ? PLAIT_COPY_STREAMED : PLAIT_COPY_STAGED;
}
