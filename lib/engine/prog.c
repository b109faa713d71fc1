/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding: from a plan's steps to the engine's instructions. */
#include "prog.h"

#include "base/status.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"
#include "select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- From steps to instructions ------------------------------------------------------------------ */

struct binder {
    const struct plait_plan *plan;
    const uint32_t *deps, *node;
    struct plait_prog *prog;
    uint32_t *instr;            /* [nstep] instruction of each step, borrowed RECVs and roots included */
    uint32_t *written;          /* [places] 1 + the step that last wrote the place so far; 0: none */
    uint32_t *sent;             /* [places] 1 + the last SEND from the place so far; 0: none */
    uint32_t *writer[2];        /* [nstep] the step whose value is operand a, b; or NONE */
    const unsigned char *kinds; /* [nstep] PLAIT_VALUE_*; NULL: not asked for */
    bool wide;                  /* keep partial sums in fp32 */
    struct plait_geometry geometry;
    uint32_t nsource;
};

static bool is_borrowed(const struct binder *b, uint32_t step)
{
    return b->plan->step[step].verb == PLAIT_STEP_RECV && b->node[step] != step;
}

/* Is it a REDUCE fused into another one? It has no instruction; borrowed RECVs do have one. */
static bool is_inner(const struct binder *b, uint32_t step)
{
    return b->plan->step[step].verb == PLAIT_STEP_REDUCE && b->node[step] != step;
}

static bool is_wide(const struct binder *b, uint32_t step)
{
    return b->wide && step != PLAIT_NONE && b->kinds[step] == PLAIT_VALUE_PARTIAL;
}

static uint32_t *written_at(const struct binder *b, struct plait_span span, uint32_t k)
{
    return &b->written[plait_place(&b->geometry, b->plan->inplace, span, k)];
}

/* The step whose value the span's k-th slot holds now. NONE: it holds the caller's input. */
static uint32_t writer_of(const struct binder *b, struct plait_span span, uint32_t k)
{
    return *written_at(b, span, k) - 1; /* 0 wraps around to NONE */
}

/* In place, a wide value that is read from IN has replaced the input; it is stored in the fp32 slot of OUT. */
static void add_source(struct binder *b, struct plait_instr *in, struct plait_span span, uint32_t borrowed, bool wide)
{
    if (wide && span.buf == PLAIT_IN)
        span = plait_out(plait_place(&b->geometry, b->plan->inplace, span, 0));
    b->prog->sources[b->nsource++] = (struct plait_source){ span, borrowed, wide };
    in->nsource++;
    in->mixed |= wide;
}

/* The operands of the REDUCE `step`, left to right, through the steps fused into `root`. */
static void add_operands(struct binder *b, struct plait_instr *in, uint32_t root, uint32_t step)
{
    for (unsigned k = 0; k < 2; k++) {
        const struct plait_span span = k == 0 ? b->plan->step[step].a : b->plan->step[step].b;
        const uint32_t w = b->writer[k][step];
        if (w == PLAIT_NONE || w == root || b->node[w] != root)
            add_source(b, in, span, PLAIT_NONE, is_wide(b, w));
        else if (b->plan->step[w].verb == PLAIT_STEP_RECV)
            add_source(b, in, span, b->instr[w], is_wide(b, w));
        else
            add_operands(b, in, root, w);
    }
}

/* Place a SEND's staged copy: the last SEND of the same blocks, if none was written since, shares its copy. */
static void place_stage(struct binder *b, uint32_t step)
{
    const struct plait_step *s = &b->plan->step[step];
    struct plait_prog *p = b->prog;
    struct plait_instr *in = &p->instrs[b->instr[step]];
    uint32_t *sent = &b->sent[plait_place(&b->geometry, b->plan->inplace, s->a, 0)];
    bool shared = s->a.buf != PLAIT_TMP && *sent > 0 && b->plan->step[*sent - 1].nblk == s->nblk;

    for (uint32_t k = 0; k < s->nblk; k++) /* TMP is library memory: rarely staged, so its copies are not shared */
        shared = shared && *written_at(b, s->a, k) < *sent;
    in->stage = shared ? p->instrs[b->instr[*sent - 1]].stage : p->nstage;
    p->nstage += shared ? 0 : s->nblk;
    *sent = step + 1;
}

static void note_write(struct binder *b, uint32_t step)
{
    const struct plait_step *s = &b->plan->step[step];

    for (uint32_t k = 0; s->verb != PLAIT_STEP_SEND && k < s->nblk; k++)
        *written_at(b, s->dst, k) = step + 1;
}

static void use_tmp(struct plait_prog *p, struct plait_span span, uint32_t nblk)
{
    if (span.buf == PLAIT_TMP && span.slot + nblk > p->ntmp)
        p->ntmp = span.slot + nblk;
}

