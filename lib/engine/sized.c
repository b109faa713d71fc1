/* SPDX-License-Identifier: BSD-3-Clause */
#include "sized.h"

static struct plait_link *link_of(const struct plait_run *run, const struct plait_instr *in)
{
    return run->comm->peers[in->peer].link[run->channel];
}

bool plait_sized_wrong(struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                       uint32_t number, size_t sent, size_t expected)
{
    const struct plait_link *link = link_of(run, in);
    size_t before = f->start * (in->wide ? sizeof(float) : run->o->size);
    uint32_t print;
    uint64_t whole;

    if (plait_sized_by_pairs(run) && link->transport->peek(link, number, &print, &whole) &&
        whole != plait_sized_note(run, in)) {
        before = 0;
        sent = whole;
        expected = plait_sized_note(run, in);
    }
    if (sent == expected)
        return false;
    run->wrong = (uint32_t)in->peer + 1;
    run->wrong_bytes = before + sent;
    run->expected_bytes = before + expected;
    return true;
}

void plait_sized_pass(const struct plait_run *run)
{
    for (uint32_t i = 0; i < run->prog->ninstr; i++) {
        const struct plait_instr *in = &run->prog->instrs[i];
        if (in->verb == PLAIT_STEP_SEND)
            link_of(run, in)->next_out += plait_sized_slices(run, in);
        else if (in->verb == PLAIT_STEP_RECV)
            link_of(run, in)->next_in += plait_sized_slices(run, in);
    }
}
