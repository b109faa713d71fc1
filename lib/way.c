/* SPDX-License-Identifier: BSD-3-Clause */
#include "way.h"

#include "clock.h"
#include "comm.h"

void plait_way_choose(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const size_t bytes = run->o->count * run->o->size;

    run->busy = run->began = 0;
    run->way = 0;
    run->timed = run->landed = false;
    if (bytes >= PLAIT_TRIAL_LEAST && comm->nrank > 1 && run->queue == NULL && comm->remote == NULL &&
        !run->o->geometry.rooted)
        run->way = plait_trial_start(&comm->trials, bytes, &run->timed);
    if (run->work.scratch) /* read from the cache, and never by anybody else */
        run->way &= ~(unsigned)PLAIT_RESULT_PAST;
    plait_ring_record(&comm->own->ring, comm->sequence)->what.wanted = plait_trial_of(&comm->trials, bytes)->wanted;
}

/*
 * Every rank wrote its record before it sent anything, and everyone hears of everyone, so all see the same. That is not
 * so in rooted collectives, which therefore try nothing.
 */
void plait_way_report(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const size_t bytes = run->o->count * run->o->size;
    uint32_t wanted = 0;

    if (!run->timed)
        return;
    if (!run->landed) /* the kernel has a way of its own */
        plait_trial_report(&comm->trials, bytes, run->busy + (run->began > 0 ? plait_clock() - run->began : 0));
    for (uint32_t r = 0; bytes >= PLAIT_TRIAL_WATCHED && r < comm->nrank; r++)
        wanted += plait_ring_record(&comm->peers[r].control->ring, comm->sequence)->what.wanted;
    if (2 * wanted > comm->nrank)
        plait_trial_again(plait_trial_of(&comm->trials, bytes));
}
