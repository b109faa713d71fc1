/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meaning and same bits: one symbolic run of all ranks.
 *
 * A slot holds a value: its block, the set of contributing ranks, and a hash of the expression that was evaluated. A
 * SEND and its RECV run as one step, so values go from slot to slot and messages need no storage. The geometry of the
 * collective gives the contents of IN at the start and of OUT at the end. Values share their contributor sets; a step
 * of many blocks usually makes one new set.
 *
 * The hash of a op b depends on the order of a and b. So equal hashes mean equal bits, also for operators that are
 * neither commutative nor associative, and for NaN payloads.
 */
#include "check.h"
#include "plan/plan_check.h"

struct value {
    uint64_t expr; /* hash of the expression */
    uint32_t set;  /* contributing ranks; PLAIT_NONE: the slot was never written */
    uint32_t blk;
    uint32_t base; /* first slot of the span in which it was written */
    uint32_t step; /* step that wrote it */
};

struct meaning {
    struct plait_checker *c;
    struct plait_sets sets;
    struct value **slots;            /* [nrank][places] */
    struct plait_geometry *geometry; /* [nrank] */
    bool combines;
    struct plait_scratch arrays;
};

static uint64_t leaf(uint32_t rank)
{
    return plait_mix(rank + 0x5eed5eed00000000u);
}

static uint64_t combined(uint64_t x, uint64_t y)
{
    return plait_mix(3 * x + plait_mix(y));
}

/* E(n) = E(m) + E(n-m), m the largest power of two below n, over the ranks first .. first+n-1. */
static uint64_t canonical(uint32_t first, uint32_t n)
{
    uint32_t m = 1;

    if (n == 1)
        return leaf(first);
    while (m < n - m)
        m *= 2;
    return combined(canonical(first, m), canonical(first + m, n - m));
}

static struct value *slot_at(const struct meaning *m, uint32_t rank, struct plait_span span, uint32_t i)
{
    return &m->slots[rank][plait_place(&m->geometry[rank], m->c->plans[rank]->inplace, span, i)];
}

static uint32_t block_of(const struct plait_side *side, uint32_t slot)
{
    return side->blk + slot * side->stride;
}

static enum plait_status read_fault(struct meaning *m, uint32_t n, struct plait_span span, uint32_t i,
                                    const char *fault, uint32_t number)
{
    const struct plait_step *s = plait_graph_step(m->c, n);
    const struct plait_span at = { span.buf, span.slot + i };

    return plait_check_fail(m->c, PLAIT_CHECK_MEANING, "rank %u step %u reads %s as block %u, which %s %u",
                            m->c->graph.rank[n], plait_graph_index(&m->c->graph, n), plait_span_text(at, 1).s,
                            s->blk + i, fault, number);
}

/* May step n read its i-th block from `span`? */
static enum plait_status check_read(struct meaning *m, uint32_t n, struct plait_span span, uint32_t i)
{
    const uint32_t rank = m->c->graph.rank[n], first = plait_graph_step(m->c, n)->blk;
    const struct value v = *slot_at(m, rank, span, i);
    const uint32_t blk = first == PLAIT_AS_LIES ? v.blk : first + i;

    if (v.set == PLAIT_NONE) {
        const struct plait_span at = { span.buf, span.slot + i };
        return plait_check_fail(m->c, PLAIT_CHECK_MEANING, "rank %u step %u (%s) reads %s, which was never written",
                                rank, plait_graph_index(&m->c->graph, n), plait_block_text(plait_graph_step(m->c, n)).s,
                                plait_span_text(at, 1).s);
    }
    if (v.blk != blk)
        return read_fault(m, n, span, i, "holds block", v.blk);
    if (span.buf == PLAIT_TMP && m->geometry[rank].kind == PLAIT_KIND_VECTOR && v.base != span.slot)
        return read_fault(m, n, span, i, "was written as part of a span that starts at slot", v.base);
    return PLAIT_OK;
}

