/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turn a bound plan back into steps and check these as plans are checked: the plan that runs is the plan that was
 * proved.
 *
 * All memory that binding adds becomes slots of TMP behind the plan's own: landings of borrowed messages, staged
 * copies, values kept in fp32, and partial results of an n-source REDUCE. The dependencies are those of the engine.
 */
#include "prog.h"

#include "base/status.h"
#include "plan/scratch.h"

#include <stdlib.h>
#include <string.h>

enum form { READ_IN_PLACE, STAGED, NFORM }; /* of every message */

struct unbinder {
    const struct plait_plan *plan;
    const struct plait_prog *prog;
    struct plait_geometry geometry;
    enum form form;
    uint32_t wide, stage, partial; /* first TMP slot of each kind */
    uint32_t *before0, *nbefore;   /* [ninstr] instruction i waits for nbefore[i] steps from before[before0[i]] on */
    uint32_t *before;
    uint32_t *last;    /* [ninstr] the last step of each instruction */
    uint32_t *landing; /* [ninstr] the first TMP slot of each borrowed message */
    bool *wide_out;    /* [slots of OUT] the slot holds a value in fp32 */
    uint32_t *staged;  /* [nstage] the COPY that made the staged block, or NONE */
    struct plait_plan *out;
    uint32_t *deps;
    uint32_t *node;
};

/* The span of a value of this width: wide TMP slots lie apart. For OUT, wide_out[] tells the width. */
static struct plait_span at_width(const struct unbinder *u, struct plait_span span, bool wide)
{
    return wide && span.buf == PLAIT_TMP ? plait_tmp(u->wide + span.slot) : span;
}

/* Does the span hold values of this width? Checked for OUT; IN is never wide. */
static bool is_of_width(const struct unbinder *u, struct plait_span span, uint32_t nblk, bool wide)
{
    for (uint32_t k = 0; span.buf == PLAIT_OUT && k < nblk; k++)
        if (u->wide_out[span.slot + k] != wide)
            return false;
    return span.buf != PLAIT_IN || !wide;
}

/* Is every operand read in the width in which it was written? Notes the result's width. */
static bool fit_widths(struct unbinder *u, const struct plait_instr *in)
{
    for (uint32_t k = 0; k < in->nsource; k++) {
        const struct plait_source *s = &u->prog->sources[in->source + k];
        const bool wide = in->verb == PLAIT_STEP_REDUCE ? s->wide : in->wide;
        if (s->borrowed == PLAIT_NONE ? !is_of_width(u, s->span, in->nblk, wide)
                                      : u->prog->instrs[s->borrowed].wide != wide)
            return false;
    }
    for (uint32_t k = 0; in->verb != PLAIT_STEP_SEND && in->dst.buf == PLAIT_OUT && k < in->nblk; k++)
        u->wide_out[in->dst.slot + k] = in->wide;
    return true;
}

/* Add a step of instruction `i` that also waits for the steps `after` and `also` (or NONE). Returns its number. */
static uint32_t add_step(struct unbinder *u, uint32_t i, struct plait_step step, uint32_t after, uint32_t also)
{
    const struct plait_instr *in = &u->prog->instrs[i];
    struct plait_plan *p = u->out;
    uint32_t *deps = u->deps + p->ndep, n = 0;

    for (; n < u->nbefore[i]; n++)
        deps[n] = u->before[u->before0[i] + n];
    if (after != PLAIT_NONE)
        deps[n++] = after;
    if (also != PLAIT_NONE)
        deps[n++] = also;
    n = plait_tidy_deps(deps, n);
    step.blk = in->blk;
    step.nblk = in->nblk;
    step.dep0 = p->ndep;
    step.ndep = (uint16_t)n;
    p->ndep += n;
    p->step[p->nstep] = step;
    u->node[p->nstep] = p->nstep;
    u->last[i] = p->nstep;
    return p->nstep++;
}

static uint32_t add_copy(struct unbinder *u, uint32_t i, struct plait_span to, struct plait_span from)
{
    return add_step(u, i, (struct plait_step){ .verb = PLAIT_STEP_COPY, .peer = -1, .dst = to, .a = from }, PLAIT_NONE,
                    PLAIT_NONE);
}

static void add_send(struct unbinder *u, uint32_t i, uint8_t lane)
{
    const struct plait_instr *in = &u->prog->instrs[i];
    struct plait_span from = at_width(u, u->prog->sources[in->source].span, in->wide);
    uint32_t copy = PLAIT_NONE;

    if (u->form == STAGED) {
        if (u->staged[in->stage] == PLAIT_NONE)
            u->staged[in->stage] = add_copy(u, i, plait_tmp(u->stage + in->stage), from);
        copy = u->staged[in->stage];
        from = plait_tmp(u->stage + in->stage);
    }
    add_step(u, i, (struct plait_step){ .verb = PLAIT_STEP_SEND, .lane = lane, .peer = in->peer, .a = from }, copy,
             PLAIT_NONE);
}

