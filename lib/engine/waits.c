/* SPDX-License-Identifier: BSD-3-Clause */
#include "waits.h"

#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"

#include <stdlib.h>
#include <string.h>

/* Per peer and direction, the messages of a lane are numbered after those of the lane before. */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number)
{
    for (unsigned lane = 0; lane < plan->nlane; lane++)
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const struct plait_step *s = &plan->step[i];
            if (s->lane == lane && s->peer >= 0)
                number[i] = (s->verb == PLAIT_STEP_SEND ? nsend : nrecv)[s->peer]++;
        }
}

/* The *n steps that are messages: SENDs, then RECVs; each sorted by peer, then number. NULL: out of memory. */
static uint32_t *list_messages(const struct plait_plan *plan, uint32_t *n)
{
    uint32_t *list = malloc((plan->nstep + 1) * sizeof *list), *number = malloc((plan->nstep + 1) * sizeof *number);
    uint32_t *first = calloc(2 * (size_t)plan->nrank, sizeof *first), at = 0;

    if (list != NULL && number != NULL && first != NULL) {
        plait_number_messages(plan, first, first + plan->nrank, number);
        for (uint32_t k = 0; k < 2 * plan->nrank; k++) {
            const uint32_t count = first[k];
            first[k] = at;
            at += count;
        }
        for (uint32_t i = 0; i < plan->nstep; i++) {
            const struct plait_step *s = &plan->step[i];
            if (s->peer >= 0)
                list[first[s->verb == PLAIT_STEP_SEND ? (uint32_t)s->peer : plan->nrank + s->peer] + number[i]] = i;
        }
    } else {
        free(list);
        list = NULL;
    }
    free(number);
    free(first);
    *n = at;
    return list;
}

/* Copy a plan so that each SEND also waits for the SEND PLAIT_WINDOW before it, whose window slot it reuses. */
static struct plait_plan *with_window(const struct plait_plan *plan)
{
    const uint32_t *deps = plait_plan_deps(plan);
    struct plait_plan *p = malloc(plan->bytes + plan->nstep * sizeof *deps);
    uint32_t *before = malloc((plan->nstep + 1) * sizeof *before), n, *list = list_messages(plan, &n);

    if (p != NULL && before != NULL && list != NULL) {
        memset(before, 0xff, plan->nstep * sizeof *before); /* PLAIT_NONE */
        for (uint32_t k = PLAIT_WINDOW; k < n; k++) {
            const struct plait_step *late = &plan->step[list[k]], *early = &plan->step[list[k - PLAIT_WINDOW]];
            if (late->verb == PLAIT_STEP_SEND && late->peer == early->peer)
                before[list[k]] = list[k - PLAIT_WINDOW];
        }
        memcpy(p, plan, sizeof *p + plan->nstep * sizeof *p->step);
        uint32_t *to = (uint32_t *)(uintptr_t)plait_plan_deps(p);
        p->ndep = 0;
        for (uint32_t i = 0; i < p->nstep; i++) {
            struct plait_step *s = &p->step[i];
            memcpy(to + p->ndep, deps + s->dep0, s->ndep * sizeof *deps);
            s->dep0 = p->ndep;
            if (before[i] != PLAIT_NONE)
                to[s->dep0 + s->ndep++] = before[i];
            p->ndep += s->ndep;
        }
    } else {
        free(p);
        p = NULL;
    }
    free(before);
    free(list);
    return p;
}

enum plait_status plait_compare_messages(const struct plait_plan *x, const struct plait_plan *y, bool *same)
{
    uint32_t nx, ny, *in_x = list_messages(x, &nx), *in_y = list_messages(y, &ny);
    const bool room = in_x != NULL && in_y != NULL;

