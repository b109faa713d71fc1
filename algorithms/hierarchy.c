/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchy: every node reduces to its master, its lowest rank; the masters all-reduce with any of the
 * other algorithms; every master broadcasts inside its node. Nodes may differ in size and be numbered
 * in any way. Members go in rank order, masters in descending order: then what a master receives from its
 * node comes, in rank order, before what another master sends, and the rounds of Jia et al.'s ring are
 * 4(k-1) + 2(p/k-1).
 *
 * Inside a node: `tree` is binomial; `jia` is ring reduce-scatter and gather to the master, then scatter
 * and ring all-gather back, of which the master, who has everything, only sends; `direct` lets the master take every vector and combine them at once.
 */
#include "algorithms.h"
#include "emit.h"

#include <string.h>

#define MAX_NODES 4096 /* nodes, and ranks of a node */
#define MAX_BLOCKS 4096 /* no more for the sake of equal parts */

struct nodes {
    uint32_t n, largest, smallest;
    uint32_t master[MAX_NODES], size[MAX_NODES]; /* by ascending master */
    uint32_t at[MAX_NODES];                      /* node number -> place in these, plus 1 */
};

static bool find_nodes(const struct plait_shape *s, struct nodes *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t r = 0; r < s->nrank; r++) {
        if (s->node[r] >= MAX_NODES)
            return false;
        uint32_t *at = &out->at[s->node[r]];
        if (*at == 0) {
            out->master[out->n++] = r;
            *at = out->n;
        }
        if (++out->size[*at - 1] > MAX_NODES)
            return false;
    }
    out->largest = out->smallest = out->size[0];
    for (uint32_t i = 1; i < out->n; i++) {
        out->largest = (uint32_t)most(out->largest, out->size[i]);
        out->smallest = least(out->smallest, out->size[i]);
    }
    return true;
}

/* ---- Inside a node ----------------------------------------------------------------------------- */

/* Member 0 is the master. Costs are of a node of k ranks and a vector of `nblk` blocks. */
struct inside {
    const char *name;
    void (*reduce)(struct plait_builder *b, const struct job *j);
    void (*broadcast)(struct plait_builder *b, const struct job *j);
    uint32_t (*tmp)(const struct job *j);
    uint64_t (*up)(uint32_t k, uint32_t nblk, struct range r); /* depth of these blocks at the master */
    uint64_t (*down)(uint32_t k, uint32_t nblk, struct range r); /* and from there at the last member */
    uint64_t (*rounds)(uint32_t k);                      /* one way */
    uint64_t (*sent)(uint32_t k, uint32_t nblk); /* by the master, both ways */
    uint64_t (*received)(uint32_t k, uint32_t nblk);
};

static uint64_t tree_depth(uint32_t k, uint32_t nblk, struct range r)
{
    (void)nblk, (void)r;
    return log2_floor(k);
}

static uint64_t tree_rounds(uint32_t k)
{
    return k > 1 ? log2_floor(k - 1) + 1 : 0;
}

static uint64_t tree_moved(uint32_t k, uint32_t nblk)
{
    return tree_rounds(k) * nblk;
}

static void jia_reduce(struct plait_builder *b, const struct job *j)
{
    const struct group *g = &j->group;

    ring_reduce_scatter(b, j);
    for (uint32_t i = 1; i < g->n; i++) {
        const struct range r = part(j->range, g->n, i);
        if (j->me == i)
            plait_send(b, member(g, 0), plait_out(r.blk), r.blk, r.nblk);
        else if (j->me == 0)
            plait_recv(b, member(g, i), plait_out(r.blk), r.blk, r.nblk);
    }
}

static void jia_broadcast(struct plait_builder *b, const struct job *j)
{
    const struct group *g = &j->group;
    const uint32_t n = g->n, me = j->me;

    for (uint32_t i = 1; i < n; i++) {
        const struct range r = part(j->range, n, i);
        if (me == 0)
            plait_send(b, member(g, i), plait_out(r.blk), r.blk, r.nblk);
        else if (me == i)
            plait_recv(b, member(g, 0), plait_out(r.blk), r.blk, r.nblk);
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        const struct range give = part(j->range, n, (me + n - k) % n), take = part(j->range, n, (me + n - 1 - k) % n);
        if (me != n - 1)
            plait_send(b, member(g, me + 1), plait_out(give.blk), give.blk, give.nblk);
        if (me != 0)
            plait_recv(b, member(g, me - 1), plait_out(take.blk), take.blk, take.nblk);
    }
}

