/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks that the operation in progress waits for, and its steps done: for the failure detector. */
#include "operate.h"

#include "eager/eager.h"
#include "prog.h"
#include "slice.h"

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

uint32_t plait_run_awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;
    uint32_t n = 0;

    if (run->whole)
        return run->space->whole_awaited(run, ranks, most);
    if (run->eager_pending && run->fits && most > 0)
        n = plait_eager_awaited(run, ranks, 1);
    if (most > 0 && run->space->is_behind(run->comm)) /* this rank's own work, before any peer */
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

uint64_t plait_run_steps_done(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;
    uint64_t n = run->done_slices * run->prog->ninstr;

    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        if (run->slices[d].done < run->prog->ninstr)
            n += run->slices[d].done;
    *of = run->nslice * run->prog->ninstr;
    return n;
}
