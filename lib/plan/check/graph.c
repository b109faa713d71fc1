/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The graph of all ranks' steps and the deadlock check, which is Kahn's algorithm (topological sort) over this graph.
 *
 * Steps that run together are one node: a SEND with its RECV, and the steps that the engine fuses. A node waits for the
 * dependencies of all its steps. A dependency inside one fused step does not count. Any other dependency between two
 * steps of a node makes the node wait for itself, so it never starts.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

enum plait_status plait_graph_init(struct plait_checker *c)
{
    struct plait_graph *g = &c->graph;
    uint64_t nstep = 0, ndep = 0;

    for (uint32_t r = 0; r < c->nrank; r++) {
        nstep += c->plans[r]->nstep;
        ndep += c->plans[r]->ndep;
    }
    if (nstep >= UINT32_MAX / 2 || ndep >= UINT32_MAX / 2)
        return plait_check_nomem(c);
    g->nstep = (uint32_t)nstep;
    g->first = plait_scratch(&g->arrays, (size_t)c->nrank + 1, sizeof *g->first);
    g->rank = plait_scratch(&g->arrays, nstep, sizeof *g->rank);
    g->pair = plait_scratch(&g->arrays, nstep, sizeof *g->pair);
    g->slot = plait_scratch(&g->arrays, nstep, sizeof *g->slot);
    g->node = plait_scratch(&g->arrays, nstep, sizeof *g->node);
    g->mate = plait_scratch(&g->arrays, nstep, sizeof *g->mate);
    g->pending = plait_scratch(&g->arrays, nstep, sizeof *g->pending);
    g->order = plait_scratch(&g->arrays, nstep, sizeof *g->order);
    g->succ0 = plait_scratch(&g->arrays, nstep + 2, sizeof *g->succ0);
    g->succ = plait_scratch(&g->arrays, ndep + nstep, sizeof *g->succ);
    if (g->arrays.failed)
        return plait_check_nomem(c);
    for (uint32_t r = 0; r < c->nrank; r++) {
        g->first[r + 1] = g->first[r] + c->plans[r]->nstep;
        for (uint32_t n = g->first[r]; n < g->first[r + 1]; n++) {
            g->rank[n] = r;
            g->pair[n] = g->slot[n] = PLAIT_NONE;
        }
    }
    return PLAIT_OK;
}

/* Inverts the dependencies, and those on a slot of the window: for each step, its successors in ascending order. */
static void fill_successors(struct plait_checker *c)
{
    struct plait_graph *g = &c->graph;
    uint32_t *end = g->succ0 + 1; /* counting sort: filling moves each count down to its start */

    for (uint32_t r = 0; r < c->nrank; r++) {
        const uint32_t *deps = plait_plan_deps(c->plans[r]);
        for (uint32_t d = 0; d < c->plans[r]->ndep; d++)
            end[g->first[r] + deps[d] + 1]++;
    }
    for (uint32_t n = 0; n < g->nstep; n++)
        if (g->slot[n] != PLAIT_NONE)
            end[g->slot[n] + 1]++;
    for (uint32_t i = 0; i < g->nstep; i++)
        end[i + 1] += end[i];
    for (uint32_t r = 0; r < c->nrank; r++) {
        const struct plait_plan *p = c->plans[r];
        const uint32_t *deps = plait_plan_deps(p);
        for (uint32_t i = 0; i < p->nstep; i++) {
            const uint32_t n = g->first[r] + i;
            for (uint32_t d = p->step[i].dep0; d < p->step[i].dep0 + p->step[i].ndep; d++)
                g->succ[end[g->first[r] + deps[d]]++] = n;
            if (g->slot[n] != PLAIT_NONE)
                g->succ[end[g->slot[n]]++] = n;
        }
    }
}

static void join(struct plait_graph *g, uint32_t x, uint32_t y)
{
    const uint32_t a = plait_find_node(g->node, x), b = plait_find_node(g->node, y), mate = g->mate[x];

    if (a == b)
        return;
    g->node[a < b ? b : a] = a < b ? a : b;
    g->mate[x] = g->mate[y]; /* swapping two links joins two circular lists */
    g->mate[y] = mate;
}

static void fill_nodes(struct plait_checker *c, const uint32_t *const *fused)
{
    struct plait_graph *g = &c->graph;

    for (uint32_t n = 0; n < g->nstep; n++)
        g->node[n] = g->mate[n] = n;
    for (uint32_t n = 0; n < g->nstep; n++)
        if (g->pair[n] != PLAIT_NONE && n < g->pair[n])
            join(g, n, g->pair[n]);
    for (uint32_t r = 0; fused != NULL && r < c->nrank; r++) {
        uint32_t *last = g->pending; /* last step with this fused number; borrows `pending`, not yet in use */
        for (uint32_t i = 0; i < c->plans[r]->nstep; i++)
            last[i] = PLAIT_NONE;
        for (uint32_t i = 0; i < c->plans[r]->nstep; i++) {
            if (last[fused[r][i]] != PLAIT_NONE)
                join(g, g->first[r] + last[fused[r][i]], g->first[r] + i);
            last[fused[r][i]] = i;
        }
    }
    for (uint32_t n = 0; n < g->nstep; n++)
        g->node[n] = plait_find_node(g->node, n);
}