    *same = nx == ny && x->nblk == y->nblk;
    for (uint32_t k = 0; room && *same && k < nx; k++) {
        const struct plait_step *a = &x->step[in_x[k]], *b = &y->step[in_y[k]];
        *same =
            a->verb == b->verb && a->peer == b->peer && a->lane == b->lane && a->blk == b->blk && a->nblk == b->nblk;
    }
    free(in_x);
    free(in_y);
    return room ? PLAIT_OK : plait_fail_memory("out of memory to bind a plan");
}

/*
 * Merge two plans of a rank that have the same messages into one that waits for everything that either waits for. A
 * message is a step of both plans, done once. If the merged plan runs to the end, so does each of the two.
 *
 * node  in: how each plan is fused, [x->nstep] and then [y->nstep]; out: how the merged plan is
 */
static struct plait_plan *merge(const struct plait_plan *x, const struct plait_plan *y, uint32_t *node)
{
    const uint32_t nstep = x->nstep + y->nstep, ndep = x->ndep + y->ndep;
    struct plait_plan *p = malloc(sizeof *p + nstep * sizeof *p->step + ndep * sizeof(uint32_t));
    uint32_t nx, ny, *in_x = list_messages(x, &nx), *in_y = list_messages(y, &ny);

    if (p != NULL && in_x != NULL && in_y != NULL) {
        memcpy(p, x, sizeof *p + x->nstep * sizeof *p->step);
        memcpy(p->step + x->nstep, y->step, y->nstep * sizeof *p->step);
        p->nstep = nstep;
        p->ndep = ndep;
        uint32_t *deps = (uint32_t *)(uintptr_t)plait_plan_deps(p);
        memcpy(deps, plait_plan_deps(x), x->ndep * sizeof *deps);
        for (uint32_t i = 0; i < y->ndep; i++)
            deps[x->ndep + i] = plait_plan_deps(y)[i] + x->nstep;
        for (uint32_t i = x->nstep; i < nstep; i++) {
            p->step[i].dep0 += x->ndep;
            node[i] += x->nstep;
            if (p->step[i].peer >= 0) {
                p->step[i].verb = PLAIT_STEP_COPY;
                p->step[i].peer = -1;
            }
        }
        for (uint32_t k = 0; k < nx; k++)
            node[plait_find_node(node, in_y[k] + x->nstep)] = plait_find_node(node, in_x[k]);
        for (uint32_t i = 0; i < nstep; i++)
            node[i] = plait_find_node(node, i);
    } else {
        free(p);
        p = NULL;
    }
    free(in_x);
    free(in_y);
    return p;
}

/* The plan of all that a rank waits for, the window included. `other`: the rank's other plan, or NULL. */
static struct plait_plan *waits_of(const struct plait_plan *plan, const struct plait_plan *other, uint32_t *node)
{
    struct plait_plan *own = with_window(plan), *second = other != NULL ? with_window(other) : NULL, *both = NULL;

    if (other == NULL)
        return own;
    if (own != NULL && second != NULL)
        both = merge(own, second, node);
    plait_plan_destroy(own);
    plait_plan_destroy(second);
    return both;
}

enum plait_status plait_prove_waits(struct plait_plan *const *plans, struct plait_plan *const *others,
                                    uint32_t *const *nodes, const char *spec, uint32_t nrank, bool *out)
{
    struct plait_plan **waits = calloc((size_t)nrank + 1, sizeof *waits);
    enum plait_status status = waits != NULL ? PLAIT_OK : PLAIT_ERR_NOMEM;

    for (uint32_t r = 0; status == PLAIT_OK && r < nrank; r++)
        if ((waits[r] = waits_of(plans[r], others != NULL ? others[r] : NULL, nodes[r])) == NULL)
            status = PLAIT_ERR_NOMEM;
    if (status == PLAIT_OK)
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)waits, nrank,
                                      (const uint32_t *const *)nodes, NULL);
    else
        plait_fail_memory("out of memory to bind a plan");
    plait_plans_destroy(waits, nrank);
    *out = status == PLAIT_OK;
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}
