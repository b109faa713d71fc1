/* SPDX-License-Identifier: BSD-3-Clause */
#include "random_plan.h"

#include "plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VALUES 128 /* of a segment, ever */
#define MOST_SLOTS  512 /* of TMP, of a rank */
#define MOST_CELLS  (2 * RANDOM_PLAN_RANKS + MOST_SLOTS)
#define MOST_SEGS   (RANDOM_PLAN_RANKS * RANDOM_PLAN_RANKS)

struct value { /* some blocks in a row, somewhere */
    uint32_t rank;
    struct plait_span at;
    uint32_t blk, nblk;
    uint32_t set; /* a bit for each contributor */
    bool alive;
};

struct segment { /* blocks that wander together */
    uint32_t blk, nblk;
    struct value value[MOST_VALUES];
    uint32_t nvalue;
    uint32_t need[RANDOM_PLAN_RANKS]; /* bit k: the rank has still to get block blk + k into OUT */
    bool whole;                       /* every value holds all contributions, or nothing is combined */
};

struct drawing {
    struct random_plan *p;
    uint64_t random;
    struct plait_geometry geometry[RANDOM_PLAN_RANKS];
    uint16_t used[RANDOM_PLAN_RANKS][MOST_CELLS]; /* live values in a slot of OUT, IN, TMP */
    struct segment seg[MOST_SEGS];
    uint32_t nseg, all; /* all: every rank's bit */
};

static uint32_t below(struct drawing *d, uint32_t n)
{
    return random_below(&d->random, n);
}

/* ---- Slots --------------------------------------------------------------------------------------- */

static uint16_t *cell(struct drawing *d, uint32_t rank, struct plait_span at, uint32_t k)
{
    const struct plait_geometry *g = &d->geometry[rank];
    uint32_t alias = UINT32_MAX;

    if (at.buf == PLAIT_TMP)
        return &d->used[rank][2 * RANDOM_PLAN_RANKS + at.slot + k];
    if (at.buf == PLAIT_IN && d->p->shape.inplace)
        alias = plait_side_slot(&g->out, g->in.blk + (at.slot + k) * g->in.stride);
    if (at.buf == PLAIT_IN && alias == UINT32_MAX)
        return &d->used[rank][RANDOM_PLAN_RANKS + at.slot + k];
    return &d->used[rank][alias != UINT32_MAX ? alias : at.slot + k];
}

static bool is_free(struct drawing *d, uint32_t rank, struct plait_span at, uint32_t nblk)
{
    for (uint32_t k = 0; k < nblk; k++)
        if (*cell(d, rank, at, k) > 0)
            return false;
    return true;
}

static void count_use(struct drawing *d, const struct value *v, int by)
{
    for (uint32_t k = 0; k < v->nblk; k++)
        *cell(d, v->rank, v->at, k) += (uint16_t)by;
}

static void kill_value(struct drawing *d, struct value *v)
{
    count_use(d, v, -1);
    v->alive = false;
}

/* Where OUT has these blocks in a row. */
static bool out_place(const struct drawing *d, uint32_t rank, uint32_t blk, uint32_t nblk, struct plait_span *at)
{
    const struct plait_side *out = &d->geometry[rank].out;
    const uint32_t slot = plait_side_slot(out, blk);

    if (slot == UINT32_MAX || slot + nblk > out->nslot || (nblk > 1 && out->stride != 1))
        return false;
    *at = plait_out(slot);
    return true;
}

/* Room for nblk blocks: any free place, most often one that was used before; TMP grows where there is none. */
static struct plait_span find_room(struct drawing *d, uint32_t rank, uint32_t blk, uint32_t nblk)
{
    struct plait_span out, places[MOST_SLOTS + 1];
    uint32_t n = 0, *ntmp = &d->p->ntmp[rank];

    for (uint32_t s = 0; s + nblk <= *ntmp; s++)
        if (is_free(d, rank, plait_tmp(s), nblk))
            places[n++] = plait_tmp(s);
    if (out_place(d, rank, blk, nblk, &out) && is_free(d, rank, out, nblk) && below(d, 3) == 0)
        return out;
    if (n > 0)
        return places[below(d, n)];
    if (*ntmp + nblk + 1 > MOST_SLOTS)
        abort();
    *ntmp += nblk + below(d, 2);
    return plait_tmp(*ntmp - nblk);
}

/* ---- Moves --------------------------------------------------------------------------------------- */

static void add_step(struct drawing *d, uint32_t rank, struct plait_step s)
{
    if (d->p->nstep[rank] == RANDOM_PLAN_STEPS)
        abort();
    d->p->step[rank][d->p->nstep[rank]++] = s;
}

