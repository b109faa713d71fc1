/* SPDX-License-Identifier: BSD-3-Clause */
#include "step.h"

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
