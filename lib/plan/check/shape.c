/* SPDX-License-Identifier: BSD-3-Clause */
/* Shape: after this check every field of every plan is safe to use without further checks. */
#include "check.h"

#include <stdio.h>

const struct plait_uses plait_verb_uses[PLAIT_NVERB] = {
    [PLAIT_STEP_SEND] = { .a = true },
    [PLAIT_STEP_RECV] = { .dst = true },
    [PLAIT_STEP_COPY] = { .dst = true, .a = true },
    [PLAIT_STEP_REDUCE] = { .dst = true, .a = true, .b = true },
};

const char *const plait_verb_names[PLAIT_NVERB] = {
    [PLAIT_STEP_SEND] = "send",
    [PLAIT_STEP_RECV] = "recv",
    [PLAIT_STEP_COPY] = "copy",
    [PLAIT_STEP_REDUCE] = "reduce",
};

const char *const plait_buf_names[PLAIT_NBUF] = { [PLAIT_IN] = "in", [PLAIT_OUT] = "out", [PLAIT_TMP] = "tmp" };

struct plait_span_text plait_span_text(struct plait_span span, uint32_t nblk)
{
    const char *buf = span.buf < PLAIT_NBUF ? plait_buf_names[span.buf] : "?";
    struct plait_span_text t;

    if (nblk == 1)
        snprintf(t.s, sizeof t.s, "%s[%u]", buf, span.slot);
    else
        snprintf(t.s, sizeof t.s, "%s[%u..%u]", buf, span.slot, span.slot + nblk - 1);
    return t;
}

struct plait_block_text plait_block_text(const struct plait_step *step)
{
    struct plait_block_text t = { "blocks as they lie" };

    if (step->blk != PLAIT_AS_LIES)
        snprintf(t.s, sizeof t.s, "block %u", step->blk);
    return t;
}

/* Describes the error in a span, or NULL. Unused spans are 0, so that equal plans have equal bytes. */
static const char *span_fault(const struct plait_plan *p, const struct plait_geometry *g, struct plait_span s,
                              uint32_t nblk, bool used)
{
    const uint32_t nslot[] = { [PLAIT_IN] = g->in.nslot, [PLAIT_OUT] = g->out.nslot, [PLAIT_TMP] = p->ntmp };

    if (!used)
        return s.buf != 0 || s.slot != 0 ? "has a span that its verb does not use" : NULL;
    if (s.buf >= PLAIT_NBUF)
        return "names no buffer";
    return (uint64_t)s.slot + nblk > nslot[s.buf] ? "has a span outside its buffer" : NULL;
}

static const char *peer_fault(const struct plait_plan *p, const struct plait_step *s)
{
    if (s->verb != PLAIT_STEP_SEND && s->verb != PLAIT_STEP_RECV)
        return s->peer != -1 ? "has a peer but is no message" : NULL;
    if (s->peer < 0 || (uint32_t)s->peer >= p->nrank)
        return "has a peer outside the comm";
    return (uint32_t)s->peer == p->rank ? "has its own rank as peer" : NULL;
}

static const char *deps_fault(const struct plait_plan *p, uint32_t i)
{
    const struct plait_step *s = &p->step[i];
    const uint32_t *deps = plait_plan_deps(p);

    if ((uint64_t)s->dep0 + s->ndep > p->ndep)
        return "has dependencies outside the plan's";
    if (s->dep0 != (i == 0 ? 0 : p->step[i - 1].dep0 + p->step[i - 1].ndep))
        return "has dependencies that do not follow those of the step before";
    for (uint32_t d = s->dep0; d < s->dep0 + s->ndep; d++) {
        if (deps[d] >= i)
            return "depends on itself or a later step";
        if (d > s->dep0 && deps[d] <= deps[d - 1])
            return "has dependencies that are not in ascending order";
    }
    return NULL;
}

static const char *block_fault(const struct plait_plan *p, const struct plait_geometry *g, const struct plait_step *s)
{
    const struct plait_uses *uses = &plait_verb_uses[s->verb];

    if (s->nblk == 0 || (s->blk != PLAIT_AS_LIES && (uint64_t)s->blk + s->nblk > p->nblk))
        return "moves blocks outside the vector";
    if (s->blk != PLAIT_AS_LIES)
        return NULL;
    if (g->kind == PLAIT_KIND_VECTOR)
        return "moves blocks that differ in size as they lie";
    return s->verb == PLAIT_STEP_REDUCE || (uses->dst && s->dst.buf != PLAIT_TMP) || (uses->a && s->a.buf != PLAIT_TMP)
               ? "moves blocks as they lie, but not between slots of TMP"
               : NULL;
}

