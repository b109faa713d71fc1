/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spanning trees: the vector is cut into one block for each colour; a colour reduces its block up its own
 * tree and broadcasts it down again. Pipelining comes from the slices of whoever runs the plan.
 *
 * Shapes. binomial: from rank 0; position p's parent is p without its lowest bit. k-ary: positions in
 * breadth-first order, each inner position with `fan` children, the first `extra` ones with one more.
 * A chain is 1-ary.
 *
 * Colours. Colour c puts rank (c * inner + p) mod N at position p, so that its inner ranks are the block
 * from c * inner on. Blocks of the usual heap, inner = ceil((N-1)/k), overlap when N mod k > 1: then
 * k - N mod k ranks are inner in two colours, the least that fan-out k allows. The `wide` form has
 * inner = floor(N/k) and no such rank, at the price of a wider fan-out.
 */
#include "algorithms.h"
#include "emit.h"
#include "params.h"

struct tree {
    uint32_t n, fan, extra; /* fan 0: binomial */
    uint32_t first;         /* the group's member at position 0 */
};

struct forest {
    uint32_t colours, inner; /* inner: positions with children, of one colour */
    struct tree tree;        /* colour 0 */
};

static struct tree tree_of(const struct forest *f, uint32_t colour)
{
    struct tree t = f->tree;
    t.first = (uint32_t)((uint64_t)colour * f->inner % t.n);
    return t;
}

static uint32_t position(const struct tree *t, uint32_t me)
{
    return (me + t->n - t->first) % t->n;
}

static uint32_t at_position(const struct tree *t, uint32_t pos)
{
    return (pos + t->first) % t->n;
}

static uint32_t parent(const struct tree *t, uint32_t pos)
{
    const uint32_t wider = t->extra * (t->fan + 1); /* children of the first `extra` positions */
    if (t->fan == 0)
        return pos & (pos - 1);
    return pos - 1 < wider ? (pos - 1) / (t->fan + 1) : t->extra + (pos - 1 - wider) / t->fan;
}

static uint32_t first_child(const struct tree *t, uint32_t pos)
{
    return 1 + pos * t->fan + least(pos, t->extra);
}

static uint32_t child(const struct tree *t, uint32_t pos, uint32_t i)
{
    return t->fan == 0 ? pos + (1u << i) : first_child(t, pos) + i;
}

static uint32_t nchild(const struct tree *t, uint32_t pos)
{
    uint32_t n = 0;

    if (t->fan == 0) {
        while (n < 31 && (pos == 0 || (1u << n) < (pos & -pos)) && child(t, pos, n) < t->n)
            n++;
        return n;
    }
    if (pos >= t->n || first_child(t, pos) >= t->n)
        return 0;
    return least(t->fan + (pos < t->extra), t->n - first_child(t, pos));
}

/* A binomial tree's children come one after the other, so that few TMP slots serve them all. */
static void reduce_up(struct plait_builder *b, const struct tree *t, const struct job *j)
{
    const struct range r = j->range;
    const uint32_t pos = position(t, j->me), n = nchild(t, pos), window = t->fan == 0 ? least(n, j->window) : n;
    const uint32_t tmp = plait_slots(b, window * r.nblk);
    enum plait_buf held = j->src;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = at_position(t, child(t, pos, i)), slot = tmp + i % window * r.nblk;
        plait_recv(b, member(&j->group, from), plait_tmp(slot), r.blk, r.nblk);
        reduce_pair(b, r, held, slot, j->me < from);
        held = PLAIT_OUT;
    }
    if (pos > 0)
        plait_send(b, member(&j->group, at_position(t, parent(t, pos))), span_at(held, r.blk), r.blk, r.nblk);
}

/* The last child first: in a binomial tree it has the most below it. */
static void broadcast_down(struct plait_builder *b, const struct tree *t, const struct job *j)
{
    const struct range r = j->range;
    const uint32_t pos = position(t, j->me);

    if (pos > 0)
        plait_recv(b, member(&j->group, at_position(t, parent(t, pos))), plait_out(r.blk), r.blk, r.nblk);
    for (uint32_t i = nchild(t, pos); i-- > 0;)
        plait_send(b, member(&j->group, at_position(t, child(t, pos, i))), plait_out(r.blk), r.blk, r.nblk);
}

void binomial_reduce(struct plait_builder *b, const struct job *j)
{
    const struct tree t = { .n = j->group.n };
    reduce_up(b, &t, j);
}

void binomial_broadcast(struct plait_builder *b, const struct job *j)
{
    const struct tree t = { .n = j->group.n };
    broadcast_down(b, &t, j);
}

/* ---- Forests ----------------------------------------------------------------------------------- */

/* A preset is the fan-out k, 0 for a binomial tree; parameters may replace it. */
static struct forest forest_of(const struct plait_alg *self, const struct plait_shape *s)
{
    const uint32_t *preset = self->preset, k = s->nparam > 0 ? s->param[0] : *preset;
    const uint32_t n = s->nrank, colours = least(k, n), others = n - 1;
    const bool wide = s->nparam > 1;