/* Are `from` and `to`, steps of the same rank, in one fused step? */
static bool inside(const struct plait_graph *g, const uint32_t *const *fused, uint32_t from, uint32_t to)
{
    const uint32_t r = g->rank[from];

    return fused != NULL && fused[r][from - g->first[r]] == fused[r][to - g->first[r]];
}

static void count_pending(struct plait_graph *g, const uint32_t *const *fused)
{
    for (uint32_t n = 0; n < g->nstep; n++)
        g->pending[n] = 0;
    for (uint32_t n = 0; n < g->nstep; n++)
        for (uint32_t s = g->succ0[n]; s < g->succ0[n + 1]; s++)
            g->pending[g->node[g->succ[s]]] += !inside(g, fused, n, g->succ[s]);
}

/* Kahn's algorithm: `order` gets every node that can run. pending stays above 0 for those that cannot. */
static void sort_nodes(struct plait_graph *g, const uint32_t *const *fused)
{
    uint32_t end = 0;

    g->nnode = 0;
    for (uint32_t n = 0; n < g->nstep; n++) {
        g->nnode += g->node[n] == n;
        if (g->node[n] == n && g->pending[n] == 0)
            g->order[end++] = n;
    }
    for (uint32_t at = 0; at < end; at++) {
        uint32_t n = g->order[at];
        do {
            for (uint32_t s = g->succ0[n]; s < g->succ0[n + 1]; s++) {
                const uint32_t to = g->succ[s];
                if (!inside(g, fused, n, to) && --g->pending[g->node[to]] == 0)
                    g->order[end++] = g->node[to];
            }
            n = g->mate[n];
        } while (n != g->order[at]);
    }
}

/* Returns a step of this stuck node that depends on a stuck node; *on gets the dependency. */
static uint32_t waiting_step(struct plait_checker *c, const uint32_t *const *fused, uint32_t node, uint32_t *on)
{
    struct plait_graph *g = &c->graph;
    uint32_t n = node;

    do {
        const struct plait_plan *p = c->plans[g->rank[n]];
        const struct plait_step *s = plait_graph_step(c, n);
        for (uint32_t d = s->dep0; d < s->dep0 + s->ndep; d++) {
            *on = g->first[p->rank] + plait_plan_deps(p)[d];
            if (!inside(g, fused, *on, n) && g->pending[g->node[*on]] > 0)
                return n;
        }
        *on = g->slot[n];
        if (*on != PLAIT_NONE && g->pending[g->node[*on]] > 0)
            return n;
        n = g->mate[n];
    } while (n != node);
    return PLAIT_NONE;
}

/* Follows dependencies from a stuck node until a node repeats, then reports that cycle. */
static enum plait_status tell_circle(struct plait_checker *c, const uint32_t *const *fused)
{
    struct plait_graph *g = &c->graph;
    char circle[256] = "";
    uint32_t node = 0, on = 0, length = 0;

    while (g->node[node] != node || g->pending[node] == 0)
        node++;
    uint32_t *seen = g->order; /* `order` is no longer needed */
    for (uint32_t n = 0; n < g->nstep; n++)
        seen[n] = 0;
    while (!seen[node]) {
        seen[node] = 1;
        waiting_step(c, fused, node, &on);
        node = g->node[on];
    }
    const uint32_t start = waiting_step(c, fused, node, &on);
    for (uint32_t n = start; length == 0 || g->node[n] != g->node[start]; length++) {
        const size_t used = strlen(circle);
        waiting_step(c, fused, g->node[n], &on);
        if (length < 5)
            snprintf(circle + used, sizeof circle - used, "%s rank %u step %u", length == 0 ? "" : ",", g->rank[on],
                     plait_graph_index(g, on));
        n = on;
    }
    const struct plait_step *s = plait_graph_step(c, start);
    return plait_check_fail(c, PLAIT_CHECK_DEADLOCK, "rank %u step %u (%s %s) waits for itself, through%s%s",
                            g->rank[start], plait_graph_index(g, start), plait_verb_names[s->verb],
                            plait_block_text(s).s, circle, length > 5 ? ", ..." : "");
}

enum plait_status plait_check_order(struct plait_checker *c, const uint32_t *const *fused)
{
    struct plait_graph *g = &c->graph;

    fill_successors(c);
    fill_nodes(c, fused);
    count_pending(g, fused);
    sort_nodes(g, fused);
    for (uint32_t n = 0; n < g->nstep; n++)
        if (g->pending[n] > 0)
            return tell_circle(c, fused);
    return PLAIT_OK;
}