static unsigned kind_of(const struct meaning *m, struct value v)
{
    const uint32_t size = m->sets.set[v.set].size;

    return size == m->c->nrank ? PLAIT_VALUE_FINAL : size == 1 ? PLAIT_VALUE_SINGLE : PLAIT_VALUE_PARTIAL;
}

/* Notes step n as `uneven` if these kinds, of one span, mix partial sums with others. */
static void note_kinds(const struct meaning *m, uint32_t n, unsigned kinds)
{
    struct plait_checker *c = m->c;

    if ((kinds & PLAIT_VALUE_PARTIAL) && kinds != PLAIT_VALUE_PARTIAL && c->uneven == PLAIT_NONE)
        c->uneven = n;
}

/* Records the kinds of the values that step n moves or computes. */
static void note_result(const struct meaning *m, uint32_t n, unsigned kinds)
{
    note_kinds(m, n, kinds);
    if (m->c->kinds != NULL && m->c->kinds_of == m->c->graph.rank[n])
        m->c->kinds[plait_graph_index(&m->c->graph, n)] = (unsigned char)kinds;
}

static enum plait_status check_reads(struct meaning *m, uint32_t n, struct plait_span span)
{
    const uint32_t nblk = plait_graph_step(m->c, n)->nblk;
    enum plait_status status = PLAIT_OK;
    unsigned kinds = 0;

    for (uint32_t i = 0; i < nblk && status == PLAIT_OK; i++) {
        status = check_read(m, n, span, i);
        if (status == PLAIT_OK)
            kinds |= kind_of(m, *slot_at(m, m->c->graph.rank[n], span, i));
    }
    note_kinds(m, n, kinds);
    return status;
}

/* Each slot of OUT belongs to one block, since blocks may differ in size. */
static enum plait_status check_write(struct meaning *m, uint32_t n)
{
    const struct plait_step *s = plait_graph_step(m->c, n);
    const uint32_t rank = m->c->graph.rank[n];

    for (uint32_t i = 0; s->dst.buf == PLAIT_OUT && i < s->nblk; i++) {
        const struct plait_span at = { PLAIT_OUT, (s->dst.slot + i) & 0x3fffffffu };
        if (block_of(&m->geometry[rank].out, at.slot) != s->blk + i)
            return plait_check_fail(m->c, PLAIT_CHECK_MEANING, "rank %u step %u writes block %u into %s", rank,
                                    plait_graph_index(&m->c->graph, n), s->blk + i, plait_span_text(at, 1).s);
    }
    return PLAIT_OK;
}

/* Step n writes v into block i of its destination. The slot takes over the reference to v.set. */
static void write_value(struct meaning *m, uint32_t n, uint32_t i, struct value v)
{
    const struct plait_step *s = plait_graph_step(m->c, n);
    struct value *slot = slot_at(m, m->c->graph.rank[n], s->dst, i);

    v.base = s->dst.slot;
    v.step = plait_graph_index(&m->c->graph, n);
    if (slot->set != PLAIT_NONE)
        plait_sets_drop(&m->sets, slot->set);
    *slot = v;
}

/* Step `to` writes the blocks that step `from` reads: a SEND and its RECV, or a COPY (from == to). */
static enum plait_status move(struct meaning *m, uint32_t from, uint32_t to)
{
    const struct plait_step *s = plait_graph_step(m->c, from);
    const uint32_t rank = m->c->graph.rank[from];
    enum plait_status status = check_reads(m, from, s->a);
    unsigned kinds = 0;

    if (status == PLAIT_OK)
        status = check_write(m, to);
    for (uint32_t i = 0; i < s->nblk && status == PLAIT_OK; i++) {
        const struct value v = *slot_at(m, rank, s->a, i);
        if (s->verb == PLAIT_STEP_SEND && m->combines && kind_of(m, v) == PLAIT_VALUE_PARTIAL)
            m->c->report->no_partials = false;
        kinds |= kind_of(m, v);
        plait_sets_hold(&m->sets, v.set);
        write_value(m, to, i, v);
    }
    note_result(m, from, kinds);
    note_result(m, to, kinds);
    return status;
}

