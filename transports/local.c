/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The oracle is written to be obviously right, not fast. It searches for partners and successors. It checks every field
 * before use, so that tests may give it wrong plans.
 */
#include "local.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct rank {
    const struct plait_plan *plan;
    struct plait_geometry geometry;
    uint32_t *pending; /* [nstep] dependencies that are not done */
    uint32_t *partner; /* [nstep] step of the peer at the other end of the message, or NONE */
    unsigned char *in, *out, *tmp;
};

struct event { /* a step that can run; for a message, the SEND */
    uint32_t rank, step;
};

struct local {
    const struct plait_local_job *job;
    struct rank *ranks;
    struct event *ready;
    uint32_t nready;
    uint64_t ndone, nstep;
    uint64_t random;
    enum plait_status status;
};

static uint32_t random_below(struct local *l, uint32_t n)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return (uint32_t)((l->random >> 32) * n >> 32);
}

static bool equal_blocks(const struct local *l)
{
    return l->ranks[0].geometry.kind != PLAIT_KIND_VECTOR;
}

/* Where block `blk` of a vector starts; with blocks of equal size, where slot `blk` starts. */
static size_t start_of(const struct local *l, uint32_t blk)
{
    return equal_blocks(l) ? blk * l->job->count : plait_block_start(l->job->count, l->ranks[0].plan->nblk, blk);
}

static size_t step_bytes(const struct local *l, const struct plait_step *s)
{
    if (equal_blocks(l))
        return s->nblk * l->job->count * l->job->size;
    return (start_of(l, s->blk + s->nblk) - start_of(l, s->blk)) * l->job->size;
}

static size_t largest_block(const struct local *l)
{
    return start_of(l, 1) * l->job->size; /* the first blocks have the extra elements */
}

/* Where a span starts, or NULL when it or its bytes are outside the buffer. */
static unsigned char *address(const struct local *l, const struct rank *r, struct plait_span s,
                              const struct plait_step *step)
{
    const size_t bytes = step_bytes(l, step);
    const uint64_t end = (uint64_t)s.slot + step->nblk;

    if (s.buf == PLAIT_TMP)
        return end <= r->plan->ntmp ? r->tmp + s.slot * largest_block(l) : NULL;
    const uint32_t nslot = s.buf == PLAIT_IN ? r->geometry.in.nslot : r->geometry.out.nslot;
    const size_t start = end <= nslot ? start_of(l, s.slot) * l->job->size : 0;
    if (s.buf > PLAIT_TMP || end > nslot || start + bytes > start_of(l, nslot) * l->job->size)
        return NULL;
    return (s.buf == PLAIT_IN ? r->in : r->out) + start;
}

static bool step_fits(const struct local *l, const struct rank *r, uint32_t i)
{
    const struct plait_plan *p = r->plan;
    const struct plait_step *s = &p->step[i];

    if (s->blk == PLAIT_AS_LIES ? !equal_blocks(l) : (uint64_t)s->blk + s->nblk > p->nblk)
        return false;
    if (s->verb >= PLAIT_NVERB || s->nblk == 0 || (uint64_t)s->dep0 + s->ndep > p->ndep)
        return false;
    for (uint32_t d = 0; d < s->ndep; d++)
        if (plait_plan_deps(p)[s->dep0 + d] >= i)
            return false;
    const bool message = s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV;
    if (message && (s->peer < 0 || (uint32_t)s->peer >= p->nrank))
        return false;
    return (s->verb == PLAIT_STEP_RECV || address(l, r, s->a, s) != NULL) &&
           (s->verb == PLAIT_STEP_SEND || (s->dst.buf != PLAIT_IN && address(l, r, s->dst, s) != NULL)) &&
           (s->verb != PLAIT_STEP_REDUCE || address(l, r, s->b, s) != NULL);
}