static struct value *add_value(struct drawing *d, struct segment *s, struct value v)
{
    if (s->nvalue == MOST_VALUES)
        abort();
    v.alive = true;
    count_use(d, &v, 1);
    s->value[s->nvalue] = v;
    return &s->value[s->nvalue++];
}

static struct value *send_value(struct drawing *d, struct segment *s, const struct value *v, uint32_t to,
                                struct plait_span at)
{
    const uint8_t lane = (uint8_t)(below(d, 4) == 0 ? below(d, 3) : 0);

    add_step(
        d, v->rank,
        (struct plait_step){
            .verb = PLAIT_STEP_SEND, .lane = lane, .peer = (int32_t)to, .a = v->at, .blk = v->blk, .nblk = v->nblk });
    add_step(d, to,
             (struct plait_step){ .verb = PLAIT_STEP_RECV,
                                  .lane = lane,
                                  .peer = (int32_t)v->rank,
                                  .dst = at,
                                  .blk = v->blk,
                                  .nblk = v->nblk });
    return add_value(d, s, (struct value){ to, at, v->blk, v->nblk, v->set, true });
}

static struct value *copy_value(struct drawing *d, struct segment *s, const struct value *v, struct plait_span at)
{
    add_step(d, v->rank,
             (struct plait_step){
                 .verb = PLAIT_STEP_COPY, .peer = -1, .dst = at, .a = v->at, .blk = v->blk, .nblk = v->nblk });
    return add_value(d, s, (struct value){ v->rank, at, v->blk, v->nblk, v->set, true });
}

/* x and y become one, where one of them lies or elsewhere. */
static struct value *reduce_values(struct drawing *d, struct segment *s, struct value *x, struct value *y)
{
    struct plait_span at = find_room(d, x->rank, x->blk, x->nblk), out;
    const uint32_t how = below(d, 4);

    if (how < 2) {
        const struct value *v = how == 0 ? x : y;
        if (v->at.buf == PLAIT_TMP)
            at = v->at;
        else if (out_place(d, v->rank, v->blk, v->nblk, &out) && cell(d, v->rank, out, 0) == cell(d, v->rank, v->at, 0))
            at = out;
    }
    add_step(
        d, x->rank,
        (struct plait_step){
            .verb = PLAIT_STEP_REDUCE, .peer = -1, .dst = at, .a = x->at, .b = y->at, .blk = x->blk, .nblk = x->nblk });
    const struct value sum = { x->rank, at, x->blk, x->nblk, x->set | y->set, true };
    kill_value(d, x);
    kill_value(d, y);
    return add_value(d, s, sum);
}

/* ---- Combining ----------------------------------------------------------------------------------- */

/* That has block blk. */
static struct value *any_value_of(struct drawing *d, struct segment *s, uint32_t blk)
{
    const uint32_t first = below(d, s->nvalue);

    for (uint32_t k = 0; k < s->nvalue; k++) {
        struct value *v = &s->value[(first + k) % s->nvalue];
        if (v->alive && blk - v->blk < v->nblk)
            return v;
    }
    abort();
}

static struct value *any_value(struct drawing *d, struct segment *s)
{
    return any_value_of(d, s, s->blk + below(d, s->nblk));
}

static struct value *other_at(struct drawing *d, struct segment *s, const struct value *v)
{
    const uint32_t first = below(d, s->nvalue);

    for (uint32_t k = 0; k < s->nvalue; k++) {
        struct value *w = &s->value[(first + k) % s->nvalue];
        if (w != v && w->alive && w->rank == v->rank)
            return w;
    }
    return NULL;
}

/* Two ranks swap what they have and both combine it, in one order; the first goes on with it. */
static struct value *exchange(struct drawing *d, struct segment *s, struct value *x, struct value *y)
{
    struct value *x2 = send_value(d, s, x, y->rank, find_room(d, y->rank, x->blk, x->nblk));
    struct value *y2 = send_value(d, s, y, x->rank, find_room(d, x->rank, x->blk, x->nblk));
    struct value *sum = reduce_values(d, s, x, y2), *twin = reduce_values(d, s, x2, y);

    if (sum->set != d->all || below(d, 2) == 0)
        kill_value(d, twin);
    return sum;
}

/* One move more. */
static void combine_some(struct drawing *d, struct segment *s)
{
    struct value *v = any_value(d, s), *w = other_at(d, s, v), *last = v;

    if (w != NULL && below(d, 4) > 0) {
        last = reduce_values(d, s, v, w);
    } else {
        const struct value *where = any_value(d, s);
        const uint32_t to = below(d, 8) == 0 ? below(d, d->p->shape.nrank) : where->rank;
        if (to != v->rank && where->rank == to && below(d, 5) == 0 && other_at(d, s, where) == NULL && w == NULL) {
            last = exchange(d, s, v, (struct value *)(uintptr_t)where);
        } else if (to != v->rank) {
            send_value(d, s, v, to, find_room(d, to, v->blk, v->nblk));
            kill_value(d, v);
        }
    }
    s->whole = last->alive && last->set == d->all;
}

