/* SPDX-License-Identifier: BSD-3-Clause */
#include "vform.h"

#include "step.h"

bool plait_vform_wrong(struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                       uint32_t number, size_t sent, size_t expected)
{
    const struct plait_link *link = plait_step_link(run, in->peer);
    size_t before = plait_op_bytes(run->o, f->start, in->wide);
    uint32_t print;
    uint64_t whole;

    if (plait_vform_by_pairs(run) && link->transport->peek(link, number, &print, &whole) &&
        whole != plait_vform_header(run, in)) {
        before = 0;
        sent = whole;
        expected = plait_vform_header(run, in);
    }
    if (sent == expected)
        return false;
    run->wrong_sender = (uint32_t)in->peer + 1;
    run->wrong_bytes = before + sent;
    run->expected_bytes = before + expected;
    return true;
}

void plait_vform_pass(const struct plait_run *run)
{
    for (uint32_t i = 0; i < run->prog->ninstr; i++) {
        const struct plait_instr *in = &run->prog->instrs[i];
        if (in->verb == PLAIT_STEP_SEND)
            plait_step_link(run, in->peer)->next_out += plait_vform_slices(run, in);
        else if (in->verb == PLAIT_STEP_RECV)
            plait_step_link(run, in->peer)->next_in += plait_vform_slices(run, in);
    }
}