/* The k-th step of `r` with this verb, peer and lane, or NONE. */
static uint32_t find_step(const struct plait_plan *p, enum plait_verb verb, uint32_t peer, uint32_t lane, uint32_t k)
{
    for (uint32_t i = 0; i < p->nstep; i++) {
        const struct plait_step *s = &p->step[i];
        if (s->verb == verb && (uint32_t)s->peer == peer && s->lane == lane && k-- == 0)
            return i;
    }
    return NONE;
}

static void find_partner(struct local *l, uint32_t rank, uint32_t i)
{
    const struct plait_plan *p = l->ranks[rank].plan;
    const struct plait_step *s = &p->step[i];
    uint32_t k = 0;

    l->ranks[rank].partner[i] = NONE;
    if (s->verb != PLAIT_STEP_SEND && s->verb != PLAIT_STEP_RECV)
        return;
    for (uint32_t j = 0; j < i; j++)
        k += p->step[j].verb == s->verb && p->step[j].peer == s->peer && p->step[j].lane == s->lane;
    l->ranks[rank].partner[i] = find_step(
        l->job->plans[s->peer], s->verb == PLAIT_STEP_SEND ? PLAIT_STEP_RECV : PLAIT_STEP_SEND, rank, s->lane, k);
}

/* Allocate one rank's memory. TMP starts as garbage, so that a read before the first write shows. */
static bool init_rank(struct local *l, uint32_t r)
{
    struct rank *rank = &l->ranks[r];
    const size_t n = rank->plan->nstep + 1, tmp = rank->plan->ntmp * largest_block(l) + 1;

    rank->pending = malloc(n * sizeof *rank->pending);
    rank->partner = malloc(n * sizeof *rank->partner);
    rank->tmp = malloc(tmp);
    if (rank->pending == NULL || rank->partner == NULL || rank->tmp == NULL)
        return false;
    memset(rank->tmp, 0xa5, tmp);
    rank->out = l->job->out[r];
    rank->in = (unsigned char *)(uintptr_t)l->job->in[r]; /* never written: step_fits() refuses a destination in IN */
    for (uint32_t i = 0; i < rank->plan->nstep; i++)
        rank->pending[i] = rank->plan->step[i].ndep;
    return true;
}

/* A step is ready when its dependencies are done; a message when both its ends are ready. */
static void make_ready(struct local *l, uint32_t rank, uint32_t i)
{
    const struct rank *r = &l->ranks[rank];
    const struct plait_step *s = &r->plan->step[i];
    const bool message = s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV;

    if (message && (r->partner[i] == NONE || l->ranks[s->peer].pending[r->partner[i]] > 0))
        return;
    if (s->verb == PLAIT_STEP_RECV)
        l->ready[l->nready++] = (struct event){ (uint32_t)s->peer, r->partner[i] };
    else
        l->ready[l->nready++] = (struct event){ rank, i };
}

static void mark_done(struct local *l, uint32_t rank, uint32_t i)
{
    struct rank *r = &l->ranks[rank];

    l->ndone++;
    for (uint32_t j = i + 1; j < r->plan->nstep; j++) {
        const struct plait_step *s = &r->plan->step[j];
        for (uint32_t d = 0; d < s->ndep; d++)
            if (plait_plan_deps(r->plan)[s->dep0 + d] == i && --r->pending[j] == 0)
                make_ready(l, rank, j);
    }
}

static void do_message(struct local *l, uint32_t rank, uint32_t i)
{
    struct rank *from = &l->ranks[rank], *to = &l->ranks[from->plan->step[i].peer];
    const struct plait_step *s = &from->plan->step[i], *r = &to->plan->step[from->partner[i]];

    if (s->blk != r->blk || s->nblk != r->nblk) {
        l->status = plait_fail(PLAIT_ERR_PLAN, "rank %u step %u sends block %u, but rank %d step %u receives block %u",
                               rank, i, s->blk, s->peer, from->partner[i], r->blk);
        return;
    }
    memmove(address(l, to, r->dst, r), address(l, from, s->a, s), step_bytes(l, s));
    mark_done(l, rank, i);
    mark_done(l, (uint32_t)s->peer, from->partner[i]);
}

