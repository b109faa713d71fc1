/* SPDX-License-Identifier: BSD-3-Clause */
#include "tree.h"

/* ---- Shapes ------------------------------------------------------------------------------------ */

/*
 * The role of `pos` in a binomial tree, from the whole range down to `pos` alone. When two halves are joined, the
 * position that reduces them receives the other half's value from the position that has it.
 */
struct kin {
    uint32_t parent, nchild, child[32];
};

static uint32_t combiner(const struct tree *t, uint32_t first, uint32_t n)
{
    return t->top - first < n ? t->top : first;
}

static struct kin kin_of(const struct tree *t, uint32_t pos)
{
    struct kin k = { .parent = NOBODY };
    uint32_t first = 0, n = t->n;

    while (n > 1) {
        const uint32_t half = 1u << log2_floor(n - 1), middle = first + half; /* the largest power of two below n */
        const bool left = pos < middle;
        const uint32_t whole = combiner(t, first, n);
        const uint32_t one = combiner(t, first, half), two = combiner(t, middle, n - half);
        if (pos == whole)
            k.child[k.nchild++] = left ? two : one;
        else if (pos == (left ? one : two))
            k.parent = whole;
        first = left ? first : middle;
        n = left ? half : n - half;
    }
    return k;
}

static uint32_t parent(const struct tree *t, uint32_t pos)
{
    const uint32_t wider = t->extra * (t->fan + 1); /* children of the first `extra` positions */

    if (t->fan == 0)
        return kin_of(t, pos).parent;
    if (pos == 0)
        return NOBODY;
    return pos - 1 < wider ? (pos - 1) / (t->fan + 1) : t->extra + (pos - 1 - wider) / t->fan;
}

static uint32_t first_child(const struct tree *t, uint32_t pos)
{
    return 1 + pos * t->fan + least(pos, t->extra);
}

/* A binomial tree's children: the child with the fewest positions below it first. */
static uint32_t child(const struct tree *t, uint32_t pos, uint32_t i)
{
    if (t->fan > 0)
        return first_child(t, pos) + i;
    const struct kin k = kin_of(t, pos);
    return k.child[k.nchild - 1 - i];
}

uint32_t tree_nchild(const struct tree *t, uint32_t pos)
{
    if (t->fan == 0)
        return kin_of(t, pos).nchild;
    if (pos >= t->n || first_child(t, pos) >= t->n)
        return 0;
    return least(t->fan + (pos < t->extra), t->n - first_child(t, pos));
}

uint32_t tree_depth(const struct tree *t, uint32_t pos)
{
    uint32_t n = 0;

    while ((pos = parent(t, pos)) != NOBODY)
        n++;
    return n;
}

/* ---- Members ----------------------------------------------------------------------------------- */

/* With `apart`, the other members count from the one after top. */
uint32_t tree_position(const struct tree *t, uint32_t me)
{
    const uint32_t other = t->apart ? (me + t->n - t->top) % (t->n + 1) : me;
    return (other + t->n - t->first) % t->n;
}

static uint32_t at_position(const struct tree *t, uint32_t pos)
{
    const uint32_t other = (pos + t->first) % t->n;
    return t->apart ? (other + 1 + t->top) % (t->n + 1) : other;
}

static bool above_all(const struct tree *t, uint32_t me)
{
    return t->apart && me == t->top;
}

static uint32_t count_children(const struct tree *t, uint32_t me)
{
    return above_all(t, me) ? 1 : tree_nchild(t, tree_position(t, me));
}

static uint32_t child_of(const struct tree *t, uint32_t me, uint32_t i)
{
    return at_position(t, above_all(t, me) ? 0 : child(t, tree_position(t, me), i));
}

static uint32_t parent_of(const struct tree *t, uint32_t me)
{
    if (above_all(t, me))
        return NOBODY;
    const uint32_t above = parent(t, tree_position(t, me));
    return above != NOBODY ? at_position(t, above) : t->apart ? t->top : NOBODY;
}