static void add_recv(struct unbinder *u, uint32_t i, uint8_t lane)
{
    const struct plait_instr *in = &u->prog->instrs[i];
    const struct plait_span to = in->borrowed ? plait_tmp(u->landing[i]) : at_width(u, in->dst, in->wide);

    add_step(u, i, (struct plait_step){ .verb = PLAIT_STEP_RECV, .lane = lane, .peer = in->peer, .dst = to },
             PLAIT_NONE, PLAIT_NONE);
}

struct operand {
    struct plait_span at;
    uint32_t step; /* the step that makes a partial result, or NONE */
};

/* Add the REDUCEs of sources first .. first+n-1 in the canonical order. */
static struct operand add_tree(struct unbinder *u, uint32_t i, uint32_t first, uint32_t n)
{
    const struct plait_instr *in = &u->prog->instrs[i];
    const struct plait_source *s = &u->prog->sources[in->source + first];
    uint32_t m = 1;

    if (n == 1)
        return (struct operand){ s->borrowed != PLAIT_NONE ? plait_tmp(u->landing[s->borrowed])
                                                           : at_width(u, s->span, s->wide),
                                 PLAIT_NONE };
    while (2 * m < n)
        m *= 2;
    const struct operand x = add_tree(u, i, first, m), y = add_tree(u, i, first + m, n - m);
    struct plait_span to = at_width(u, in->dst, in->wide);
    if (n < in->nsource) {
        to = plait_tmp(u->partial);
        u->partial += in->nblk;
    }
    const struct plait_step step = { .verb = PLAIT_STEP_REDUCE, .peer = -1, .dst = to, .a = x.at, .b = y.at };
    return (struct operand){ to, add_step(u, i, step, x.step, y.step) };
}

/* Does the result overlap a source, shifted? All sources are read, element by element, while it is written. */
static bool overlaps(const struct unbinder *u, const struct plait_instr *in)
{
    for (uint32_t k = 0; in->verb == PLAIT_STEP_REDUCE && k < in->nsource; k++) {
        const struct plait_source *s = &u->prog->sources[in->source + k];
        if (s->borrowed == PLAIT_NONE &&
            plait_overlaps_shifted(&u->geometry, u->plan->inplace, in->dst, s->span, in->nblk))
            return true;
    }
    return false;
}

static void add_reduce(struct unbinder *u, uint32_t i)
{
    const struct plait_instr *in = &u->prog->instrs[i];
    const uint32_t first = u->out->nstep;

    add_tree(u, i, 0, in->nsource);
    for (uint32_t k = first; k < u->out->nstep; k++) /* all run at once, and then release borrowed messages */
        u->node[k] = first;
    for (uint32_t k = 0; k < in->nsource; k++)
        if (u->prog->sources[in->source + k].borrowed != PLAIT_NONE)
            u->node[u->last[u->prog->sources[in->source + k].borrowed]] = first;
}

/* The plan's next message from step `at` on. A bound plan has the plan's messages in the plan's order. */
static uint32_t next_message(const struct plait_plan *plan, uint32_t at)
{
    while (at < plan->nstep && plan->step[at].peer < 0)
        at++;
    return at;
}

static enum plait_status add_all(struct unbinder *u)
{
    uint32_t message = 0;

    for (uint32_t i = 0; i < u->prog->ninstr; i++) {
        const struct plait_instr *in = &u->prog->instrs[i];
        uint8_t lane = 0;
        if (in->peer >= 0) {
            message = next_message(u->plan, message);
            if (message == u->plan->nstep)
                return plait_fail(PLAIT_ERR_PLAN, "rank %u: more messages are bound than the plan has", u->plan->rank);
            lane = u->plan->step[message++].lane;
        }
        if (!fit_widths(u, in))
            return plait_fail(PLAIT_ERR_PLAN, "rank %u: a bound step reads block %u in another width than it has",
                              u->plan->rank, in->blk);
        if (overlaps(u, in))
            return plait_fail(PLAIT_ERR_PLAN, "rank %u: a bound REDUCE of block %u writes its result over an operand",
                              u->plan->rank, in->blk);
        if (in->verb == PLAIT_STEP_REDUCE) {
            add_reduce(u, i);
        } else if (in->verb == PLAIT_STEP_SEND) {
            add_send(u, i, lane);
        } else if (in->verb == PLAIT_STEP_RECV) {
            add_recv(u, i, lane);
        } else {
            add_copy(u, i, at_width(u, in->dst, in->wide), at_width(u, u->prog->sources[in->source].span, in->wide));
        }
        for (uint32_t k = 0; k < in->nsuccessor; k++) {
            const uint32_t next = u->prog->successors[in->successor + k];
            u->before[u->before0[next] + u->nbefore[next]++] = u->last[i];
        }
    }
    return PLAIT_OK;
}

