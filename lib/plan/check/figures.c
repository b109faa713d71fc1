/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of the plans, for comparison with the algorithm's claim.
 *
 * Depth is the largest number of messages on a path of the graph. Rounds are those of a greedy one-port schedule. In
 * each round, every rank, from rank 0 on, starts at most one send: its first in array order that can start. A send can
 * start when all dependencies of the SEND and its RECV were done before the round and the receiver is still free in
 * this round. COPY and REDUCE take no time.
 */
#include "check.h"

/* depth: [nstep] zeroed */
static uint64_t find_depth(const struct plait_graph *g, uint32_t *depth)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < g->nnode; i++) {
        const uint32_t node = g->order[i], end = depth[node] + (g->pair[node] != PLAIT_NONE);
        uint32_t n = node;
        most = end > most ? end : most;
        do {
            for (uint32_t s = g->succ0[n]; s < g->succ0[n + 1]; s++) {
                uint32_t *d = &depth[g->node[g->succ[s]]];
                *d = end > *d ? end : *d;
            }
            n = g->mate[n];
        } while (n != node);
    }
    return most;
}

struct port {        /* one per rank */
    uint32_t nready; /* sends that can start */
    uint32_t low;    /* steps before this one are no ready sends */
    uint64_t taken;  /* last round in which the rank receives */
};

struct schedule {
    const struct plait_checker *c;
    struct plait_graph *g;
    struct port *port; /* [nrank] */
    bool *ready;       /* [nstep] sends that can start */
    uint32_t *done;    /* nodes that are done and whose successors still count them as pending */
    uint32_t ndone;
    uint32_t nmessage; /* messages not started yet */
};

/* All dependencies of the node are done. A message becomes ready for a round; any other node is done immediately. */
static void make_ready(struct schedule *s, uint32_t node)
{
    const struct plait_graph *g = s->g;

    if (g->pair[node] == PLAIT_NONE) {
        s->done[s->ndone++] = node;
        return;
    }
    const uint32_t send = plait_graph_step(s->c, node)->verb == PLAIT_STEP_SEND ? node : g->pair[node];
    const uint32_t i = plait_graph_index(g, send);
    struct port *p = &s->port[g->rank[send]];
    s->ready[send] = true;
    if (p->nready++ == 0 || i < p->low)
        p->low = i;
}

static void tell_successors(struct schedule *s)
{
    struct plait_graph *g = s->g;

    while (s->ndone > 0) {
        const uint32_t node = s->done[--s->ndone];
        uint32_t n = node;
        do {
            for (uint32_t i = g->succ0[n]; i < g->succ0[n + 1]; i++)
                if (--g->pending[g->node[g->succ[i]]] == 0)
                    make_ready(s, g->node[g->succ[i]]);
            n = g->mate[n];
        } while (n != node);
    }
}

/* Starts the first send of this rank whose receiver is free in this round, if any. */
static void start_send(struct schedule *s, uint32_t rank, uint64_t round)
{
    struct port *p = &s->port[rank];
    uint32_t left = p->nready;

    for (uint32_t i = p->low; left > 0; i++) {
        const uint32_t send = s->g->first[rank] + i;
        struct port *to = s->ready[send] ? &s->port[s->g->rank[s->g->pair[send]]] : NULL;
        if (to != NULL && to->taken < round) {
            to->taken = round;
            s->ready[send] = false;
            p->nready--;
            s->nmessage--;
            s->done[s->ndone++] = s->g->node[send];
            return;
        }
        left -= to != NULL;
        p->low += to == NULL && i == p->low;
    }
}

/* pending[] is all 0 after the deadlock check. */
static void count_messages(struct schedule *s)
{
    struct plait_graph *g = s->g;

    for (uint32_t n = 0; n < g->nstep; n++) {
        g->pending[g->node[n]] += plait_graph_step(s->c, n)->ndep;
        s->nmessage += plait_graph_step(s->c, n)->verb == PLAIT_STEP_SEND;
    }
    for (uint32_t i = 0; i < g->nnode; i++)
        if (g->pending[g->order[i]] == 0)
            make_ready(s, g->order[i]);
}

static uint64_t run_rounds(struct schedule *s)
{
    uint64_t round = 0;

    count_messages(s);
    tell_successors(s);
    while (s->nmessage > 0) {
        round++;
        for (uint32_t r = 0; r < s->c->nrank; r++)
            start_send(s, r, round);
        tell_successors(s);
    }
    return round;
}

static enum plait_status find_depth_and_rounds(struct plait_checker *c, struct plait_claim *seen)
{
    struct plait_scratch arrays = { 0 };
    struct schedule s = { .c = c, .g = &c->graph, .port = plait_scratch(&arrays, c->nrank, sizeof *s.port) };
    uint32_t *depth = plait_scratch(&arrays, c->graph.nstep, sizeof *depth); /* per node: messages before it */

    s.ready = plait_scratch(&arrays, c->graph.nstep, sizeof *s.ready);
    s.done = plait_scratch(&arrays, c->graph.nstep, sizeof *s.done);
    if (!arrays.failed) {
        seen->depth = find_depth(&c->graph, depth);
        seen->rounds = run_rounds(&s);
    }
    plait_scratch_free(&arrays);
    return arrays.failed ? plait_check_nomem(c) : PLAIT_OK;
}

enum plait_status plait_check_figures(struct plait_checker *c)
{
    struct plait_claim *seen = &c->report->seen;

    *seen = (struct plait_claim){ .nblk = c->plans[0]->nblk, .rounds_exact = true };
    c->report->sliceable = true;
    for (uint32_t r = 0; r < c->nrank; r++) {
        uint64_t sent = 0, received = 0;
        c->report->sliceable &= plait_plan_sliceable(c->plans[r]);
        for (uint32_t i = 0; i < c->plans[r]->nstep; i++) {
            const struct plait_step *s = &c->plans[r]->step[i];
            sent += s->verb == PLAIT_STEP_SEND ? s->nblk : 0;
            received += s->verb == PLAIT_STEP_RECV ? s->nblk : 0;
        }
        seen->sent = sent > seen->sent ? sent : seen->sent;
        seen->received = received > seen->received ? received : seen->received;
    }
    return find_depth_and_rounds(c, seen);
}