static void do_event(struct local *l, struct event e)
{
    const struct rank *r = &l->ranks[e.rank];
    const struct plait_step *s = &r->plan->step[e.step];

    switch (s->verb) {
    case PLAIT_STEP_SEND:
        do_message(l, e.rank, e.step);
        return;
    case PLAIT_STEP_COPY:
        memmove(address(l, r, s->dst, s), address(l, r, s->a, s), step_bytes(l, s));
        break;
    default:
        l->job->combine(address(l, r, s->dst, s), address(l, r, s->a, s), address(l, r, s->b, s),
                        step_bytes(l, s) / l->job->size, l->job->arg);
    }
    mark_done(l, e.rank, e.step);
}

static enum plait_status prepare(struct local *l)
{
    for (uint32_t r = 0; r < l->job->nrank; r++) {
        l->nstep += l->ranks[r].plan->nstep;
        l->ranks[r].geometry = plait_geometry_of((enum plait_coll)l->job->plans[r]->coll, l->job->nrank,
                                                 l->job->plans[r]->root, r, l->job->plans[r]->nblk);
        if (l->ranks[r].plan->nblk != l->ranks[0].plan->nblk || l->ranks[r].plan->nrank != l->job->nrank)
            return plait_fail(PLAIT_ERR_PLAN, "rank %u's plan has other blocks or ranks than rank 0's", r);
    }
    l->ready = malloc((l->nstep + 1) * sizeof *l->ready);
    if (l->ready == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "out of memory for the oracle");
    for (uint32_t r = 0; r < l->job->nrank; r++) {
        if (!init_rank(l, r))
            return plait_fail(PLAIT_ERR_NOMEM, "out of memory for the oracle's rank %u", r);
        for (uint32_t i = 0; i < l->ranks[r].plan->nstep; i++)
            if (!step_fits(l, &l->ranks[r], i))
                return plait_fail(PLAIT_ERR_PLAN, "rank %u step %u has a field out of range", r, i);
    }
    for (uint32_t r = 0; r < l->job->nrank; r++)
        for (uint32_t i = 0; i < l->ranks[r].plan->nstep; i++)
            find_partner(l, r, i);
    return PLAIT_OK;
}

static enum plait_status run(struct local *l)
{
    for (uint32_t r = 0; r < l->job->nrank; r++)
        for (uint32_t i = 0; i < l->ranks[r].plan->nstep; i++)
            if (l->ranks[r].pending[i] == 0 && l->ranks[r].plan->step[i].verb != PLAIT_STEP_RECV)
                make_ready(l, r, i); /* each message once, from its SEND */
    while (l->nready > 0 && l->status == PLAIT_OK) {
        const uint32_t i = random_below(l, l->nready);
        const struct event e = l->ready[i];
        l->ready[i] = l->ready[--l->nready];
        do_event(l, e);
    }
    if (l->status == PLAIT_OK && l->ndone < l->nstep)
        return plait_fail(PLAIT_ERR_PLAN, "no step is ready, but only %llu of %llu are done",
                          (unsigned long long)l->ndone, (unsigned long long)l->nstep);
    return l->status;
}

enum plait_status plait_local_run(const struct plait_local_job *job)
{
    struct local l = { .job = job, .random = (job->seed + 1) * 0x9e3779b97f4a7c15u | 1 };
    enum plait_status status;

    l.ranks = malloc(((size_t)job->nrank + 1) * sizeof *l.ranks);
    if (l.ranks == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "out of memory for the oracle");
    for (uint32_t r = 0; r < job->nrank; r++)
        l.ranks[r] = (struct rank){ .plan = job->plans[r] };
    status = prepare(&l);
    if (status == PLAIT_OK)
        status = run(&l);
    for (uint32_t r = 0; r < job->nrank; r++) {
        free(l.ranks[r].pending);
        free(l.ranks[r].partner);
        free(l.ranks[r].tmp);
    }
    free(l.ranks);
    free(l.ready);
    return status;
}
