/* SPDX-License-Identifier: BSD-3-Clause */
#include "mutants.h"

#include "plans.h"
#include "random_plan.h"

#include <stdlib.h>
#include <string.h>

const char *const mutation_names[NMUTATION] = {
    "peer", "block", "length", "span", "verb", "operands", "order", "dropped step", "doubled step", "dropped dependency"
};

void mutant_take_apart(const struct plait_plan *p, struct loose_plan *l)
{
    memset(l, 0, sizeof *l);
    l->head = *p;
    memcpy(l->step, p->step, p->nstep * sizeof *p->step);
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t d = 0; d < p->step[i].ndep; d++)
            l->dep[i][plait_plan_deps(p)[p->step[i].dep0 + d]] = true;
}

struct plait_plan *mutant_put_together(const struct loose_plan *l)
{
    const uint32_t n = l->head.nstep;
    struct plait_plan *p = malloc(sizeof *p + n * sizeof *p->step + (size_t)n * n * sizeof(uint32_t));
    uint32_t *deps = (uint32_t *)(p->step + n);

    *p = l->head;
    p->ndep = 0;
    memcpy(p->step, l->step, n * sizeof *p->step);
    for (uint32_t i = 0; i < n; i++) {
        p->step[i].dep0 = p->ndep;
        for (uint32_t j = 0; j < i; j++)
            if (l->dep[i][j])
                deps[p->ndep++] = j;
        p->step[i].ndep = (uint16_t)(p->ndep - p->step[i].dep0);
    }
    p->bytes = (uint32_t)(sizeof *p + n * sizeof *p->step + p->ndep * sizeof *deps);
    return p;
}

/* ---- Mutations --------------------------------------------------------------------------------- */

static bool is_message(const struct plait_step *s)
{
    return s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV;
}

/* Any slot of any buffer, mostly inside. */
static struct plait_span any_span(const struct loose_plan *l, uint64_t *random)
{
    const uint32_t buf = random_below(random, PLAIT_NBUF);
    const uint32_t n = (buf == PLAIT_TMP ? l->head.ntmp : l->head.nblk) + (random_below(random, 8) == 0);
    return (struct plait_span){ buf & 3, (n == 0 ? 0 : random_below(random, n)) & 0x3fffffff };
}

static bool change_span(struct loose_plan *l, struct plait_step *s, uint64_t *random)
{
    struct plait_span *spans[3];
    uint32_t n = 0;

    if (s->verb != PLAIT_STEP_SEND)
        spans[n++] = &s->dst;
    if (s->verb != PLAIT_STEP_RECV)
        spans[n++] = &s->a;
    if (s->verb == PLAIT_STEP_REDUCE)
        spans[n++] = &s->b;
    struct plait_span *span = spans[random_below(random, n)];
    const struct plait_span old = *span;
    if (random_below(random, 2) == 0)
        span->buf = random_below(random, PLAIT_NBUF) & 3;
    else
        *span = any_span(l, random);
    return span->buf != old.buf || span->slot != old.slot;
}

/* Another verb with the spans that there are, so that the result still has the right shape. */
static bool change_verb(struct loose_plan *l, struct plait_step *s, uint64_t *random)
{
    const struct plait_span from = s->verb == PLAIT_STEP_RECV ? s->dst : s->a;
    const struct plait_span to = s->verb == PLAIT_STEP_SEND ? any_span(l, random) : s->dst;
    const uint32_t verb = (s->verb + 1 + random_below(random, 3)) % 4;
    const struct plait_span none = { 0, 0 };

    if (!is_message(s) && verb <= PLAIT_STEP_RECV) {
        const uint32_t peer = random_below(random, l->head.nrank);
        if (peer == l->head.rank)
            return false;
        s->peer = (int32_t)peer;
    }
    if (verb > PLAIT_STEP_RECV)
        s->peer = -1;
    s->verb = (uint8_t)verb;
    s->a = verb == PLAIT_STEP_RECV ? none : verb == PLAIT_STEP_SEND ? from : any_span(l, random);
    s->dst = verb == PLAIT_STEP_SEND ? none : to;
    s->b = verb == PLAIT_STEP_REDUCE ? any_span(l, random) : none;
    return true;
}