static void make_instrs(struct binder *b)
{
    struct plait_prog *p = b->prog;

    for (uint32_t i = 0; i < b->plan->nstep; note_write(b, i++)) {
        const struct plait_step *s = &b->plan->step[i];
        b->writer[0][i] = s->verb != PLAIT_STEP_RECV ? writer_of(b, s->a, 0) : PLAIT_NONE;
        b->writer[1][i] = s->verb == PLAIT_STEP_REDUCE ? writer_of(b, s->b, 0) : PLAIT_NONE;
        if (is_inner(b, i))
            continue;
        b->instr[i] = p->ninstr;
        struct plait_instr *in = &p->instrs[p->ninstr++];
        *in = (struct plait_instr){ .verb = s->verb,
                                    .borrowed = is_borrowed(b, i),
                                    .peer = s->peer,
                                    .blk = s->blk,
                                    .nblk = s->nblk,
                                    .dst = s->dst,
                                    .source = b->nsource,
                                    .stage = PLAIT_NONE,
                                    .wide = is_wide(b, i),
                                    .mixed = is_wide(b, i) };
        p->wide |= in->wide;
        if (s->verb == PLAIT_STEP_REDUCE)
            add_operands(b, in, i, i);
        else if (s->verb != PLAIT_STEP_RECV)
            add_source(b, in, s->a, PLAIT_NONE, is_wide(b, b->writer[0][i]));
        if (s->verb == PLAIT_STEP_SEND)
            place_stage(b, i);
        if (s->verb != PLAIT_STEP_SEND && !in->borrowed)
            use_tmp(p, s->dst, s->nblk);
        for (uint32_t k = 0; k < in->nsource; k++)
            if (p->sources[in->source + k].borrowed == PLAIT_NONE)
                use_tmp(p, p->sources[in->source + k].span, s->nblk);
    }
}

/* Per peer and direction, the messages of a lane are numbered after those of the lane before. */
static void number_messages(struct binder *b)
{
    struct plait_prog *p = b->prog;

    for (unsigned lane = 0; lane < b->plan->nlane; lane++)
        for (uint32_t i = 0; i < b->plan->nstep; i++) {
            const struct plait_step *s = &b->plan->step[i];
            if (s->lane == lane && s->peer >= 0)
                p->instrs[b->instr[i]].message = (s->verb == PLAIT_STEP_SEND ? p->nsend : p->nrecv)[s->peer]++;
        }
}

/*
 * Mark the REDUCEs that make results. `kinds` tells, from contributor sets. Large comms with a library algorithm have
 * no `kinds`: there a result is a value that OUT holds at the end, directly or as a copy. A test compares both rules
 * over all algorithms.
 */
static void mark_final(struct binder *b)
{
    const struct plait_step *steps = b->plan->step;

    for (uint32_t i = 0; b->kinds != NULL && i < b->plan->nstep; i++)
        if (steps[i].verb == PLAIT_STEP_REDUCE && !is_inner(b, i))
            b->prog->instrs[b->instr[i]].final = b->kinds[i] == PLAIT_VALUE_FINAL;
    for (uint32_t k = 0; b->kinds == NULL && k < b->geometry.out.nslot; k++) {
        uint32_t from = writer_of(b, plait_out(k), 0);
        if (from != PLAIT_NONE && steps[from].verb == PLAIT_STEP_COPY)
            from = b->writer[0][from];
        if (from != PLAIT_NONE && steps[from].verb == PLAIT_STEP_REDUCE)
            b->prog->instrs[b->instr[from]].final = true;
    }
}

/* ---- Dependencies, reversed ---------------------------------------------------------------------- */

/*
 * Call visit(from, to) for every edge between instructions. Steps of one node run together, so a dependency between
 * them is no edge, except from a borrowed RECV to its REDUCE. Steps outside wait for the whole node, because it
 * releases borrowed messages at its end.
 */
static void each_edge(const struct binder *b, void (*visit)(struct plait_prog *, uint32_t from, uint32_t to))
{
    for (uint32_t i = 0; i < b->plan->nstep; i++) {
        const struct plait_step *s = &b->plan->step[i];
        for (uint32_t k = 0; k < s->ndep; k++) {
            const uint32_t dep = b->deps[s->dep0 + k];
            if (b->node[dep] != b->node[i])
                visit(b->prog, b->instr[b->node[dep]], b->instr[is_borrowed(b, i) ? i : b->node[i]]);
            else if (is_borrowed(b, dep))
                visit(b->prog, b->instr[dep], b->instr[b->node[i]]);
        }
    }
}

static void count_edge(struct plait_prog *p, uint32_t from, uint32_t to)
{
    p->instrs[from].nsuccessor++;
    p->ndeps[to]++;
}

static void store_edge(struct plait_prog *p, uint32_t from, uint32_t to)
{
    struct plait_instr *in = &p->instrs[from];
    p->successors[in->successor + in->nsuccessor++] = to;
}

static enum plait_status reverse_deps(struct binder *b)
{
    struct plait_prog *p = b->prog;
    uint32_t n = 0;