static uint32_t jia_tmp(const struct job *j)
{
    return ring_tmp(j->group.n, j->range.nblk, j->window);
}

/* The part of k that a block is in. */
static uint32_t part_of(uint32_t k, uint32_t nblk, uint32_t blk)
{
    return (uint32_t)((((uint64_t)blk + 1) * k - 1) / nblk);
}

/* Part 0 is reduced where it stays; the others come with one message more. */
static uint64_t jia_up(uint32_t k, uint32_t nblk, struct range r)
{
    return k == 1 ? 0 : k - (part_of(k, nblk, r.blk + r.nblk - 1) == 0);
}

/* Part i goes from its member to the last, and from the master to the member before. */
static uint64_t jia_down(uint32_t k, uint32_t nblk, struct range r)
{
    const uint64_t first = part_of(k, nblk, r.blk), last = part_of(k, nblk, r.blk + r.nblk - 1);
    return k == 1 ? 0 : first == 0 ? k - 1 : most(k - first, last - 1);
}

static uint64_t jia_rounds(uint32_t k)
{
    return 2 * (k - 1);
}

/* Ring, gather and scatter: all but part 0; the ring back sends all but the next member's. */
static uint64_t jia_sent(uint32_t k, uint32_t nblk)
{
    const struct range all = { 0, nblk };
    return k > 1 ? 3 * (uint64_t)nblk - 2 * part(all, k, 0).nblk - part(all, k, 1).nblk : 0;
}

static uint64_t jia_received(uint32_t k, uint32_t nblk)
{
    const struct range all = { 0, nblk };
    return k > 1 ? 2 * (uint64_t)nblk - part(all, k, 0).nblk - part(all, k, k - 1).nblk : 0;
}

static void direct_reduce(struct plait_builder *b, const struct job *j)
{
    const struct range r = j->range;

    if (j->me > 0)
        plait_send(b, member(&j->group, 0), span_at(j->src, r.blk), r.blk, r.nblk);
    for (uint32_t i = 1; j->me == 0 && i < j->group.n; i++)
        plait_recv(b, member(&j->group, i), receive_slot(j, i), r.blk, r.nblk);
    if (j->me == 0 && j->group.n > 1)
        combine(b, j, plait_out(r.blk));
}

static void direct_broadcast(struct plait_builder *b, const struct job *j)
{
    const struct range r = j->range;

    if (j->me > 0)
        plait_recv(b, member(&j->group, 0), plait_out(r.blk), r.blk, r.nblk);
    for (uint32_t i = 1; j->me == 0 && i < j->group.n; i++)
        plait_send(b, member(&j->group, i), plait_out(r.blk), r.blk, r.nblk);
}

static uint32_t direct_tmp(const struct job *j)
{
    return j->me == 0 ? combine_tmp(j->group.n, j->range.nblk) : 0;
}

static uint64_t direct_depth(uint32_t k, uint32_t nblk, struct range r)
{
    (void)nblk, (void)r;
    return k > 1;
}

static uint64_t direct_rounds(uint32_t k)
{
    return k - 1;
}

static uint64_t direct_moved(uint32_t k, uint32_t nblk)
{
    return (uint64_t)(k - 1) * nblk;
}

static const struct inside insides[] = {
    { "tree", binomial_reduce, binomial_broadcast, binomial_tmp, tree_depth, tree_depth, tree_rounds, tree_moved, tree_moved },
    { "jia", jia_reduce, jia_broadcast, jia_tmp, jia_up, jia_down, jia_rounds, jia_sent, jia_received },
    { "direct", direct_reduce, direct_broadcast, direct_tmp, direct_depth, direct_depth, direct_rounds, direct_moved, direct_moved },
};

/* ---- Among the masters ------------------------------------------------------------------------- */