/* ---- Delivering ---------------------------------------------------------------------------------- */

/* Part of a value: what may be read of it by itself. */
static struct value part_of(const struct value *v, uint32_t blk, uint32_t nblk)
{
    struct value part = *v;

    part.at.slot = (v->at.slot + (blk - v->blk)) & 0x3fffffff;
    part.blk = blk;
    part.nblk = nblk;
    return part;
}

/* Blocks in OUT at last: they stay there. */
static void deliver(struct drawing *d, struct segment *s, uint32_t rank, uint32_t blk, uint32_t nblk)
{
    const struct value part = part_of(any_value_of(d, s, blk), blk, nblk);
    struct plait_span out;

    if (!out_place(d, rank, blk, nblk, &out))
        abort();
    const bool there = part.rank == rank && part.at.buf == PLAIT_OUT;
    const bool same = part.rank == rank && cell(d, rank, part.at, 0) == cell(d, rank, out, 0);
    if (!there && !same && !is_free(d, rank, out, nblk))
        return; /* what lies there is still needed: another time */
    if (there)
        add_value(d, s, part); /* a live value: nothing is written over it */
    else if (part.rank == rank)
        copy_value(d, s, &part, out);
    else
        send_value(d, s, &part, rank, out);
    for (uint32_t k = 0; k < nblk; k++)
        s->need[rank] &= ~(1u << (blk - s->blk + k));
}

static void deliver_some(struct drawing *d, struct segment *s)
{
    const bool vector = d->geometry[0].kind == PLAIT_KIND_VECTOR;
    const uint32_t nrank = d->p->shape.nrank, first = below(d, nrank);

    if (below(d, 3) == 0 && s->nvalue < MOST_VALUES / 2) { /* a holder more */
        const struct value v = *any_value(d, s);
        const uint32_t to = below(d, nrank);
        if (to != v.rank)
            send_value(d, s, &v, to, find_room(d, to, v.blk, v.nblk));
        else if (below(d, 2))
            copy_value(d, s, &v, find_room(d, to, v.blk, v.nblk));
        return;
    }
    for (uint32_t k = 0; k < nrank; k++) {
        const uint32_t r = (first + k) % nrank;
        if (s->need[r] == 0)
            continue;
        uint32_t bit = below(d, s->nblk);
        while (!(s->need[r] >> bit & 1))
            bit = (bit + 1) % s->nblk;
        if (vector)
            deliver(d, s, r, s->blk, s->nblk);
        else
            deliver(d, s, r, s->blk + bit, 1);
        return;
    }
}

/* ---- The whole ----------------------------------------------------------------------------------- */

static void begin_segment(struct drawing *d, uint32_t blk, uint32_t nblk)
{
    const struct plait_shape *shape = &d->p->shape;
    const bool combines = d->geometry[0].combines;
    struct segment *s = &d->seg[d->nseg++];

    *s = (struct segment){ .blk = blk, .nblk = nblk, .whole = !combines || shape->nrank == 1 };
    for (uint32_t r = 0; r < shape->nrank; r++) {
        const struct plait_geometry *g = &d->geometry[r];
        for (uint32_t k = 0; k < nblk; k++)
            s->need[r] |= (uint32_t)(plait_side_slot(&g->out, blk + k) != UINT32_MAX) << k;
        if (combines || r == plait_block_source(shape->coll, shape->nrank, shape->root, blk))
            add_value(d, s,
                      (struct value){ r, plait_in(plait_side_slot(&g->in, blk)), blk, nblk, combines ? 1u << r : d->all,
                                      true });
    }
}

static bool is_done(const struct drawing *d, const struct segment *s)
{
    for (uint32_t r = 0; r < d->p->shape.nrank; r++)
        if (s->need[r] != 0)
            return false;
    return s->whole;
}

/* Its values need not live on, but those in OUT do. */
static void end_segment(struct drawing *d, struct segment *s)
{
    for (uint32_t i = 0; i < s->nvalue; i++)
        if (s->value[i].alive && s->value[i].at.buf == PLAIT_TMP)
            kill_value(d, &s->value[i]);
}

static void cut(struct drawing *d)
{
    const struct plait_shape *s = &d->p->shape;

    for (uint32_t blk = 0, n; blk < d->p->nblk; blk += n) {
        const uint32_t want = 1 + below(d, 3);
        for (n = 1; n < want && blk + n < d->p->nblk; n++)
            if (!d->geometry[0].combines && plait_block_source(s->coll, s->nrank, s->root, blk + n) !=
                                                plait_block_source(s->coll, s->nrank, s->root, blk))
                break;
        begin_segment(d, blk, n);
    }
}