    each_edge(b, count_edge);
    for (uint32_t i = 0; i < p->ninstr; i++) {
        p->instrs[i].successor = n;
        n += p->instrs[i].nsuccessor;
        p->instrs[i].nsuccessor = 0;
    }
    p->successors = malloc((n + 1) * sizeof *p->successors);
    if (p->successors == NULL)
        return plait_fail_memory("out of memory to bind a plan");
    each_edge(b, store_edge);
    return PLAIT_OK;
}

static enum plait_status bind_plan(const struct plait_plan *plan, const uint32_t *node, const unsigned char *kinds,
                                   bool wide, struct plait_prog *p)
{
    struct binder b = { .plan = plan,
                        .deps = plait_plan_deps(plan),
                        .node = node,
                        .prog = p,
                        .kinds = kinds,
                        .wide = wide,
                        .geometry = plait_plan_geometry(plan) };
    const size_t n = plan->nstep + 1;
    struct plait_scratch arrays = { 0 };
    enum plait_status status;

    b.instr = plait_scratch(&arrays, n, sizeof *b.instr);
    b.writer[0] = plait_scratch(&arrays, n, sizeof *b.writer[0]);
    b.writer[1] = plait_scratch(&arrays, n, sizeof *b.writer[1]);
    b.written = plait_scratch(&arrays, plait_nplace(plan), sizeof *b.written);
    b.sent = plait_scratch(&arrays, plait_nplace(plan), sizeof *b.sent);
    p->instrs = calloc(n, sizeof *p->instrs);
    p->sources = calloc(2 * n, sizeof *p->sources);
    p->ndeps = calloc(n, sizeof *p->ndeps);
    p->nsend = calloc(plan->nrank, sizeof *p->nsend);
    p->nrecv = calloc(plan->nrank, sizeof *p->nrecv);
    if (!arrays.failed && p->instrs && p->sources && p->ndeps && p->nsend && p->nrecv) {
        make_instrs(&b);
        number_messages(&b);
        mark_final(&b);
        status = reverse_deps(&b);
    } else {
        status = plait_fail_memory("out of memory to bind a plan");
    }
    plait_scratch_free(&arrays);
    return status;
}

bool plait_moves_single_blocks(const struct plait_plan *plan)
{
    const struct plait_geometry g = plait_plan_geometry(plan);

    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        if (s->nblk > 1 || s->blk == PLAIT_AS_LIES ||
            (plait_side_slot(&g.in, s->blk) == UINT32_MAX && plait_side_slot(&g.out, s->blk) == UINT32_MAX))
            return false;
    }
    return true;
}

enum plait_status plait_prog_create(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                                    uint32_t rank, enum plait_round round, bool average, struct plait_proof *proof,
                                    struct plait_prog **out)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    const bool hop = round == PLAIT_ROUND_HOP, wide = combines && round == PLAIT_ROUND_ONCE && !alg->no_partials;
    const bool need_kinds = wide || (average && (shape->nrank <= PLAIT_MOST_PROVED || !plait_is_of_library(alg)));
    struct plait_prog *p = calloc(1, sizeof *p);
    struct plait_plan *plan = NULL;
    uint32_t *node = NULL;
    unsigned char *kinds = NULL;
    enum plait_status status = plait_plan_emit(alg, shape, rank, &plan);

    if (status != PLAIT_OK)
        goto out;
    node = malloc((plan->nstep + 1) * sizeof *node);
    kinds = need_kinds ? malloc(plan->nstep + 1) : NULL;
    if (p == NULL || node == NULL || (need_kinds && kinds == NULL)) {
        status = plait_fail_memory("out of memory to bind a plan of %u steps", plan->nstep);
        goto out;
    }
    p->alg = alg;
    p->inplace = shape->inplace;
    p->root = shape->root;
    p->round = round;
    p->average = average;
    p->nrank = shape->nrank;
    p->nblk = plan->nblk;
    snprintf(p->spec, sizeof p->spec, "%s", spec);
    if (proof->hash == 0 || need_kinds)
        status = plait_prove(alg, spec, shape, plan, hop, kinds, proof);
    p->hash = proof->hash;
    p->sliceable = proof->sliceable;
    p->single = plait_moves_single_blocks(plan);
    if (status == PLAIT_OK)
        status = plait_fuse(plan, proof->fusing, node);
    if (status == PLAIT_OK)
        status = bind_plan(plan, node, kinds, wide, p);
out:
    free(node);
    free(kinds);
    plait_plan_destroy(plan);
    if (status == PLAIT_OK)
        *out = p;
    else
        plait_prog_destroy(p);
    return status;
}

void plait_prog_destroy(struct plait_prog *p)
{
    if (p == NULL)
        return;
    free(p->instrs);
    free(p->sources);
    free(p->successors);
    free(p->ndeps);
    free(p->nsend);
    free(p->nrecv);
    free(p);
}