/* *node: steps with the same number run at once. *out and *node are in `arrays`. */
static enum plait_status unbind(struct plait_scratch *arrays, const struct plait_plan *plan,
                                const struct plait_prog *prog, enum form form, struct plait_plan **out, uint32_t **node)
{
    struct unbinder u = { .plan = plan, .prog = prog, .form = form, .geometry = plait_plan_geometry(plan) };
    size_t nstep = 0, ndep = 0, npartial = 0;
    uint32_t nbefore = 0;

    u.landing = plait_scratch(arrays, prog->ninstr, sizeof *u.landing);
    u.before0 = plait_scratch(arrays, prog->ninstr, sizeof *u.before0);
    u.wide = prog->ntmp;
    u.stage = 2 * prog->ntmp;
    for (uint32_t i = 0; i < prog->ninstr; i++) {
        const struct plait_instr *in = &prog->instrs[i];
        const size_t n = in->nsource + 2;
        nstep += n;
        ndep += n * (in->ndep + 2);
        npartial += (size_t)in->nsource * in->nblk;
        if (!arrays->failed) {
            u.landing[i] = u.stage;
            u.before0[i] = nbefore;
        }
        nbefore += in->ndep;
        u.stage += in->borrowed ? in->nblk : 0;
    }
    u.partial = u.stage + prog->nstage;
    u.nbefore = plait_scratch(arrays, prog->ninstr, sizeof *u.nbefore);
    u.before = plait_scratch(arrays, nbefore, sizeof *u.before);
    u.last = plait_scratch(arrays, prog->ninstr, sizeof *u.last);
    u.wide_out = plait_scratch(arrays, u.geometry.out.nslot, sizeof *u.wide_out);
    u.staged = plait_scratch(arrays, prog->nstage, sizeof *u.staged);
    u.out = plait_scratch(arrays, 1, sizeof *u.out + nstep * sizeof *u.out->step + ndep * sizeof *u.deps);
    u.node = plait_scratch(arrays, nstep, sizeof *u.node);
    u.deps = plait_scratch(arrays, ndep, sizeof *u.deps);
    if (arrays->failed)
        return plait_fail_memory("out of memory to check a bound plan");
    memset(u.staged, 0xff, prog->nstage * sizeof *u.staged); /* PLAIT_NONE */
    *u.out = *plan;
    u.out->nstep = u.out->ndep = 0;
    u.out->ntmp = u.partial + (uint32_t)npartial;
    const enum plait_status status = add_all(&u);
    memcpy(u.out->step + u.out->nstep, u.deps, u.out->ndep * sizeof *u.deps);
    u.out->bytes = (uint32_t)(sizeof *u.out + u.out->nstep * sizeof *u.out->step + u.out->ndep * sizeof *u.deps);
    *out = u.out;
    *node = u.node;
    return status;
}

/* Check all ranks' bound plans as plans, with every message in this form. */
static enum plait_status check_form(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    struct plait_prog *const *progs, enum form form)
{
    struct plait_scratch arrays = { 0 };
    struct plait_plan **plans = plait_scratch(&arrays, shape->nrank, sizeof *plans);
    uint32_t **nodes = plait_scratch(&arrays, shape->nrank, sizeof *nodes);
    struct plait_report report;
    bool ends = true;
    enum plait_status status = PLAIT_OK;

    if (arrays.failed)
        status = plait_fail_memory("out of memory to check a bound plan");
    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++) {
        struct plait_plan *plan = NULL;
        status = plait_plan_emit(alg, shape, r, &plan);
        if (status == PLAIT_OK)
            status = unbind(&arrays, plan, progs[r], form, &plans[r], &nodes[r]);
        plait_plan_destroy(plan);
    }
    if (status == PLAIT_OK) {
        status = plait_plan_check(spec, shape, (const struct plait_plan *const *)plans, NULL, &report);
        if (status == PLAIT_ERR_PLAN)
            plait_fail(status, "as bound, %s", report.text);
        if (status == PLAIT_OK && alg->canonical && !report.canonical)
            status = plait_fail(PLAIT_ERR_PLAN, "as bound, %s does not combine in the canonical order", spec);
    }
    if (status == PLAIT_OK && form == READ_IN_PLACE) {
        status = plait_prove_waits(plans, nodes, spec, shape->nrank, &ends);
        if (status == PLAIT_OK && !ends)
            status = plait_fail(PLAIT_ERR_PLAN, "as bound, %s can deadlock with %u ranks", spec, shape->nrank);
    }
    plait_scratch_free(&arrays);
    return status;
}

enum plait_status plait_progs_check(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    struct plait_prog *const *progs)
{
    enum plait_status status = PLAIT_OK;

    for (int form = 0; form < NFORM && status == PLAIT_OK; form++)
        status = check_form(alg, spec, shape, progs, (enum form)form);
    return status;
}

enum plait_status plait_prog_check(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                   enum plait_round round, bool average)
{
    struct plait_prog **progs = calloc(shape->nrank, sizeof *progs);
    struct plait_proof proof = { .hash = 0 };
    enum plait_status status = progs != NULL ? PLAIT_OK : plait_fail_memory("out of memory to check a bound plan");

    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++)
        status = plait_prog_create(alg, spec, shape, r, round, average, &proof, &progs[r]);
    if (status == PLAIT_OK)
        status = plait_progs_check(alg, spec, shape, progs);
    for (uint32_t r = 0; progs != NULL && r < shape->nrank; r++)
        plait_prog_destroy(progs[r]);
    free(progs);
    return status;
}