static bool swap_operands(struct plait_step *s)
{
    const struct plait_span a = s->a;

    s->a = s->b;
    s->b = a;
    return s->verb == PLAIT_STEP_REDUCE;
}

/* Swap two steps and what waits for them; dependencies that would point forwards are lost. */
static bool swap_steps(struct loose_plan *l, uint32_t i, uint32_t j)
{
    const struct plait_step s = l->step[i];

    l->step[i] = l->step[j];
    l->step[j] = s;
    for (uint32_t k = 0; k < l->head.nstep; k++) {
        const bool d = l->dep[i][k];
        l->dep[i][k] = l->dep[j][k];
        l->dep[j][k] = d;
    }
    for (uint32_t k = 0; k < l->head.nstep; k++) {
        const bool d = l->dep[k][i];
        l->dep[k][i] = l->dep[k][j];
        l->dep[k][j] = d;
    }
    return i != j;
}

/* Close the gap (or, with by = 1, open one before i, where a copy of the step stays). */
static bool shift_steps(struct loose_plan *l, uint32_t i, bool drop, bool inherit)
{
    struct loose_plan *old = malloc(sizeof *old);
    const uint32_t n = drop ? l->head.nstep - 1 : l->head.nstep + 1;

    *old = *l;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t from = k <= i && !(drop && k == i) ? k : drop ? k + 1 : k - 1;
        l->step[k] = old->step[from];
        for (uint32_t m = 0; m < n; m++) {
            const uint32_t on = m <= i && !(drop && m == i) ? m : drop ? m + 1 : m - 1;
            l->dep[k][m] = old->dep[from][on] || (drop && inherit && old->dep[from][i] && old->dep[i][on]);
        }
    }
    l->head.nstep = n;
    if (!drop)
        l->dep[i + 1][i] = inherit;
    free(old);
    return true;
}

static bool drop_dependency(struct loose_plan *l, uint32_t i, uint64_t *random)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < i; j++)
        n += l->dep[i][j];
    if (n == 0)
        return false;
    n = random_below(random, n);
    for (uint32_t j = 0; j < i; j++)
        if (l->dep[i][j] && n-- == 0)
            l->dep[i][j] = false;
    return true;
}

bool mutant_change(struct loose_plan *l, enum mutation what, uint64_t *random)
{
    const uint32_t n = l->head.nstep, i = random_below(random, n);
    struct plait_step *s = &l->step[i], old = *s;

    switch (what) {
    case PEER:
        s->peer = (int32_t)random_below(random, l->head.nrank);
        return is_message(&old) && s->peer != old.peer;
    case BLOCK:
        s->blk = random_below(random, 8) == 0 ? PLAIT_AS_LIES : random_below(random, l->head.nblk);
        return s->blk != old.blk;
    case LENGTH:
        s->nblk = 1 + random_below(random, l->head.nblk < 64 ? l->head.nblk : l->head.nrank);
        return s->nblk != old.nblk;
    case SPAN:
        return change_span(l, s, random);
    case VERB:
        return change_verb(l, s, random);
    case OPERANDS:
        return swap_operands(s);
    case ORDER:
        return swap_steps(l, i, random_below(random, 2) ? random_below(random, n) : (i + 1) % n);
    case DROP_STEP:
        return shift_steps(l, i, true, random_below(random, 2));
    case DOUBLE_STEP:
        return shift_steps(l, i, false, random_below(random, 2));
    default:
        return drop_dependency(l, i, random);
    }
}

/* ---- Emitting again ---------------------------------------------------------------------------- */

static void replay(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape,
                   uint32_t rank)
{
    const struct loose_plan *l = self->preset;

    (void)shape, (void)rank;
    random_plan_emit(b, l->step, l->head.nstep, l->head.nblk, l->head.ntmp);
}

struct plait_plan *mutant_emit(const struct loose_plan *l, const struct plait_shape *shape)
{
    const struct plait_alg alg = { .name = "mutant", .preset = l, .emit = replay };
    struct plait_plan *p = NULL;

    return plait_plan_emit(&alg, shape, l->head.rank, &p) == PLAIT_OK ? p : NULL;
}
