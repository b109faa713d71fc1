/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchy: every node reduces to its master, its lowest rank; the masters all-reduce with any of the other
 * algorithms; every master broadcasts inside its node. Nodes may differ in size and have any numbers. Members go in
 * rank order, masters in descending order. Then a master receives its node's data, in rank order, before the data of
 * another master, and the rounds of Jia et al.'s ring are 4(k-1) + 2(p/k-1). inside.c has the phases inside a node.
 *
 * Where the shape has levels, each group of each level does so, from the innermost level out: its members are the
 * masters of the groups in it. The masters of the outermost level all-reduce. Forms that split the vector (jia) have
 * one level, the nodes.
 */
#include "algorithms.h"
#include "emit.h"
#include "inside.h"
#include "params.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES  4096 /* groups of a level, and members of a group */
#define MAX_BLOCKS 4096 /* limit for the search for equal parts */

struct level {
    uint32_t *master; /* [ranks] the lowest rank of a rank's group */
    uint32_t *at;     /* [ranks] of a member: its place in its group */
    uint32_t *size;   /* [ranks] of a master: members of its group */
    uint32_t *first;  /* [ranks] of a master: where its group begins in `list` */
    uint32_t *list;   /* [ranks] the members of all groups, group by group */
};
#define LEVEL_ARRAYS 5

struct levels {
    uint32_t n;                                /* level n has all ranks in one group */
    struct level level[PLAIT_MAX_LEVELS + 1];  /* innermost first */
    uint32_t largest[PLAIT_MAX_LEVELS], whole; /* members of each level's largest group; of the largest of all */
    bool even;                                 /* the groups of a level have one size */
    uint32_t *memory;                          /* the allocation of all of these: too large for a small stack */
};

/* The members of level l are the masters of the level below; of level 0 they are all ranks. */
static bool is_member(const struct levels *v, uint32_t l, uint32_t rank)
{
    return l == 0 || v->level[l - 1].master[rank] == rank;
}

/* number: of each rank's group; NULL: one group. of: [MAX_NODES], scratch */
static bool find_level(struct levels *v, uint32_t l, uint32_t nrank, const uint32_t *number, uint32_t *of)
{
    const struct level *at = &v->level[l];
    uint32_t end = 0;

    memset(of, 0, MAX_NODES * sizeof *of);
    for (uint32_t r = 0; r < nrank; r++) {
        uint32_t *master = &of[number != NULL ? number[r] % MAX_NODES : 0];
        if (number != NULL && number[r] >= MAX_NODES)
            return false;
        *master = *master != 0 ? *master : r + 1;
        at->master[r] = *master - 1;
        if (l > 0 && at->master[r] != at->master[v->level[l - 1].master[r]])
            return false; /* a group reaches over two groups of this level */
        if (is_member(v, l, r))
            at->at[r] = at->size[at->master[r]]++;
    }
    for (uint32_t r = 0; r < nrank; r++) {
        at->first[r] = end;
        end += at->size[r];
    }
    for (uint32_t r = 0; r < nrank; r++)
        if (is_member(v, l, r))
            at->list[at->first[at->master[r]] + at->at[r]] = r;
    return true;
}

/* The sizes of level l's groups. */
static bool measure(struct levels *v, uint32_t l, uint32_t nrank)
{
    v->largest[l] = v->level[l].size[0];
    for (uint32_t r = 0; r < nrank; r++) {
        const uint32_t size = v->level[l].size[r];
        v->even &= size == 0 || size == v->level[l].size[0];
        v->largest[l] = (uint32_t)most(v->largest[l], size);
    }
    v->whole = (uint32_t)most(v->whole, v->largest[l]);
    return v->largest[l] <= MAX_NODES;
}