static const struct group_alg *const *const amongs[] = {
    &plait_group_ring,  &plait_group_torus,       &plait_group_halving, &plait_group_binomial, &plait_group_chain,
    &plait_group_double_tree, &plait_group_trees, &plait_group_one_shot, &plait_group_two_shot,
};

/* A shape's parameters are: which of `insides`, which of `amongs`, the latter's own. */
#define OWN_PARAM 2
#define DESCENDING UINT32_MAX /* stride of -1 */

struct plan_of_nodes {
    struct nodes nodes;
    const struct inside *in;
    const struct group_alg *among;
    struct plait_shape masters; /* the masters' shape */
    uint32_t nblk;
};

/* Ranks of the node whose master is at this position among the masters. */
static uint32_t size_at(const struct plan_of_nodes *p, uint32_t position)
{
    return p->nodes.size[p->nodes.n - 1 - position];
}

/*
 * A multiple of the masters' blocks, at least one for each rank of a node, and if it can be done with few a
 * multiple of the nodes' sizes, the largest first; nodes of other sizes cut it into parts that differ by one.
 */
static uint32_t count_blocks(const struct plan_of_nodes *p)
{
    const uint32_t unit = (uint32_t)p->among->alg->claim(&p->masters).nblk, largest = p->nodes.largest;
    uint32_t nblk = unit;

    if (p->in->reduce != jia_reduce)
        return unit;
    nblk = (largest + unit - 1) / unit * unit;
    for (uint32_t k = largest; k > 1; k--)
        for (uint32_t i = 0; i < p->nodes.n; i++)
            if (p->nodes.size[i] == k && (uint64_t)nblk * (k / gcd(nblk, k)) <= MAX_BLOCKS)
                nblk *= k / gcd(nblk, k);
    return nblk;
}

static bool look_up(const struct plait_shape *s, struct plan_of_nodes *p)
{
    if (s->node == NULL || !find_nodes(s, &p->nodes) || p->nodes.n < 2)
        return false;
    p->in = &insides[s->param[0]];
    p->among = *amongs[s->param[1]];
    p->masters = (struct plait_shape){ .coll = s->coll, .nrank = p->nodes.n, .inplace = s->inplace };
    p->masters.nparam = s->nparam > OWN_PARAM ? s->nparam - OWN_PARAM : 0;
    memcpy(p->masters.param, s->param + OWN_PARAM, p->masters.nparam * sizeof *s->param);
    if (!p->among->alg->applies(&p->masters))
        return false;
    p->nblk = count_blocks(p);
    return true;
}

static void emit(struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    struct plan_of_nodes p;
    uint32_t list[MAX_NODES], n = 0, own = 0;

    look_up(s, &p);
    for (uint32_t r = 0; r < s->nrank; r++)
        if (s->node[r] == s->node[me]) {
            own = r == me ? n : own;
            list[n++] = r;
        }
    const uint32_t place = p.nodes.n - p.nodes.at[s->node[me]];
    const struct job node = { { list, n, 0, 1 }, own, { 0, p.nblk }, PLAIT_IN, 0, 2 };
    const struct job masters = { { p.nodes.master, p.nodes.n, p.nodes.n - 1, DESCENDING }, place, { 0, p.nblk },
                                 n > 1 ? PLAIT_OUT : PLAIT_IN, p.in->tmp(&node),
                                 p.nodes.largest == p.nodes.smallest ? 2 : EVERY_SLOT };
    plait_blocks(b, p.nblk, masters.tmp + (own == 0 ? p.among->tmp(p.among, &p.masters, &masters) : 0));
    p.in->reduce(b, &node);
    if (own == 0)
        p.among->emit(p.among, b, &p.masters, &masters);
    p.in->broadcast(b, &node);
}

/*
 * From contributions at one master's node to results at another's. Which blocks the first and the last
 * message among the masters carry decides how deep it is on their nodes' side.
 */
static uint64_t pair_depth(const struct plan_of_nodes *p, uint32_t from, uint32_t to, uint32_t unit)
{
    const uint32_t k = size_at(p, from), l = size_at(p, to), scale = p->nblk / unit;
    uint64_t deepest = 0;

    for (uint32_t piece = 0; piece < unit; piece++) {
        struct range first, last;
        const uint64_t n = p->among->path(p->among, &p->masters, from, to, piece, &first, &last);
        const struct range up = { first.blk * scale, first.nblk * scale }, down = { last.blk * scale, last.nblk * scale };
        deepest = most(deepest, p->in->up(k, p->nblk, up) + n + p->in->down(l, p->nblk, down));
    }
    return deepest;
}

