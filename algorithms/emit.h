/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What emitters share: groups of ranks, ranges of blocks, and the moves that families build on. A
 * helper works for any group and any range, so that an algorithm over nodes is a few calls.
 */
#ifndef PLAIT_ALGORITHMS_EMIT_H
#define PLAIT_ALGORITHMS_EMIT_H

#include <plait/plan.h>

/* Member i is rank first + i * stride, or with a list the rank listed there. */
struct group {
    const uint32_t *list;
    uint32_t n, first, stride;
};

struct range { /* of blocks */
    uint32_t blk, nblk;
};

/* One collective among a group, as one member sees it. Results are in OUT. */
struct job {
    struct group group;
    uint32_t me; /* position in the group, not a rank */
    struct range range;
    enum plait_buf src; /* holds this rank's own contribution: IN, or OUT once something was combined */
    uint32_t tmp;       /* first TMP slot it may use */
    /*
     * TMP slots that partial results pass through in turn. Two are enough. EVERY_SLOT reuses none: then
     * nothing waits but for data, and the depth can be told even if members start at different depths.
     */
    uint32_t window;
};

#define EVERY_SLOT UINT32_MAX

static inline uint32_t member(const struct group *g, uint32_t i)
{
    const uint32_t at = g->first + i * g->stride;
    return g->list != NULL ? g->list[at] : at;
}

/* Members first, first + stride, ... of a group. */
static inline struct group subgroup(const struct group *g, uint32_t first, uint32_t stride, uint32_t n)
{
    return (struct group){ g->list, n, g->first + first * g->stride, stride * g->stride };
}

/* Part i of n consecutive parts; equal when n divides the range, else they differ by one block. */
static inline struct range part(struct range r, uint32_t n, uint32_t i)
{
    const uint32_t from = (uint32_t)((uint64_t)r.nblk * i / n), to = (uint32_t)((uint64_t)r.nblk * (i + 1) / n);
    return (struct range){ r.blk + from, to - from };
}

static inline struct plait_span span_at(enum plait_buf buf, uint32_t slot)
{
    return buf == PLAIT_IN ? plait_in(slot) : buf == PLAIT_OUT ? plait_out(slot) : plait_tmp(slot);
}

/* OUT <- own contribution op the one in TMP; the lower rank goes first. */
static inline void reduce_pair(struct plait_builder *b, struct range r, enum plait_buf src, uint32_t tmp,
                               bool own_first)
{
    const struct plait_span own = span_at(src, r.blk), other = plait_tmp(tmp);
    plait_reduce(b, plait_out(r.blk), own_first ? own : other, own_first ? other : own, r.blk, r.nblk);
}

static inline uint32_t least(uint32_t x, uint32_t y)
{
    return x < y ? x : y;
}

static inline uint64_t most(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static inline uint32_t gcd(uint32_t x, uint32_t y)
{
    while (y != 0) {
        const uint32_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* Rounded down; n >= 1. */
static inline uint32_t log2_floor(uint32_t n)
{
    uint32_t k = 0;
    while (n >>= 1)
        k++;
    return k;
}

/* Combine member by member, part by part: part i of the range ends in OUT of member i. ring_tmp() counts TMP slots. */
void ring_reduce_scatter(struct plait_builder *b, const struct job *j);
void direct_reduce_scatter(struct plait_builder *b, const struct job *j);
uint32_t ring_tmp(uint32_t n, uint32_t nblk, uint32_t window);

/* From there to everyone. */
void ring_all_gather(struct plait_builder *b, const struct job *j);
void direct_all_gather(struct plait_builder *b, const struct job *j);

/*
 * The canonical combination of the members' contributions as REDUCE steps, E(n) = E(m) + E(n-m). The
 * member's own lies in src; that of member i in the TMP slot receive_slot(), which one RECV filled.
 * Each slot is written once and read once, so that an engine can run the whole tree as one pass over
 * n sources. combine_tmp() counts the TMP slots, those of the sources included. n >= 2.
 */
void combine(struct plait_builder *b, const struct job *j, struct plait_span to);
uint32_t combine_tmp(uint32_t n, uint32_t nblk);
struct plait_span receive_slot(const struct job *j, uint32_t i);

/* Reduce the range to member 0, and broadcast it from there, along a binomial tree. */
void binomial_reduce(struct plait_builder *b, const struct job *j);
void binomial_broadcast(struct plait_builder *b, const struct job *j);
uint32_t binomial_tmp(const struct job *j);

/*
 * An algorithm that any group can run, for use inside others. `s` is a shape of the group's size; the
 * range holds a multiple of claim(s).nblk blocks. Methods get the object first, so that presets can add
 * fields to it.
 */
struct group_alg {
    const struct plait_alg *alg;
    uint32_t (*tmp)(const struct group_alg *a, const struct plait_shape *s, const struct job *j); /* TMP slots */
    void (*emit)(const struct group_alg *a, struct plait_builder *b, const struct plait_shape *s, const struct job *j);
    uint64_t (*moved)(const struct group_alg *a, const struct plait_shape *s, uint32_t me); /* blocks, each way */
    /*
     * Messages on the longest path for block `piece` of claim(s).nblk from member `from`'s contribution to member
     * `to`'s result, with EVERY_SLOT; and the blocks that its first and its last message carry.
     */
    uint64_t (*path)(const struct group_alg *a, const struct plait_shape *s, uint32_t from, uint32_t to, uint32_t piece,
                     struct range *first, struct range *last);
};

extern const struct group_alg *const plait_group_ring, *const plait_group_torus, *const plait_group_halving;
extern const struct group_alg *const plait_group_one_shot, *const plait_group_two_shot;
extern const struct group_alg *const plait_group_binomial, *const plait_group_chain, *const plait_group_double_tree;
extern const struct group_alg *const plait_group_trees;

/* All ranks of the comm, the whole vector. */
static inline void emit_whole(struct plait_builder *b, const struct group_alg *a, const struct plait_shape *s,
                              uint32_t me)
{
    const uint32_t nblk = (uint32_t)a->alg->claim(s).nblk;
    const struct job j = { { .n = s->nrank, .stride = 1 }, me, { 0, nblk }, PLAIT_IN, 0, 2 };

    plait_blocks(b, nblk, a->tmp(a, s, &j));
    a->emit(a, b, s, &j);
}

#endif
