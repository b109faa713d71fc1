/* SPDX-License-Identifier: BSD-3-Clause */
#include "waits.h"

#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan_check.h"
#include "plan/scratch.h"

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
static uint32_t *list_messages(struct plait_scratch *arrays, const struct plait_plan *plan, uint32_t *n)
{
    uint32_t *list = plait_scratch(arrays, plan->nstep, sizeof *list);
    uint32_t *number = plait_scratch(arrays, plan->nstep, sizeof *number);
    uint32_t *first = plait_scratch(arrays, 2 * (size_t)plan->nrank, sizeof *first);

    *n = 0;
    if (arrays->failed)
        return NULL;
    plait_number_messages(plan, first, first + plan->nrank, number);
    for (uint32_t k = 0; k < 2 * plan->nrank; k++) {
        const uint32_t count = first[k];
        first[k] = *n;
        *n += count;
    }
    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        if (s->peer >= 0)
            list[first[s->verb == PLAIT_STEP_SEND ? (uint32_t)s->peer : plan->nrank + s->peer] + number[i]] = i;
    }
    return list;
}

/*
 * Copy a plan so that each SEND also waits for the SEND PLAIT_WINDOW before it, whose window slot it reuses. NULL: out
 * of memory.
 */
static struct plait_plan *with_window(struct plait_scratch *arrays, const struct plait_plan *plan)
{
    const uint32_t *deps = plait_plan_deps(plan);
    struct plait_plan *p = plait_scratch(arrays, 1, plan->bytes + plan->nstep * sizeof *deps);
    uint32_t *before = plait_scratch(arrays, plan->nstep, sizeof *before), n;
    const uint32_t *list = list_messages(arrays, plan, &n);

    if (list == NULL)
        return NULL;
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
    return p;
}

/*
 * Merge two plans of a rank that have the same messages into one that waits for everything that either waits for. A
 * message is a step of both plans, done once. If the merged plan runs to the end, so does each of the two. NULL: the
 * messages differ, or out of memory.
 *
 * node  in: how each plan is fused, [x->nstep] and then [y->nstep]; out: how the merged plan is
 */
static struct plait_plan *merge(struct plait_scratch *arrays, const struct plait_plan *x, const struct plait_plan *y,
                                uint32_t *node)
{
    const uint32_t nstep = x->nstep + y->nstep, ndep = x->ndep + y->ndep;
    struct plait_plan *p = plait_scratch(arrays, 1, sizeof *p + nstep * sizeof *p->step + ndep * sizeof(uint32_t));
    uint32_t nx, ny;
    const uint32_t *in_x = list_messages(arrays, x, &nx), *in_y = list_messages(arrays, y, &ny);

    if (arrays->failed || nx != ny)
        return NULL;
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
    for (uint32_t k = 0; k < nx; k++) {
        const struct plait_step *a = &x->step[in_x[k]], *b = &y->step[in_y[k]];
        if (a->verb != b->verb || a->peer != b->peer || a->lane != b->lane || a->blk != b->blk || a->nblk != b->nblk)
            return NULL;
        node[plait_find_node(node, in_y[k] + x->nstep)] = plait_find_node(node, in_x[k]);
    }
    for (uint32_t i = 0; i < nstep; i++)
        node[i] = plait_find_node(node, i);
    return p;
}

/* The plan of all that a rank waits for, the window included. `other`: the rank's other plan, or NULL. */
static struct plait_plan *waits_of(struct plait_scratch *arrays, const struct plait_plan *plan,
                                   const struct plait_plan *other, uint32_t *node)
{
    struct plait_plan *own = with_window(arrays, plan), *second = other != NULL ? with_window(arrays, other) : NULL;

    return own != NULL && second != NULL ? merge(arrays, own, second, node) : own;
}

enum plait_status plait_prove_waits(struct plait_plan *const *plans, struct plait_plan *const *others,
                                    uint32_t *const *nodes, const char *spec, uint32_t nrank, bool *out)
{
    struct plait_scratch arrays = { 0 };
    struct plait_plan **waits = plait_scratch(&arrays, nrank, sizeof *waits);
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; !arrays.failed && status == PLAIT_OK && r < nrank; r++) {
        waits[r] = waits_of(&arrays, plans[r], others != NULL ? others[r] : NULL, nodes[r]);
        status = waits[r] != NULL ? PLAIT_OK : PLAIT_ERR_PLAN;
    }
    if (arrays.failed)
        status = plait_fail_memory("out of memory to bind a plan");
    else if (status == PLAIT_OK)
        status = plait_check_deadlock(spec, (const struct plait_plan *const *)waits, nrank,
                                      (const uint32_t *const *)nodes, NULL);
    plait_scratch_free(&arrays);
    *out = status == PLAIT_OK;
    return status == PLAIT_ERR_PLAN ? PLAIT_OK : status;
}