static bool find_levels(const struct plait_shape *s, bool one, struct levels *out)
{
    const bool flat = s->nlevel == 0 || (one && s->node != NULL);
    const uint32_t skipped = one && !flat ? s->nlevel - 1 : 0;

    *out = (struct levels){ .n = flat ? 1 : s->nlevel - skipped, .even = true };
    if (out->n > PLAIT_MAX_LEVELS || (flat && s->node == NULL))
        return false;
    out->memory = calloc(MAX_NODES + LEVEL_ARRAYS * (size_t)s->nrank * (out->n + 1), sizeof *out->memory);
    if (out->memory == NULL)
        return false;
    uint32_t *next = out->memory + MAX_NODES;
    for (uint32_t l = 0; l <= out->n; l++) {
        uint32_t *const a = next;
        next += LEVEL_ARRAYS * (size_t)s->nrank;
        out->level[l] = (struct level){ a, a + s->nrank, a + 2 * s->nrank, a + 3 * s->nrank, a + 4 * s->nrank };
        const uint32_t *number = l == out->n ? NULL : flat ? s->node : s->level + (size_t)(skipped + l) * s->nrank;
        if (!find_level(out, l, s->nrank, number, out->memory) || (l < out->n && !measure(out, l, s->nrank)))
            return false;
    }
    return out->level[out->n].size[0] > 1;
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

struct plan_of_levels {
    struct levels levels;
    const struct level *top; /* its one group is that of the masters that all-reduce */
    const struct inside *in;
    const struct among *among;
    struct plait_shape masters;    /* the masters' shape */
    struct plait_claim all_reduce; /* and the cost of their all-reduce */
    uint32_t nblk;
};

/* The master with this position among the masters, which go in descending order. */
static uint32_t master_at(const struct plan_of_levels *p, uint32_t position)
{
    return p->top->list[p->masters.nrank - 1 - position];
}

/* Ranks of its node; if the vector is split. */
static uint32_t size_at(const struct plan_of_levels *p, uint32_t position)
{
    return p->levels.level[0].size[master_at(p, position)];
}

/*
 * A multiple of the masters' blocks, at least one for each rank of a node. If few blocks suffice, also a multiple of
 * the nodes' sizes, the largest first; nodes of other sizes get parts that differ by one block.
 */
static uint32_t count_blocks(const struct plan_of_levels *p)
{
    const uint32_t unit = (uint32_t)p->all_reduce.nblk, largest = p->levels.whole;
    uint32_t nblk = (largest + unit - 1) / unit * unit;

    if (!p->in->splits)
        return unit;
    for (uint32_t k = largest; k > 1; k--)
        for (uint32_t i = 0; i < p->masters.nrank; i++)
            if (size_at(p, i) == k && (uint64_t)nblk * (k / gcd(nblk, k)) <= MAX_BLOCKS)
                nblk *= k / gcd(nblk, k);
    return nblk;
}

/* The caller then frees p->levels.memory, whatever the result. */
static bool look_up(const struct plait_shape *s, struct plan_of_levels *p)
{
    p->in = &insides[s->param[0]];
    p->among = &amongs[s->param[1]];
    if (!find_levels(s, p->in->splits, &p->levels))
        return false;
    p->top = &p->levels.level[p->levels.n];
    p->masters = (struct plait_shape){ .coll = s->coll, .nrank = p->top->size[0], .inplace = s->inplace };
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
    struct plan_of_levels p;
    struct job jobs[PLAIT_MAX_LEVELS];
    enum plait_buf src = PLAIT_IN;
    uint32_t l = 0;

    (void)self;
    if (!look_up(s, &p)) {
        free(p.levels.memory);
        return;
    }
    const struct range all = { 0, p.nblk };
    const uint32_t n = p.masters.nrank, window = p.levels.even ? 2 : EVERY_SLOT;
    plait_blocks(b, p.nblk, 0);
    for (; l < p.levels.n && is_member(&p.levels, l, me); l++) {
        const struct level *v = &p.levels.level[l];
        const uint32_t master = v->master[me], size = v->size[master];
        jobs[l] = (struct job){ { v->list + v->first[master], size, 0, 1 }, v->at[me], all, src, l == 0 ? 2 : window };
        p.in->reduce(b, &jobs[l]);
        src = size > 1 ? PLAIT_OUT : src;
    }
    if (is_member(&p.levels, p.levels.n, me)) {
        const struct job masters = { { p.top->list, n, n - 1, DESCENDING }, n - 1 - p.top->at[me], all, src, window };
        p.among->family->emit(p.among->alg, b, &p.masters, &masters);
    }
    while (l-- > 0)
        p.in->broadcast(b, &jobs[l]);
    free(p.levels.memory);
}

/* ---- Cost -------------------------------------------------------------------------------------- */

/* Messages on the longest path from a rank of each outermost group to its master; as many lead back. NULL: no memory */
static uint64_t *find_hops(const struct plan_of_levels *p, uint32_t nrank)
{
    uint64_t *hops = p->in->splits ? NULL : calloc(nrank, sizeof *hops);

    for (uint32_t r = 0; hops != NULL && r < nrank; r++) {
        uint64_t n = 0;
        uint32_t at = r;
        for (uint32_t l = 0; l < p->levels.n; l++) {
            n += p->in->hops(p->levels.level[l].at[at]);
            at = p->levels.level[l].master[at];
        }
        hops[at] = most(hops[at], n);
    }
    return hops;
}

/* Depth of these blocks at a master, and from there to the last rank of its group. */
static uint64_t up_to(const struct plan_of_levels *p, const uint64_t *hops, uint32_t at, struct range r)
{
    return hops != NULL ? hops[master_at(p, at)] : p->in->up(size_at(p, at), p->nblk, r);
}

static uint64_t down_from(const struct plan_of_levels *p, const uint64_t *hops, uint32_t at, struct range r)
{
    return hops != NULL ? hops[master_at(p, at)] : p->in->down(size_at(p, at), p->nblk, r);
}

/*
 * Depth from contributions at one master's group to results at another's. It depends on the blocks of the first and the
 * last message among the masters, which the groups reduce and broadcast.
 */
static uint64_t pair_depth(const struct plan_of_levels *p, const uint64_t *hops, uint32_t from, uint32_t to)
{
    const uint32_t unit = (uint32_t)p->all_reduce.nblk, scale = p->nblk / unit;
    uint64_t deepest = 0;

    for (uint32_t piece = 0; piece < unit; piece++) {
        struct range up, down;
        uint64_t n = p->among->family->path(p->among->alg, &p->masters, from, to, piece, &up, &down);
        n += up_to(p, hops, from, (struct range){ up.blk * scale, up.nblk * scale });
        n += down_from(p, hops, to, (struct range){ down.blk * scale, down.nblk * scale });
        deepest = most(deepest, n);
    }
    return deepest;
}

/*
 * Depth if all of the vector took the longest path: exact if the groups of a level have one size, as they all start and
 * end alike.
 */
static uint64_t depth_bound(const struct plan_of_levels *p, const uint64_t *hops, uint32_t from, uint32_t to)
{
    const struct range all = { 0, p->nblk };
    return up_to(p, hops, from, all) + p->all_reduce.depth + down_from(p, hops, to, all);
}

static uint64_t whole_depth(const struct plan_of_levels *p, const uint64_t *hops)
{
    uint64_t deepest = 0;

    if (p->levels.even)
        return depth_bound(p, hops, 0, 0);
    for (uint32_t i = 0; i < p->masters.nrank; i++)
        for (uint32_t j = 0; j < p->masters.nrank; j++)
            if (depth_bound(p, hops, i, j) > deepest)
                deepest = most(deepest, pair_depth(p, hops, i, j));
    return deepest;
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    struct plan_of_levels p;

    (void)self;
    if (!look_up(s, &p)) {
        free(p.levels.memory);
        return (struct plait_claim){ 0 };
    }
    uint64_t *hops = find_hops(&p, s->nrank);
    const uint64_t scale = p.nblk / p.all_reduce.nblk;
    struct plait_claim c = { .nblk = p.nblk };

    if (hops != NULL || p.in->splits)
        c.depth = whole_depth(&p, hops);
    free(hops);
    /* A master that starts early can delay blocks that others still gather or already scatter. */
    const bool together = p.levels.even && (!p.in->splits || p.among->alg == &plait_alg_ring);
    c.rounds = (together ? 1 : 2) * p.all_reduce.rounds;
    for (uint32_t l = 0; l < p.levels.n; l++)
        c.rounds += 2 * p.in->cost(p.levels.largest[l], p.nblk, 0).rounds;
    for (uint32_t r = 0; r < s->nrank; r++) {
        const bool among = is_member(&p.levels, p.levels.n, r);
        uint64_t sent =
            among ? scale * p.among->family->moved(p.among->alg, &p.masters, p.masters.nrank - 1 - p.top->at[r]) : 0;
        uint64_t received = sent;
        for (uint32_t l = 0; l < p.levels.n && is_member(&p.levels, l, r); l++) {
            const struct level *v = &p.levels.level[l];
            const struct inside_cost inside = p.in->cost(v->size[v->master[r]], p.nblk, v->at[r]);
            sent += inside.sent;
            received += inside.received;
        }
        c.sent = most(c.sent, sent);
        c.received = most(c.received, received);
    }
    free(p.levels.memory);
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
    struct plan_of_levels p;

    (void)self;
    const bool fits = look_up(s, &p);
    free(p.levels.memory);
    return fits;
}

/* clang-format off */
const struct plait_alg plait_alg_hierarchy = {
    .name = "hierarchy", .coll = PLAIT_ALLREDUCE, .params = "[:tree|jia|direct][:ALGORITHM]",
    .text = "reduce to each node's master (level by level), all-reduce among masters, broadcast back",
    .source = "Jia et al. 2018",
    .parse = parse, .applies = applies, .emit = emit, .claim = claim,
    .remedy = "the ranks must lie on two nodes or more (or packages, memory nodes, caches), and ALGORITHM fit as many "
              "ranks as there are of these",
};
