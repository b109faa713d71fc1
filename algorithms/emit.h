/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by emitters: groups of ranks, ranges of blocks, and the moves that families build on. A helper works for any
 * group and any range, so that an algorithm over nodes is a few calls.
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

/* One collective among a group, as one member sees it. Results are in OUT. A rank's blocks lie in consecutive slots. */
struct job {
    struct group group;
    uint32_t me; /* position in the group, not a rank */
    struct range range;
    enum plait_buf src; /* holds this rank's own contribution: IN, or OUT after the first reduction */
    /*
     * TMP slots that partial results use in turn. Two are enough. EVERY_SLOT reuses none: then only data dependencies
     * remain, and the depth is known even if members start at different depths.
     */
    uint32_t window;
    uint32_t in0, out0; /* the blocks in slot 0 of IN and OUT */
    bool sums_in_tmp;   /* OUT has no room for partial results */
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

static inline struct plait_span out_at(const struct job *j, uint32_t blk)
{
    return plait_out(blk - j->out0);
}

/* Where this rank's own contribution to a block lies. */
static inline struct plait_span own_at(const struct job *j, uint32_t blk)
{
    return j->src == PLAIT_IN ? plait_in(blk - j->in0) : out_at(j, blk);
}

/* to <- own op other, the lower rank first. */
static inline void reduce_pair(struct plait_builder *b, struct range r, struct plait_span to, struct plait_span own,
                               struct plait_span other, bool own_first)
{
    plait_emit_reduce(b, to, own_first ? own : other, own_first ? other : own, r.blk, r.nblk);
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

/* Rounded up; n >= 1. */
static inline uint32_t log2_ceil(uint32_t n)
{
    return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

/* For `applies`. */
static inline bool any_count(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self;
    return s->nrank >= 1;
}

/* Reduce member by member, part by part: part i of the range ends in OUT of member i. */
void ring_reduce_scatter(struct plait_builder *b, const struct job *j);
void direct_reduce_scatter(struct plait_builder *b, const struct job *j);

/* Part i of the range, which is member i's own, to all members. */
void ring_all_gather(struct plait_builder *b, const struct job *j);
void direct_all_gather(struct plait_builder *b, const struct job *j);

/*
 * The canonical reduction of the members' contributions as REDUCE steps, E(n) = E(m) + E(n-m). The member's own
 * contribution lies in src. That of member i lies in receive_slot(j, first, i), filled by one RECV; these are n-1 times
 * nblk TMP slots from `first` on. Each slot is written once and read once, so that an engine can run the whole tree as
 * one n-source reduction. The result goes to *to, or with NULL to new TMP slots; returns its place.
 */
struct plait_span combine(struct plait_builder *b, const struct job *j, uint32_t first, const struct plait_span *to);
struct plait_span receive_slot(const struct job *j, uint32_t first, uint32_t i);

/* All members with the root: reduce the range to the root in the canonical order, broadcast the root's range. */
void direct_reduce(struct plait_builder *b, const struct job *j, uint32_t root);
void direct_broadcast(struct plait_builder *b, const struct job *j, uint32_t root);

/* Reduce the range to member 0, and broadcast it from there, along a binomial tree. */
void binomial_reduce(struct plait_builder *b, const struct job *j);
void binomial_broadcast(struct plait_builder *b, const struct job *j);

/*
 * A family of algorithms on any group of ranks, for use inside others. `s` is a shape of the group's size; the job's
 * range holds a multiple of claim(s).nblk blocks.
 */
struct family {
    void (*emit)(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                 const struct job *j);
    uint64_t (*moved)(const struct plait_alg *self, const struct plait_shape *s, uint32_t me); /* blocks, each way */
    /*
     * The longest path for block `piece` of claim(s).nblk, with EVERY_SLOT: messages from member `from`'s contribution
     * to member `to`'s result; and the blocks of its first and its last message.
     */
    uint64_t (*path)(const struct plait_alg *self, const struct plait_shape *s, uint32_t from, uint32_t to,
                     uint32_t piece, struct range *first, struct range *last);
};

extern const struct family grid_family, forest_family, direct_family;

/* Cut the collective's data into blocks; returns the job of all ranks of the comm. */
static inline struct job whole_comm(struct plait_builder *b, const struct plait_shape *s, uint32_t me, uint32_t nblk)
{
    const struct plait_geometry g = plait_geometry_of(s->coll, s->nrank, s->root, me, nblk);

    plait_blocks(b, nblk, 0);
    return (struct job){ .group = { .n = s->nrank, .stride = 1 },
                         .me = me,
                         .range = { 0, nblk },
                         .src = PLAIT_IN,
                         .window = 2,
                         .in0 = g.in.blk,
                         .out0 = g.out.blk,
                         .sums_in_tmp = g.out.nslot < nblk };
}

/* This rank's own part of a result is a copy of its contribution. */
static inline void keep(struct plait_builder *b, const struct job *j, uint32_t blk, uint32_t nblk)
{
    plait_emit_copy(b, out_at(j, blk), own_at(j, blk), blk, nblk);
}

#endif
