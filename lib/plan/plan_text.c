/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans as text: the form of the golden files, for people to read.
 *
 *     plan 1 allreduce rank 2 of 4, blocks 4, tmp 2, lanes 1, out of place
 *     r2 #0 send in[2] to r3
 *     r2 #1 recv tmp[0] from r1 block 1
 *     r2 #2 reduce out[1] = tmp[0], in[1]   after 1
 *     r2 #3 send out[1..2] to r3 lane 1   after 0, 2
 *
 * A rooted collective has "root N" behind its name. A step of n blocks shows slots first..last in every span. "block B"
 * appears only when the first block differs from the first slot of the step's first span; "as it lies" stands for
 * PLAIT_AS_LIES. The lane appears only when it is not 0. plan_parse.c reads it.
 */
#include <plait/plan.h>

#include "base/status.h"
#include "plan/check/check.h"

#include <stdio.h>
#include <stdlib.h>

/* The span that is printed first: the source of a SEND, else the destination. */
static struct plait_span first_span(const struct plait_step *s)
{
    return s->verb == PLAIT_STEP_SEND ? s->a : s->dst;
}

static void print_step(FILE *f, const struct plait_plan *p, uint32_t i)
{
    const struct plait_step *s = &p->step[i];
    const uint32_t *deps = plait_plan_deps(p) + s->dep0;

    fprintf(f, "r%u #%u %s %s", p->rank, i, plait_verb_names[s->verb], plait_span_text(first_span(s), s->nblk).s);
    if (s->verb == PLAIT_STEP_COPY || s->verb == PLAIT_STEP_REDUCE)
        fprintf(f, " = %s", plait_span_text(s->a, s->nblk).s);
    if (s->verb == PLAIT_STEP_REDUCE)
        fprintf(f, ", %s", plait_span_text(s->b, s->nblk).s);
    if (s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV)
        fprintf(f, " %s r%d", s->verb == PLAIT_STEP_SEND ? "to" : "from", s->peer);
    if (s->blk == PLAIT_AS_LIES)
        fprintf(f, " as it lies");
    else if (s->blk != first_span(s).slot)
        fprintf(f, " block %u", s->blk);
    if (s->lane != 0)
        fprintf(f, " lane %u", s->lane);
    for (uint32_t d = 0; d < s->ndep; d++)
        fprintf(f, "%s %u", d == 0 ? "   after" : ",", deps[d]);
    fputc('\n', f);
}

enum plait_status plait_plan_print(const struct plait_plan *plan, char **out)
{
    char *text = NULL;
    size_t size = 0;

    if (plan == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_print: %s is NULL", plan == NULL ? "plan" : "out");
    for (uint32_t i = 0; i < plan->nstep; i++)
        if (plan->step[i].verb >= PLAIT_NVERB || (uint64_t)plan->step[i].dep0 + plan->step[i].ndep > plan->ndep)
            return plait_fail(PLAIT_ERR_PLAN,
                              "rank %u step %u cannot be printed: it has no verb or no such dependencies", plan->rank,
                              i);
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return plait_fail_memory("out of memory for the text of a plan");
    fprintf(f, "plan %u %s", plan->version, plait_coll_name((enum plait_coll)plan->coll));
    if (plait_plan_geometry(plan).rooted)
        fprintf(f, " root %u", plan->root);
    fprintf(f, " rank %u of %u, blocks %u, tmp %u, lanes %u, %s\n", plan->rank, plan->nrank, plan->nblk, plan->ntmp,
            plan->nlane, plan->inplace ? "in place" : "out of place");
    for (uint32_t i = 0; i < plan->nstep; i++)
        print_step(f, plan, i);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return plait_fail_memory("out of memory for the text of a plan");
    }
    *out = text;
    return PLAIT_OK;
}