static enum plait_status reduce(struct meaning *m, uint32_t n)
{
    const struct plait_step *s = plait_graph_step(m->c, n);
    const uint32_t rank = m->c->graph.rank[n];
    uint32_t last_a = PLAIT_NONE, last_b = PLAIT_NONE, set = PLAIT_NONE;
    unsigned kinds = 0;
    enum plait_status status = check_reads(m, n, s->a);

    if (status == PLAIT_OK)
        status = check_reads(m, n, s->b);
    if (status == PLAIT_OK)
        status = check_write(m, n);
    for (uint32_t i = 0; i < s->nblk && status == PLAIT_OK; i++) {
        const struct value a = *slot_at(m, rank, s->a, i), b = *slot_at(m, rank, s->b, i);
        if (a.set != last_a || b.set != last_b) {
            const uint32_t twice = plait_sets_common(&m->sets, a.set, b.set);
            if (twice != PLAIT_NONE)
                return plait_check_fail(m->c, PLAIT_CHECK_MEANING,
                                        "rank %u step %u adds the contribution of rank %u to block %u twice", rank,
                                        plait_graph_index(&m->c->graph, n), twice, s->blk + i);
            set = plait_sets_unite(&m->sets, a.set, b.set);
            if (set == PLAIT_NONE)
                return plait_check_nomem(m->c);
            last_a = a.set;
            last_b = b.set;
        } else {
            plait_sets_hold(&m->sets, set);
        }
        const struct value v = { .expr = combined(a.expr, b.expr), .set = set, .blk = s->blk + i };
        kinds |= kind_of(m, v);
        write_value(m, n, i, v);
    }
    note_result(m, n, kinds);
    return status;
}

static enum plait_status run(struct meaning *m)
{
    const struct plait_graph *g = &m->c->graph;
    enum plait_status status = PLAIT_OK;

    for (uint32_t i = 0; i < g->nnode && status == PLAIT_OK; i++) {
        uint32_t n = g->order[i];
        switch (plait_graph_step(m->c, n)->verb) {
        case PLAIT_STEP_SEND:
            status = move(m, n, g->pair[n]);
            break;
        case PLAIT_STEP_RECV:
            status = move(m, g->pair[n], n);
            break;
        case PLAIT_STEP_COPY:
            status = move(m, n, n);
            break;
        default:
            status = reduce(m, n);
        }
    }
    return status;
}

/* Without reduction, a slot must hold exactly the contribution of the block's source rank. */
static enum plait_status check_moved(struct meaning *m, uint32_t rank, uint32_t slot, uint32_t blk)
{
    const struct value *v = &m->slots[rank][slot];
    const uint32_t source = plait_block_of(m->c->coll, m->c->nrank, m->c->root, blk).from.first;

    if (v->set == source && v->blk == blk)
        return PLAIT_OK;
    return plait_check_fail(m->c, PLAIT_CHECK_MEANING,
                            "rank %u ends with something else in out[%u] (written by step %u) than block %u of rank %u",
                            rank, slot, v->step, blk, source);
}

/* Compares OUT[slot] of a rank with the result that the collective requires. */
static enum plait_status check_result(struct meaning *m, uint32_t rank, uint32_t slot)
{
    const struct value *v = &m->slots[rank][slot];
    const uint32_t blk = block_of(&m->geometry[rank].out, slot);
    uint32_t missing = PLAIT_NONE;

    if (v->set == PLAIT_NONE)
        return plait_check_fail(m->c, PLAIT_CHECK_MEANING, "rank %u never writes out[%u] (block %u)", rank, slot, blk);
    if (!m->combines)
        return check_moved(m, rank, slot, blk);
    if (plait_sets_is_all(&m->sets, v->set, &missing))
        return PLAIT_OK;
    if (missing != PLAIT_NONE && m->sets.exact)
        return plait_check_fail(m->c, PLAIT_CHECK_MEANING,
                                "rank %u ends with %u of %u contributions in out[%u] (block %u, written by step %u): "
                                "that of rank %u is missing",
                                rank, m->sets.set[v->set].size, m->c->nrank, slot, v->blk, v->step, missing);
    return plait_check_fail(
        m->c, PLAIT_CHECK_MEANING,
        "rank %u ends with other contributions in out[%u] (block %u, written by step %u) than each rank's once", rank,
        slot, v->blk, v->step);
}

