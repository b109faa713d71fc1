/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Race: if two steps of a rank access the same slot and at least one writes it, the rank's own dependencies must order
 * them, directly or through other steps.
 *
 * It is enough that each access comes after the last write of the slot, and each write also after the reads since then.
 * Every other pair follows by transitivity. The required order is nearly always a direct dependency. Otherwise one
 * search visits the ancestors of the step, down to the earliest one required.
 */
#include "check.h"

#include <stdlib.h>

struct touch {       /* the last accesses to a slot */
    uint32_t writer; /* step, or PLAIT_NONE */
    uint32_t reads;  /* index of the newest read since that write, or PLAIT_NONE */
};

struct read {
    uint32_t step, older;
};

struct need { /* the current step must come after this one */
    uint32_t step;
    struct plait_span slot;
    bool wrote, writes; /* does the earlier step write the slot? does the current one? */
};

struct race {
    struct plait_checker *c;
    const struct plait_plan *plan;
    const uint32_t *deps;
    struct plait_geometry geometry;
    struct touch *touch; /* [places] */
    struct read *reads;
    struct need *needs;
    uint32_t nread, nneed;
    size_t cread, cneed;
    uint32_t *mark;  /* [nstep] mark[i] == s + 1: step i is a known ancestor of step s */
    uint32_t *stack; /* [nstep] */
};

static bool need(struct race *x, uint32_t step, struct plait_span span, uint32_t i, bool wrote, bool writes)
{
    if (!plait_grow((void **)&x->needs, (size_t)x->nneed + 1, &x->cneed, sizeof *x->needs))
        return false;
    x->needs[x->nneed++] = (struct need){ step, { span.buf, span.slot + i }, wrote, writes };
    return true;
}

static struct touch *touch_at(const struct race *x, struct plait_span span, uint32_t i)
{
    return &x->touch[plait_place(&x->geometry, x->plan->inplace, span, i)];
}

static bool read_span(struct race *x, uint32_t step, struct plait_span span, uint32_t nblk)
{
    for (uint32_t i = 0; i < nblk; i++) {
        struct touch *t = touch_at(x, span, i);
        if (t->writer != PLAIT_NONE && !need(x, t->writer, span, i, true, false))
            return false;
        if (!plait_grow((void **)&x->reads, (size_t)x->nread + 1, &x->cread, sizeof *x->reads))
            return false;
        x->reads[x->nread] = (struct read){ step, t->reads };
        t->reads = x->nread++;
    }
    return true;
}

static bool write_span(struct race *x, uint32_t step, struct plait_span span, uint32_t nblk)
{
    for (uint32_t i = 0; i < nblk; i++) {
        struct touch *t = touch_at(x, span, i);
        if (t->writer != PLAIT_NONE && !need(x, t->writer, span, i, true, true))
            return false;
        for (uint32_t r = t->reads; r < x->nread; r = x->reads[r].older) /* ends at PLAIT_NONE */
            if (x->reads[r].step != step && !need(x, x->reads[r].step, span, i, false, true))
                return false;
        *t = (struct touch){ step, PLAIT_NONE };
    }
    return true;
}

/* Marks the dependencies of step `of` as ancestors of `step`; pushes newly marked ones after `floor` on the stack. */
static uint32_t mark_deps(struct race *x, uint32_t step, uint32_t of, uint32_t floor, uint32_t depth)
{
    const struct plait_step *s = &x->plan->step[of];

    for (uint32_t d = s->dep0; d < s->dep0 + s->ndep; d++) {
        const uint32_t on = x->deps[d];
        if (x->mark[on] == step + 1)
            continue;
        x->mark[on] = step + 1;
        if (on > floor)
            x->stack[depth++] = on;
    }
    return depth;
}

/* The first required step that `step` does not wait for, or NULL. */
static const struct need *unordered(struct race *x, uint32_t step)
{
    uint32_t floor = PLAIT_NONE, depth;

    mark_deps(x, step, step, PLAIT_NONE, 0);
    for (uint32_t i = 0; i < x->nneed; i++)
        if (x->mark[x->needs[i].step] != step + 1 && x->needs[i].step < floor)
            floor = x->needs[i].step;
    if (floor == PLAIT_NONE)
        return NULL;
    const struct plait_step *s = &x->plan->step[step];
    for (depth = 0; depth < s->ndep; depth++)
        x->stack[depth] = x->deps[s->dep0 + depth];
    while (depth > 0)
        depth = mark_deps(x, step, x->stack[depth - 1], floor, depth - 1);
    for (uint32_t i = 0; i < x->nneed; i++)
        if (x->mark[x->needs[i].step] != step + 1)
            return &x->needs[i];
    return NULL;
}