const char *plait_step_fault(const struct plait_plan *p, const struct plait_geometry *g, const struct plait_step *s)
{
    const struct plait_uses *uses = &plait_verb_uses[s->verb < PLAIT_NVERB ? s->verb : 0];
    const char *fault;

    if (s->verb >= PLAIT_NVERB)
        return "has no verb";
    if (s->lane >= p->nlane)
        return "is on a lane that the plan does not have";
    if ((fault = block_fault(p, g, s)) != NULL || (fault = peer_fault(p, s)) != NULL ||
        (fault = span_fault(p, g, s->dst, s->nblk, uses->dst)) != NULL ||
        (fault = span_fault(p, g, s->a, s->nblk, uses->a)) != NULL ||
        (fault = span_fault(p, g, s->b, s->nblk, uses->b)) != NULL)
        return fault;
    return uses->dst && s->dst.buf == PLAIT_IN ? "writes the input" : NULL;
}

static const char *plan_fault(const struct plait_checker *c, const struct plait_plan *p, uint32_t rank)
{
    if (p->version != PLAIT_PLAN_VERSION)
        return "is of another version";
    if (p->nrank != c->nrank || p->rank != rank)
        return "is for another rank or rank count";
    if (p->coll != c->coll || (p->inplace && !c->inplace))
        return "is for another collective, or in place where the shape is not";
    if (p->root != c->root)
        return "is for another root";
    if (p->nblk == 0 || p->nblk >= 1u << 30 || p->ntmp > PLAIT_MOST_SLOTS || p->nlane == 0)
        return "has no blocks or lanes, or too many";
    if (p->nblk != c->plans[0]->nblk)
        return "cuts the vector into another number of blocks than rank 0's";
    if (plait_plan_geometry(p).kind != PLAIT_KIND_VECTOR && p->nblk != plait_block_count(c->coll, c->nrank))
        return "has another number of blocks than the collective";
    if (p->bytes != sizeof *p + (uint64_t)p->nstep * sizeof *p->step + (uint64_t)p->ndep * sizeof(uint32_t))
        return "has another size than its steps and dependencies";
    return NULL;
}

/* Dependencies are contiguous, so those of the last step must be the plan's last. */
static bool has_more_deps(const struct plait_plan *p)
{
    return p->nstep == 0 ? p->ndep != 0 : p->step[p->nstep - 1].dep0 + p->step[p->nstep - 1].ndep != p->ndep;
}

enum plait_status plait_check_shape(struct plait_checker *c)
{
    if (c->nrank == 0 || (unsigned)c->coll >= PLAIT_NCOLL)
        return plait_check_fail(c, PLAIT_CHECK_SHAPE, "there are no ranks, or there is no such collective");
    const struct plait_geometry any = plait_geometry_of(c->coll, c->nrank, 0, 0, 0);
    if (!any.rooted)
        c->root = 0;
    if (c->root >= c->nrank)
        return plait_check_fail(c, PLAIT_CHECK_SHAPE, "the root is %u", c->root);
    if (c->inplace && any.kind == PLAIT_KIND_PAIR)
        return plait_check_fail(c, PLAIT_CHECK_SHAPE, "%s has no form in place", plait_coll_name(c->coll));
    for (uint32_t r = 0; r < c->nrank; r++) {
        const struct plait_plan *p = c->plans[r];
        const char *fault = plan_fault(c, p, r);
        if (fault != NULL)
            return plait_check_fail(c, PLAIT_CHECK_SHAPE, "the plan of rank %u %s", r, fault);
        const struct plait_geometry g = plait_plan_geometry(p);
        for (uint32_t i = 0; i < p->nstep; i++)
            if ((fault = plait_step_fault(p, &g, &p->step[i])) != NULL || (fault = deps_fault(p, i)) != NULL)
                return plait_check_fail(c, PLAIT_CHECK_SHAPE, "rank %u step %u (%s) %s", r, i,
                                        plait_block_text(&p->step[i]).s, fault);
        if (has_more_deps(p))
            return plait_check_fail(c, PLAIT_CHECK_SHAPE, "the plan of rank %u has dependencies that belong to no step",
                                    r);
    }
    return PLAIT_OK;
}