void random_plan_emit(struct plait_builder *b, const struct plait_step *step, uint32_t nstep, uint32_t nblk,
                      uint32_t ntmp)
{
    plait_blocks(b, nblk, ntmp);
    for (uint32_t i = 0; i < nstep; i++) {
        const struct plait_step *s = &step[i];
        plait_lane(b, s->lane);
        if (s->verb == PLAIT_STEP_SEND)
            plait_emit_send(b, (uint32_t)s->peer, s->a, s->blk, s->nblk);
        else if (s->verb == PLAIT_STEP_RECV)
            plait_emit_recv(b, (uint32_t)s->peer, s->dst, s->blk, s->nblk);
        else if (s->verb == PLAIT_STEP_COPY)
            plait_emit_copy(b, s->dst, s->a, s->blk, s->nblk);
        else
            plait_emit_reduce(b, s->dst, s->a, s->b, s->blk, s->nblk);
    }
}

static bool applies(const struct plait_alg *self, const struct plait_shape *shape)
{
    const struct random_plan *p = self->preset;
    return shape->nrank == p->shape.nrank && shape->root == p->shape.root;
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape, uint32_t rank)
{
    const struct random_plan *p = self->preset;

    (void)shape;
    random_plan_emit(b, p->step[rank], p->nstep[rank], p->nblk, p->ntmp[rank]);
}

/* Its figures are its claim: they differ for a root that works in place, where a copy less is made. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *shape)
{
    struct plans plans = plans_emit(self, shape);
    struct plait_report report;

    if (plait_plan_check(self->name, shape, CONST_PLANS(&plans), NULL, &report) != PLAIT_OK) /* it is refused anyway */
        report.seen = (struct plait_claim){ .nblk = plans.plan[0]->nblk };
    plans_free(&plans);
    return report.seen;
}

/* More than a window of messages from one rank to another follow each other on one lane: see struct plait_plan. */
static void straighten_lanes(struct random_plan *p)
{
    for (uint32_t r = 0; r < p->shape.nrank; r++)
        for (uint32_t i = 0; i < p->nstep[r]; i++) {
            uint32_t n = 0;
            for (uint32_t k = 0; k < p->nstep[r]; k++)
                n += p->step[r][k].verb == p->step[r][i].verb && p->step[r][k].peer == p->step[r][i].peer;
            if (n > 16)
                p->step[r][i].lane = 0;
        }
}

void random_plan_begin(struct random_plan *p, const struct plait_shape *shape, const char *name, uint32_t nblk)
{
    memset(p, 0, sizeof *p);
    p->shape = *shape;
    p->nblk = nblk;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->alg = (struct plait_alg){ .name = p->name,
                                 .coll = shape->coll,
                                 .params = "",
                                 .text = "",
                                 .source = "",
                                 .preset = p,
                                 .applies = applies,
                                 .emit = emit,
                                 .claim = claim };
}

void random_plan_draw(struct random_plan *p, uint32_t nrank, uint64_t seed)
{
    struct drawing *d = calloc(1, sizeof *d);
    char name[sizeof p->name];

    if (d == NULL || nrank > RANDOM_PLAN_RANKS)
        abort();
    *d = (struct drawing){ .p = p, .random = seed, .all = (1u << nrank) - 1 };
    struct plait_shape shape = { .coll = (enum plait_coll)below(d, PLAIT_NCOLL), .nrank = nrank };
    if (shape.coll == PLAIT_BARRIER || below(d, 3) == 0)
        shape.coll = below(d, 2) ? PLAIT_ALLREDUCE : PLAIT_REDUCE;
    if (plait_geometry_of(shape.coll, nrank, 0, 0, 1).rooted)
        shape.root = below(d, nrank);
    shape.inplace = shape.coll != PLAIT_ALLTOALL && below(d, 2);
    const uint32_t nblk = plait_block_count(shape.coll, nrank);
    snprintf(name, sizeof name, "random%llu", (unsigned long long)seed);
    random_plan_begin(p, &shape, name, nblk > 0 ? nblk : 1 + below(d, 6));
    for (uint32_t r = 0; r < nrank; r++) {
        d->geometry[r] = plait_geometry_of(p->shape.coll, nrank, p->shape.root, r, p->nblk);
        p->ntmp[r] = 1 + below(d, 6);
    }
    cut(d);
    for (uint32_t left = d->nseg; left > 0;) {
        struct segment *s = &d->seg[below(d, d->nseg)];
        if (s->nblk == 0)
            continue; /* done */
        if (s->whole)
            deliver_some(d, s);
        else
            combine_some(d, s);
        if (is_done(d, s)) {
            end_segment(d, s);
            s->nblk = 0;
            left--;
        }
    }
    free(d);
    straighten_lanes(p);
}