bool plait_overlaps(const struct plait_plan *plan, const struct plait_geometry *g, struct plait_span to,
                    struct plait_span from, uint32_t n, bool may_coincide)
{
    const uint32_t first = plait_place(g, plan->inplace, to, 0); /* the places of OUT and of TMP are consecutive */

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t at = plait_place(g, plan->inplace, from, k) - first;
        if (at < n && (at != k || !may_coincide))
            return true;
    }
    return false;
}

static bool overlaps_itself(const struct race *x, const struct plait_step *s, struct plait_span from)
{
    return plait_overlaps(x->plan, &x->geometry, s->dst, from, s->nblk, s->verb == PLAIT_STEP_REDUCE);
}

static enum plait_status check_step(struct race *x, uint32_t i)
{
    const struct plait_step *s = &x->plan->step[i];
    const struct plait_uses *uses = &plait_verb_uses[s->verb];

    if (uses->dst && ((uses->a && overlaps_itself(x, s, s->a)) || (uses->b && overlaps_itself(x, s, s->b))))
        return plait_check_fail(x->c, PLAIT_CHECK_RACE, "rank %u step %u (%s) writes %s, which overlaps what it reads",
                                x->plan->rank, i, plait_block_text(s).s, plait_span_text(s->dst, s->nblk).s);
    x->nneed = 0;
    if ((uses->a && !read_span(x, i, s->a, s->nblk)) || (uses->b && !read_span(x, i, s->b, s->nblk)) ||
        (uses->dst && !write_span(x, i, s->dst, s->nblk)))
        return plait_check_nomem(x->c);
    const struct need *n = unordered(x, i);
    if (n == NULL)
        return PLAIT_OK;
    return plait_check_fail(x->c, PLAIT_CHECK_RACE,
                            "rank %u step %u %s %s (%s) without waiting for step %u, which %s it", x->plan->rank, i,
                            n->writes ? "writes" : "reads", plait_span_text(n->slot, 1).s, plait_block_text(s).s,
                            n->step, n->wrote ? "writes" : "reads");
}

static enum plait_status check_rank(struct race *x, const struct plait_plan *plan)
{
    enum plait_status status = PLAIT_OK;

    x->plan = plan;
    x->geometry = plait_plan_geometry(plan);
    x->deps = plait_plan_deps(plan);
    x->nread = 0;
    for (size_t s = 0; s < plait_nplace(plan); s++)
        x->touch[s] = (struct touch){ PLAIT_NONE, PLAIT_NONE };
    for (uint32_t i = 0; i < plan->nstep; i++)
        x->mark[i] = 0;
    for (uint32_t i = 0; i < plan->nstep && status == PLAIT_OK; i++)
        status = check_step(x, i);
    return status;
}

enum plait_status plait_check_race(struct plait_checker *c)
{
    struct plait_scratch arrays = { 0 };
    struct race x = { .c = c };
    enum plait_status status = PLAIT_OK;
    size_t nslot = 0, nstep = 0;

    for (uint32_t r = 0; r < c->nrank; r++) {
        const struct plait_plan *p = c->plans[r];
        nslot = nslot > plait_nplace(p) ? nslot : plait_nplace(p);
        nstep = nstep > p->nstep ? nstep : p->nstep;
    }
    x.touch = plait_scratch(&arrays, nslot, sizeof *x.touch);
    x.mark = plait_scratch(&arrays, nstep, sizeof *x.mark);
    x.stack = plait_scratch(&arrays, nstep, sizeof *x.stack);
    if (arrays.failed)
        status = plait_check_nomem(c);
    for (uint32_t r = 0; r < c->nrank && status == PLAIT_OK; r++)
        status = check_rank(&x, c->plans[r]);
    plait_scratch_free(&arrays);
    free(x.reads);
    free(x.needs);
    return status;
}
