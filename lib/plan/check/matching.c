/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: the k-th SEND from s to r on a lane belongs to the k-th RECV at r from s on that lane.
 *
 * All SENDs and all RECVs are sorted by (receiver, sender, lane, place in the array). Then the two lists must be equal,
 * element by element.
 */
#include "check.h"

#include <stdlib.h>

struct end { /* one end of a message */
    uint32_t to, from, lane, number;
};

static int compare_ends(const struct end *x, const struct end *y)
{
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

static int in_order(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    const int order = compare_ends(x, y);

    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* Collects the ends of all messages on one side (SEND or RECV), in array order. Returns their number. */
static uint32_t collect(const struct plait_checker *c, enum plait_verb verb, struct end *ends)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->nrank; r++) {
        const struct plait_plan *p = c->plans[r];
        for (uint32_t i = 0; i < p->nstep; i++) {
            const struct plait_step *s = &p->step[i];
            const uint32_t peer = (uint32_t)s->peer, number = c->graph.first[r] + i;
            if (s->verb == verb)
                ends[n++] = verb == PLAIT_STEP_SEND ? (struct end){ peer, r, s->lane, number }
                                                    : (struct end){ r, peer, s->lane, number };
        }
    }
    return n;
}

static enum plait_status lonely(struct plait_checker *c, const struct end *e, bool send)
{
    return plait_check_fail(c, PLAIT_CHECK_MATCHING, "rank %u step %u %s %s %s rank %u on lane %u, which %s",
                            send ? e->from : e->to, plait_graph_index(&c->graph, e->number),
                            send ? "sends" : "receives", plait_block_text(plait_graph_step(c, e->number)).s,
                            send ? "to" : "from", send ? e->to : e->from, e->lane,
                            send ? "has no receive for it" : "does not send it");
}

static enum plait_status pair_up(struct plait_checker *c, const struct end *sends, uint32_t nsend,
                                 const struct end *recvs, uint32_t nrecv)
{
    struct plait_graph *g = &c->graph;

    for (uint32_t i = 0; i < nsend || i < nrecv; i++) {
        const int order = i == nsend ? 1 : i == nrecv ? -1 : compare_ends(&sends[i], &recvs[i]);
        if (order < 0)
            return lonely(c, &sends[i], true);
        if (order > 0)
            return lonely(c, &recvs[i], false);
        const uint32_t from = sends[i].number, to = recvs[i].number;
        const struct plait_step *s = plait_graph_step(c, from), *r = plait_graph_step(c, to);
        if (s->blk != r->blk || s->nblk != r->nblk)
            return plait_check_fail(c, PLAIT_CHECK_MATCHING,
                                    "rank %u step %u sends %u block%s from %s, but rank %u step %u receives %u from %s",
                                    sends[i].from, plait_graph_index(g, from), s->nblk, s->nblk == 1 ? "" : "s",
                                    plait_block_text(s).s, sends[i].to, plait_graph_index(g, to), r->nblk,
                                    plait_block_text(r).s);
        g->pair[from] = to;
        g->pair[to] = from;
        const struct end *before = c->window > 0 && i >= c->window ? &sends[i - c->window] : NULL;
        if (before != NULL && before->to == sends[i].to && before->from == sends[i].from)
            g->slot[from] = before->number;
    }
    return PLAIT_OK;
}

enum plait_status plait_check_matching(struct plait_checker *c)
{
    struct plait_scratch arrays = { 0 };
    struct end *sends = plait_scratch(&arrays, c->graph.nstep, sizeof *sends);
    struct end *recvs = plait_scratch(&arrays, c->graph.nstep, sizeof *recvs);
    enum plait_status status;

    if (arrays.failed) {
        status = plait_check_nomem(c);
    } else {
        const uint32_t nsend = collect(c, PLAIT_STEP_SEND, sends), nrecv = collect(c, PLAIT_STEP_RECV, recvs);
        qsort(sends, nsend, sizeof *sends, in_order);
        qsort(recvs, nrecv, sizeof *recvs, in_order);
        status = pair_up(c, sends, nsend, recvs, nrecv);
    }
    plait_scratch_free(&arrays);
    return status;
}
