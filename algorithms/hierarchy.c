/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchy: every node reduces to its master, its lowest rank; the masters all-reduce with any of the other
 * algorithms; every master broadcasts inside its node. Nodes may differ in size and have any numbers. Members go in
 * rank order, masters in descending order. Then a master receives its node's data, in rank order, before the data of
 * another master, and the rounds of Jia et al.'s ring are 4(k-1) + 2(p/k-1). inside.c has the phases inside a node.
 */
#include "algorithms.h"
#include "emit.h"
#include "inside.h"
#include "params.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES  4096 /* nodes, and ranks of a node */
#define MAX_BLOCKS 4096 /* limit for the search for equal parts */

struct nodes {
    uint32_t n, largest, smallest;
    uint32_t *master, *size; /* [ranks] by ascending master */
    uint32_t *at;            /* [MAX_NODES] node number -> index in these arrays, plus 1 */
    uint32_t *list;          /* [ranks] members of one node */
    uint32_t *memory;        /* the allocation of all of these: too large for a small stack */
};

static bool find_nodes(const struct plait_shape *s, struct nodes *out)
{
    memset(out, 0, sizeof *out);
    out->memory = calloc(MAX_NODES + 3 * (size_t)s->nrank, sizeof *out->memory);
    if (out->memory == NULL)
        return false;
    out->at = out->memory;
    out->master = out->at + MAX_NODES;
    out->size = out->master + s->nrank;
    out->list = out->size + s->nrank;
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

/* ---- Among the masters ------------------------------------------------------------------------- */

static const struct among {
    const struct plait_alg *alg;
    const struct family *family;
} amongs[] = {
    { &plait_alg_ring, &grid_family },       { &plait_alg_torus, &grid_family },
    { &plait_alg_halving, &grid_family },    { &plait_alg_binomial, &forest_family },
    { &plait_alg_chain, &forest_family },    { &plait_alg_double_tree, &forest_family },
    { &plait_alg_trees, &forest_family },    { &plait_alg_one_shot, &direct_family },
    { &plait_alg_two_shot, &direct_family },
};
#define NAMONG (sizeof amongs / sizeof *amongs)

/* The parameters of a shape: index in `insides`, index in `amongs`, then the latter's own parameters. */
#define OWN_PARAM  2
#define DESCENDING UINT32_MAX /* stride of -1 */

struct plan_of_nodes {
    struct nodes nodes;
    const struct inside *in;
    const struct among *among;
    struct plait_shape masters;    /* the masters' shape */
    struct plait_claim all_reduce; /* and the cost of their all-reduce */
    uint32_t nblk;
};

/* Ranks of the node whose master has this position among the masters. */
static uint32_t size_at(const struct plan_of_nodes *p, uint32_t position)
{
    return p->nodes.size[p->nodes.n - 1 - position];
}

/*
 * A multiple of the masters' blocks, at least one for each rank of a node. If few blocks suffice, also a multiple of
 * the nodes' sizes, the largest first; nodes of other sizes get parts that differ by one block.
 */
static uint32_t count_blocks(const struct plan_of_nodes *p)
{
    const uint32_t unit = (uint32_t)p->all_reduce.nblk, largest = p->nodes.largest;
    uint32_t nblk = (largest + unit - 1) / unit * unit;

    if (!p->in->splits)
        return unit;
    for (uint32_t k = largest; k > 1; k--)
        for (uint32_t i = 0; i < p->nodes.n; i++)
            if (p->nodes.size[i] == k && (uint64_t)nblk * (k / gcd(nblk, k)) <= MAX_BLOCKS)
                nblk *= k / gcd(nblk, k);
    return nblk;
}

/* The caller then frees p->nodes.memory, whatever the result. */
static bool look_up(const struct plait_shape *s, struct plan_of_nodes *p)
{
    p->nodes.memory = NULL;
    if (s->node == NULL || !find_nodes(s, &p->nodes) || p->nodes.n < 2)
        return false;
    p->in = &insides[s->param[0]];
    p->among = &amongs[s->param[1]];
    p->masters = (struct plait_shape){ .coll = s->coll, .nrank = p->nodes.n, .inplace = s->inplace };
    p->masters.nparam = s->nparam > OWN_PARAM ? s->nparam - OWN_PARAM : 0;
    memcpy(p->masters.param, s->param + OWN_PARAM, p->masters.nparam * sizeof *s->param);
    if (!p->among->alg->applies(p->among->alg, &p->masters))
        return false;
    p->all_reduce = p->among->alg->claim(p->among->alg, &p->masters);
    p->nblk = count_blocks(p);
    return true;
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    struct plan_of_nodes p;
    uint32_t n = 0, own = 0;

    (void)self;
    if (!look_up(s, &p)) {
        free(p.nodes.memory);
        return;
    }
    uint32_t *list = p.nodes.list;
    for (uint32_t r = 0; r < s->nrank; r++)
        if (s->node[r] == s->node[me]) {
            own = r == me ? n : own;
            list[n++] = r;
        }
    const uint32_t place = p.nodes.n - p.nodes.at[s->node[me]];
    const struct range all = { 0, p.nblk };
    const struct job node = { { list, n, 0, 1 }, own, all, PLAIT_IN, 2 };
    const struct job masters = { { p.nodes.master, p.nodes.n, p.nodes.n - 1, DESCENDING },
                                 place,
                                 all,
                                 n > 1 ? PLAIT_OUT : PLAIT_IN,
                                 p.nodes.largest == p.nodes.smallest ? 2 : EVERY_SLOT };
    plait_blocks(b, p.nblk, 0);
    p.in->reduce(b, &node);
    if (own == 0)
        p.among->family->emit(p.among->alg, b, &p.masters, &masters);
    p.in->broadcast(b, &node);
    free(p.nodes.memory);
}

/* ---- Cost -------------------------------------------------------------------------------------- */

/*
 * Depth from contributions at one master's node to results at another's. It depends on the blocks of the first and the
 * last message among the masters, which the nodes reduce and broadcast.
 */
static uint64_t pair_depth(const struct plan_of_nodes *p, uint32_t from, uint32_t to)
{
    const uint32_t unit = (uint32_t)p->all_reduce.nblk, scale = p->nblk / unit;
    uint64_t deepest = 0;

    for (uint32_t piece = 0; piece < unit; piece++) {
        struct range up, down;
        uint64_t n = p->among->family->path(p->among->alg, &p->masters, from, to, piece, &up, &down);
        n += p->in->up(size_at(p, from), p->nblk, (struct range){ up.blk * scale, up.nblk * scale });
        n += p->in->down(size_at(p, to), p->nblk, (struct range){ down.blk * scale, down.nblk * scale });
        deepest = most(deepest, n);
    }
    return deepest;
}

/*
 * Depth if all of the vector took the longest path: exact if all nodes have one size, as they all start and end alike.
 */
static uint64_t depth_bound(const struct plan_of_nodes *p, uint32_t k_from, uint32_t k_to)
{
    const struct range all = { 0, p->nblk };
    return p->in->up(k_from, p->nblk, all) + p->all_reduce.depth + p->in->down(k_to, p->nblk, all);
}

static uint64_t whole_depth(const struct plan_of_nodes *p)
{
    uint64_t deepest = 0;

    if (p->nodes.largest == p->nodes.smallest)
        return depth_bound(p, p->nodes.largest, p->nodes.largest);
    for (uint32_t i = 0; i < p->nodes.n; i++)
        for (uint32_t j = 0; j < p->nodes.n; j++)
            if (depth_bound(p, size_at(p, i), size_at(p, j)) > deepest)
                deepest = most(deepest, pair_depth(p, i, j));
    return deepest;
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    struct plan_of_nodes p;

    (void)self;
    if (!look_up(s, &p)) {
        free(p.nodes.memory);
        return (struct plait_claim){ 0 };
    }
    struct plait_claim c = { .nblk = p.nblk, .depth = whole_depth(&p) };
    const uint64_t scale = p.nblk / p.all_reduce.nblk;

    /* A master that starts early can delay blocks that others still gather or already scatter. */
    const bool together = p.nodes.largest == p.nodes.smallest && (!p.in->splits || p.among->alg == &plait_alg_ring);
    c.rounds = 2 * p.in->cost(p.nodes.largest, p.nblk).rounds + (together ? 1 : 2) * p.all_reduce.rounds;
    for (uint32_t i = 0; i < p.nodes.n; i++) {
        const uint64_t moved = scale * p.among->family->moved(p.among->alg, &p.masters, i);
        const struct inside_cost inside = p.in->cost(size_at(&p, i), p.nblk);
        c.sent = most(c.sent, inside.sent + moved);
        c.received = most(c.received, inside.received + moved);
    }
    free(p.nodes.memory);
    return c;
}

/* ---- Parameters -------------------------------------------------------------------------------- */

/* "", "IN", "ALG", "IN:ALG", each ALG with its own ":parameters" */
static bool parse(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    struct plait_shape own = { .coll = s->coll, .nrank = s->nrank };
    uint32_t in = 0, among = 0;

    (void)self;
    while (in < NINSIDE && !take_word(&text, insides[in].name))
        in++;
    if (*text != '\0') {
        while (among < NAMONG && !take_word(&text, amongs[among].alg->name))
            among++;
        if (among == NAMONG)
            return false;
        const struct plait_alg *alg = amongs[among].alg;
        if (alg->parse != NULL ? !alg->parse(alg, text, &own) : *text != '\0')
            return false;
    }
    if (OWN_PARAM + own.nparam > PLAIT_MAX_PARAM)
        return false;
    s->nparam = OWN_PARAM + own.nparam;
    s->param[0] = in % NINSIDE; /* the first when none is named */
    s->param[1] = among;
    memcpy(s->param + OWN_PARAM, own.param, own.nparam * sizeof *own.param);
    return true;
}

static bool applies(const struct plait_alg *self, const struct plait_shape *s)
{
    struct plan_of_nodes p;

    (void)self;
    const bool fits = look_up(s, &p);
    free(p.nodes.memory);
    return fits;
}

/* clang-format off */
const struct plait_alg plait_alg_hierarchy = {
    .name = "hierarchy", .coll = PLAIT_ALLREDUCE, .params = "[:tree|jia|direct][:ALGORITHM]",
    .text = "reduce to each node's master, all-reduce among masters, broadcast in each node",
    .source = "Jia et al. 2018",
    .parse = parse, .applies = applies, .emit = emit, .claim = claim,
    .remedy = "the ranks must lie on two nodes or more, and ALGORITHM fit as many ranks as there are nodes",
};