/* Nodes of one size all start and end at the same depth; else the deepest pair of nodes counts. */
static uint64_t whole_depth(const struct plan_of_nodes *p, const struct plait_claim *among)
{
    const struct range all = { 0, p->nblk };
    const uint32_t n = p->nodes.n, k = p->nodes.largest;
    uint64_t deepest = 0;

    if (k == p->nodes.smallest)
        return p->in->up(k, p->nblk, all) + among->depth + p->in->down(k, p->nblk, all);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (p->in->up(size_at(p, i), p->nblk, all) + among->depth + p->in->down(size_at(p, j), p->nblk, all) > deepest)
                deepest = most(deepest, pair_depth(p, i, j, (uint32_t)among->nblk));
    return deepest;
}

static struct plait_claim claim(const struct plait_shape *s)
{
    struct plan_of_nodes p;
    look_up(s, &p);
    const struct plait_claim among = p.among->alg->claim(&p.masters);
    struct plait_claim c = { .nblk = p.nblk, .depth = whole_depth(&p, &among) };
    const uint64_t scale = p.nblk / among.nblk;

    /* A master that starts early can hold up what others still gather or already scatter. */
    const bool together = p.nodes.largest == p.nodes.smallest && (p.in->reduce != jia_reduce || p.among == plait_group_ring);
    c.rounds = 2 * p.in->rounds(p.nodes.largest) + (together ? 1 : 2) * among.rounds;
    for (uint32_t i = 0; i < p.nodes.n; i++) {
        const uint64_t moved = scale * p.among->moved(p.among, &p.masters, i);
        c.sent = most(c.sent, p.in->sent(size_at(&p, i), p.nblk) + moved);
        c.received = most(c.received, p.in->received(size_at(&p, i), p.nblk) + moved);
    }
    return c;
}

/* The length of the word at `text`, up to a ':' or the end; *next is what follows the ':'. */
static size_t word(const char *text, const char **next)
{
    const size_t n = strcspn(text, ":");
    *next = text[n] == ':' ? text + n + 1 : text + n;
    return n;
}

/* "", "IN", "ALG", "IN:ALG", each ALG with its own ":parameters" */
static bool parse(const char *text, struct plait_shape *s)
{
    struct plait_shape own = { .coll = s->coll, .nrank = s->nrank };
    const char *next;
    size_t n = word(text, &next);

    s->nparam = OWN_PARAM;
    s->param[0] = s->param[1] = 0;
    for (uint32_t i = 0; i < sizeof insides / sizeof *insides; i++)
        if (strlen(insides[i].name) == n && memcmp(insides[i].name, text, n) == 0) {
            s->param[0] = i;
            text = next;
            n = word(text, &next);
            break;
        }
    if (*text == '\0')
        return true;
    for (uint32_t i = 0; i < sizeof amongs / sizeof *amongs; i++) {
        const struct plait_alg *alg = (*amongs[i])->alg;
        if (strlen(alg->name) != n || memcmp(alg->name, text, n) != 0)
            continue;
        if (alg->parse != NULL ? !alg->parse(next, &own) : *next != '\0')
            return false;
        s->param[1] = i;
        for (uint32_t k = 0; k < own.nparam; k++)
            if (s->nparam < PLAIT_MAX_PARAM)
                s->param[s->nparam++] = own.param[k];
            else
                return false;
        return true;
    }
    return false;
}

static bool applies(const struct plait_shape *s)
{
    struct plan_of_nodes p;
    return look_up(s, &p);
}

const struct plait_alg plait_alg_hierarchy = {
    .name = "hierarchy", .coll = PLAIT_ALLREDUCE, .params = "[:tree|jia|direct][:ALGORITHM]",
    .text = "reduce to each node's master, all-reduce among masters, broadcast in each node",
    .source = "Jia et al. 2018", .parse = parse, .applies = applies, .emit = emit, .claim = claim,
};