static enum plait_status check_results(struct meaning *m)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < m->c->nrank; r++)
        for (uint32_t s = 0; s < m->geometry[r].out.nslot && status == PLAIT_OK; s++)
            status = check_result(m, r, s);
    return status;
}

/* Compares each block of OUT with the same block at the first rank that has it. */
static enum plait_status check_same_bits(struct meaning *m)
{
    const uint32_t nblk = m->c->plans[0]->nblk;
    const uint64_t order = canonical(0, m->c->nrank);
    struct value *first = plait_scratch(&m->arrays, nblk, sizeof *first);
    uint32_t *owner = plait_scratch(&m->arrays, nblk, sizeof *owner); /* the rank that `first` comes from */
    enum plait_status status = !m->arrays.failed ? PLAIT_OK : plait_check_nomem(m->c);

    for (uint32_t b = 0; status == PLAIT_OK && b < nblk; b++)
        owner[b] = PLAIT_NONE;
    m->c->report->canonical = m->combines;
    for (uint32_t r = 0; r < m->c->nrank; r++)
        for (uint32_t s = 0; status == PLAIT_OK && s < m->geometry[r].out.nslot; s++) {
            const struct value *v = &m->slots[r][s];
            const uint32_t blk = block_of(&m->geometry[r].out, s);
            if (owner[blk] == PLAIT_NONE) {
                owner[blk] = r;
                first[blk] = *v;
            } else if (v->expr != first[blk].expr) {
                status = plait_check_fail(m->c, PLAIT_CHECK_SAME_BITS,
                                          "rank %u step %u writes block %u, combined in another order than rank %u's",
                                          r, v->step, blk, owner[blk]);
            }
            m->c->report->canonical &= v->expr == order;
        }
    return status;
}

static bool init_slots(struct meaning *m)
{
    for (uint32_t r = 0; r < m->c->nrank; r++) {
        const struct plait_geometry *g = &m->geometry[r];
        const size_t n = plait_nplace(m->c->plans[r]);
        struct value *slots = m->slots[r] = plait_scratch(&m->arrays, n, sizeof *slots);
        if (slots == NULL)
            return false;
        for (size_t i = 0; i < n; i++)
            slots[i] = (struct value){ .set = PLAIT_NONE };
        for (uint32_t i = 0; i < g->in.nslot; i++)
            *slot_at(m, r, plait_in(i), 0) = (struct value){ leaf(r), r, block_of(&g->in, i), i, 0 };
    }
    return true;
}

enum plait_status plait_check_meaning(struct plait_checker *c)
{
    struct meaning m = { .c = c };
    enum plait_status status;

    m.slots = plait_scratch(&m.arrays, c->nrank, sizeof *m.slots);
    m.geometry = plait_scratch(&m.arrays, c->nrank, sizeof *m.geometry);
    for (uint32_t r = 0; m.geometry != NULL && r < c->nrank; r++)
        m.geometry[r] = plait_plan_geometry(c->plans[r]);
    m.combines = m.geometry != NULL && m.geometry[0].combines;
    c->report->no_partials = m.combines;
    c->report->probabilistic = c->nrank > PLAIT_EXACT_RANKS;
    if (m.arrays.failed || !init_slots(&m) || !plait_sets_init(&m.sets, c->nrank))
        status = plait_check_nomem(c);
    else
        status = run(&m);
    if (status == PLAIT_OK)
        status = check_results(&m);
    if (status == PLAIT_OK)
        status = check_same_bits(&m);
    plait_scratch_free(&m.arrays);
    plait_sets_finish(&m.sets);
    return status;
}
