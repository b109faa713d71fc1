/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of contributing ranks, shared by values and reference-counted.
 *
 * Up to PLAIT_EXACT_RANKS ranks a set is a bitmap (exact). Beyond that a set is two sums of random 64-bit weights, each
 * over its ranks. A missing or doubly counted rank escapes notice with a probability of about 2^-64. A number names a
 * set. 0 .. nrank-1 are the sets of one rank and are never freed; the others are reused when free.
 */
#ifndef PLAIT_LIB_PLAN_CHECK_SETS_H
#define PLAIT_LIB_PLAN_CHECK_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_EXACT_RANKS 1024

struct plait_set {
    uint32_t ref;  /* values that refer to the set */
    uint32_t size; /* contributions, with repetitions */
};

struct plait_sets {
    bool exact;
    uint32_t nrank, nword; /* words of a set */
    uint32_t nset, cset;   /* sets in use or free; capacity */
    uint32_t free;         /* first of the list of free sets, linked through ref */
    uint64_t *word;        /* [cset][nword] */
    uint64_t all[2];       /* the sums of all ranks */
    struct plait_set *set; /* [cset] */
};

bool plait_sets_init(struct plait_sets *s, uint32_t nrank);
void plait_sets_finish(struct plait_sets *s);

/*
 * The union of two disjoint sets, with one reference; PLAIT_NONE when memory is short.
 * plait_sets_common: a rank that is in both, else PLAIT_NONE. With sums it notices only that the sizes exceed nrank.
 */
uint32_t plait_sets_unite(struct plait_sets *s, uint32_t x, uint32_t y);
uint32_t plait_sets_common(const struct plait_sets *s, uint32_t x, uint32_t y);

/* Does the set contain every rank once? If not, *missing is a rank that it lacks, or PLAIT_NONE if unknown. */
bool plait_sets_is_all(const struct plait_sets *s, uint32_t x, uint32_t *missing);

static inline void plait_sets_hold(struct plait_sets *s, uint32_t x)
{
    if (x >= s->nrank)
        s->set[x].ref++;
}

static inline void plait_sets_drop(struct plait_sets *s, uint32_t x)
{
    if (x < s->nrank || --s->set[x].ref > 0)
        return;
    s->set[x].ref = s->free;
    s->free = x;
}

/* SplitMix64: a 64-bit hash. */
static inline uint64_t plait_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
