/* SPDX-License-Identifier: BSD-3-Clause */
#include "combine.h"

#include "step.h"

static inline const struct plait_how *how_of(const struct plait_run *run, const struct plait_instr *in)
{
    return in->final ? &run->o->last : &run->o->inner;
}

static void reduce(const struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in,
                   const void *const *from, size_t n)
{
    const struct plait_how *how = how_of(run, in);
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

/* Will a SEND copy this result into a staging buffer? */
static bool is_staged(const struct plait_run *run, const struct plait_instr *in, const char *to, size_t bytes)
{
    if (!in->sent || bytes <= PLAIT_MAILBOX_DATA)
        return false;
    for (uint32_t k = 0; k < in->nsuccessor; k++) {
        const struct plait_instr *next = &run->prog->instrs[run->prog->successors[in->successor + k]];
        const struct plait_link *link = next->verb == PLAIT_STEP_SEND ? plait_step_link(run, next->peer) : NULL;
        if (link != NULL && !link->transport->reaches(link, to, bytes, false))
            return true;
    }
    return false;
}

/*
 * Reduce into a piece of 4 KiB, which stays in the L1 cache, and write each piece with streaming stores. The staged
 * copy is filled from the same piece. Advances from[].
 */
static void reduce_past_caches(struct plait_run *run, struct plait_slice *f, const struct plait_instr *in,
                               const void **from, size_t n, bool staged)
{
    _Alignas(PLAIT_LINE) char piece[4096];
    const size_t size = run->o->size, most = sizeof piece / size;
    char *to = plait_step_address(run, f, in->dst, false);
    char *copy = staged ? f->stage + in->stage * f->stride : NULL;

    for (size_t at = 0; at < n; at += most) {
        const size_t here = n - at < most ? n - at : most;
        run->o->reduce(piece, from, in->nsource, here, how_of(run, in));
        if (staged && run->streams_shared)
            run->comm->kernels->stream(copy + at * size, piece, here * size);
        else if (staged)
            plait_copy(run->comm->kernels, copy + at * size, piece, here * size);
        run->comm->kernels->stream(to + at * size, piece, here * size);
        for (uint32_t k = 0; k < in->nsource; k++)
            from[k] = (const char *)from[k] + here * size;
    }
    if (staged) {
        f->staged[in->stage] = true;
        run->comm->stats.bytes_staged += n * size;
    }
}

/* Streaming stores? If peers read the result in place, the choice for shared data counts; else that for results. */
static bool goes_past_caches(const struct plait_run *run, const struct plait_instr *in, bool staged)
{
    return staged ? run->streams_results : in->sent && run->streams_shared;
}

char *plait_combine_landing(const struct plait_run *run, const struct plait_slice *f, const struct plait_instr *in)
{
    const struct plait_slice *where = run->nslice == 1 ? run->slices : f; /* one landing stays in this rank's cache */

    if (!run->lands)
        return NULL;
    return in->dst.buf == PLAIT_TMP ? where->land + in->dst.slot * f->stride
                                    : plait_step_address(run, f, in->dst, false);
}

bool plait_combine_landed(const struct plait_run *run, const struct plait_slice *f, uint32_t i)
{
    const char *at = plait_combine_landing(run, f, &run->prog->instrs[i]);
    return at != NULL && f->message[i] == at;
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
    const bool staged = (run->streams_shared || run->streams_results) && !in->mixed &&
                        is_staged(run, in, plait_step_address(run, f, in->dst, false), n * run->o->size);
    if (n > 0 && !in->mixed && goes_past_caches(run, in, staged))
        reduce_past_caches(run, f, in, from, n, staged);
    else if (n > 0)
        reduce(run, f, in, from, n);
    run->comm->stats.bytes_reduced += plait_step_bytes(run, f, in);
    for (uint32_t k = 0; k < in->nsource; k++)
        if (s[k].borrowed != PLAIT_NONE && !plait_combine_landed(run, f, s[k].borrowed))
            plait_step_release(run, f, &run->prog->instrs[s[k].borrowed]);
}