/* ---- Moves ------------------------------------------------------------------------------------- */

/* Serve a binomial tree's children one after the other, so that few TMP slots suffice. */
void reduce_up(struct plait_builder *b, const struct tree *t, const struct job *j)
{
    const struct range r = j->range;
    const uint32_t n = count_children(t, j->me), window = t->fan == 0 ? least(n, j->window) : n;
    const uint32_t tmp = plait_slots(b, window * r.nblk), up = parent_of(t, j->me);
    const bool sum_in_tmp = j->sums_in_tmp && n > 0;
    const struct plait_span sum = sum_in_tmp ? plait_tmp(plait_slots(b, r.nblk)) : out_at(j, r.blk);
    struct plait_span held = own_at(j, r.blk);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = child_of(t, j->me, i);
        const struct plait_span slot = plait_tmp(tmp + i % window * r.nblk);
        plait_emit_recv(b, member(&j->group, from), slot, r.blk, r.nblk);
        reduce_pair(b, r, sum, held, slot, j->me < from);
        held = sum;
    }
    if (up != NOBODY)
        plait_emit_send(b, member(&j->group, up), held, r.blk, r.nblk);
}

/* The last child first: in a binomial tree it has the most positions below it. */
void broadcast_down(struct plait_builder *b, const struct tree *t, const struct job *j)
{
    const struct range r = j->range;
    const uint32_t up = parent_of(t, j->me);

    if (up != NOBODY)
        plait_emit_recv(b, member(&j->group, up), out_at(j, r.blk), r.blk, r.nblk);
    for (uint32_t i = count_children(t, j->me); i-- > 0;)
        plait_emit_send(b, member(&j->group, child_of(t, j->me, i)), up != NOBODY ? out_at(j, r.blk) : own_at(j, r.blk),
                        r.blk, r.nblk);
}

void binomial_reduce(struct plait_builder *b, const struct job *j)
{
    const struct tree t = { .n = j->group.n };
    reduce_up(b, &t, j);
}

void binomial_broadcast(struct plait_builder *b, const struct job *j)
{
    const struct tree t = { .n = j->group.n };
    struct job back = *j;

    back.src = PLAIT_OUT;
    broadcast_down(b, &t, &back);
}

/* ---- Forests ----------------------------------------------------------------------------------- */

struct forest forest_make(uint32_t k, bool wide, uint32_t n)
{
    const uint32_t colours = least(k, n), others = n - 1;

    if (k == 0)
        return (struct forest){ 1, 1, { .n = n } };
    if (!wide || n == 1)
        return (struct forest){ colours, (others + k - 1) / k, { .n = n, .fan = k } };
    const uint32_t inner = least(n / colours, others);
    return (struct forest){ colours, inner, { .n = n, .fan = others / inner, .extra = others % inner } };
}

struct tree tree_of(const struct forest *f, uint32_t colour)
{
    struct tree t = f->tree;
    t.first = (uint32_t)((t.first + (uint64_t)colour * f->inner) % t.n);
    return t;
}

/*
 * A member passes one block up in every colour in which it is not the root, and receives one from each child. Member m
 * is at position m mod inner of colour m / inner. If colours overlap, member m is also at the position of N + m: these
 * members are inner twice. Among the others, a root or the position after it has the most children.
 */
uint64_t forest_most(const struct forest *f, bool both)
{
    const struct tree *t = &f->tree;
    const uint64_t k = f->colours, last = k * f->inner, up = both ? k : 0, roots = both;
    uint64_t moved = tree_nchild(t, 0) + up - roots;

    if (f->inner > 1)
        moved = most(moved, tree_nchild(t, 1) + up);
    for (uint64_t twice = t->n; twice < last; twice++) {
        const uint32_t p = (uint32_t)((twice - t->n) % f->inner), q = (uint32_t)(twice % f->inner);
        moved = most(moved, tree_nchild(t, p) + tree_nchild(t, q) + up - roots * ((p == 0) + (q == 0)));
    }
    return moved;
}