    if (k == 0)
        return (struct forest){ 1, 1, { .n = n } };
    if (!wide || n == 1)
        return (struct forest){ colours, (others + k - 1) / k, { .n = n, .fan = k } };
    const uint32_t inner = least(n / colours, others);
    return (struct forest){ colours, inner, { .n = n, .fan = others / inner, .extra = others % inner } };
}

static void emit_in_group(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          const struct job *j)
{
    const struct forest f = forest_of(self, s);
    struct job colour = *j;

    if (f.tree.n == 1)
        plait_copy(b, plait_out(j->range.blk), span_at(j->src, j->range.blk), j->range.blk, j->range.nblk);
    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        colour.range = part(j->range, f.colours, c);
        reduce_up(b, &t, &colour);
    }
    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        colour.range = part(j->range, f.colours, c);
        broadcast_down(b, &t, &colour);
    }
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const struct job all = whole_vector(b, s, me, forest_of(self, s).colours);
    emit_in_group(self, b, s, &all);
}

/* ---- Cost -------------------------------------------------------------------------------------- */

static uint64_t depth_of(const struct tree *t, uint32_t pos)
{
    uint64_t n = 0;
    for (; pos > 0; pos = parent(t, pos))
        n++;
    return n;
}

/*
 * Blocks: a rank sends one up in every colour but those it is the root of, and one to each child. Member m
 * is at position m mod inner of colour m / inner and, while colours overlap, so is N + m: those are the
 * ranks that are inner twice. Among the others a root or the position after it has the most children.
 */
static uint64_t most_sent(const struct forest *f)
{
    const struct tree *t = &f->tree;
    const uint64_t k = f->colours, last = k * f->inner;
    uint64_t sent = nchild(t, 0) + k - 1;

    if (f->inner > 1)
        sent = most(sent, nchild(t, 1) + k);
    for (uint64_t twice = t->n; twice < last; twice++) {
        const uint32_t p = (uint32_t)((twice - t->n) % f->inner), q = (uint32_t)(twice % f->inner);
        sent = most(sent, nchild(t, p) + nchild(t, q) + k - (p == 0) - (q == 0));
    }
    return sent;
}

/* Rounds: on every level an inner rank serves one child a round; other colours hold it up by what it sends in all. */
static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    const struct forest f = forest_of(self, s);
    const struct tree *t = &f.tree;
    struct plait_claim c = { .nblk = f.colours };

    if (t->n == 1)
        return c;
    const uint64_t height = t->fan == 0 ? log2_floor(t->n) : depth_of(t, t->n - 1);
    c.depth = 2 * height;
    c.sent = c.received = most_sent(&f);
    c.rounds = t->fan == 0 ? 2 * nchild(t, 0) : 2 * nchild(t, 0) * height + (f.colours > 1 ? c.sent : 0);
    return c;
}

static uint64_t moved(const struct plait_alg *self, const struct plait_shape *s, uint32_t me)
{
    const struct forest f = forest_of(self, s);
    uint64_t n = 0;

    for (uint32_t c = 0; c < f.colours; c++) {
        const struct tree t = tree_of(&f, c);
        n += nchild(&t, position(&t, me)) + (position(&t, me) > 0);
    }
    return n;
}

static uint64_t path(const struct plait_alg *self, const struct plait_shape *s, uint32_t from, uint32_t to,
                     uint32_t piece, struct range *first, struct range *last)
{
    const struct forest f = forest_of(self, s);
    const struct tree t = tree_of(&f, piece);

    *first = *last = (struct range){ piece, 1 };
    return depth_of(&t, position(&t, from)) + depth_of(&t, position(&t, to));
}

const struct family forest_family = { emit_in_group, moved, path };

/* ---- Presets ----------------------------------------------------------------------------------- */

/* "", "k" or "k:wide" */
static bool trees_parse(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    (void)self;
    s->nparam = *text != '\0';
    if (s->nparam > 0 && !take_number(&text, UINT16_MAX, &s->param[0]))
        return false;
    if (s->nparam > 0 && take(&text, ":wide"))
        s->param[s->nparam++] = 1;
    return *text == '\0';
}

/* clang-format off */
const struct plait_alg plait_alg_binomial = {
    .name = "binomial", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "one binomial tree from rank 0, up and down",
    .source = "folklore; Thakur et al. 2005",
    .canonical = true,
    .preset = &(const uint32_t){ 0 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_chain = {
    .name = "chain", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "one chain to rank 0 and back",
    .source = "folklore",
    .preset = &(const uint32_t){ 1 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_double_tree = {
    .name = "double-tree", .coll = PLAIT_ALLREDUCE, .params = "",
    .text = "two binary trees, half the vector each, with different inner ranks",
    .source = "Sanders, Speck & Traeff 2009",
    .preset = &(const uint32_t){ 2 },
    .applies = any_count, .emit = emit, .claim = claim,
};

const struct plait_alg plait_alg_trees = {
    .name = "trees", .coll = PLAIT_ALLREDUCE, .params = "[:k[:wide]]",
    .text = "k k-ary trees, 1/k of the vector each, with different inner ranks",
    .source = "Kumar et al. 2017",
    .preset = &(const uint32_t){ 4 },
    .parse = trees_parse, .applies = any_count, .emit = emit, .claim = claim,
};
