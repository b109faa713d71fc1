/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *words(const struct plait_sets *s, uint32_t x)
{
    return s->word + (size_t)x * s->nword;
}

static bool grow(struct plait_sets *s, uint32_t capacity)
{
    uint64_t *word = realloc(s->word, (size_t)capacity * s->nword * sizeof *word);
    if (word != NULL)
        s->word = word;
    struct plait_set *set = realloc(s->set, (size_t)capacity * sizeof *set);
    if (set != NULL)
        s->set = set;
    if (word == NULL || set == NULL)
        return false;
    s->cset = capacity;
    return true;
}

bool plait_sets_init(struct plait_sets *s, uint32_t nrank)
{
    *s = (struct plait_sets){ .exact = nrank <= PLAIT_EXACT_RANKS, .nrank = nrank, .free = PLAIT_NONE };
    s->nword = s->exact ? (nrank + 63) / 64 : 2;
    if (!grow(s, 2 * nrank + 64))
        return false;
    memset(s->word, 0, (size_t)nrank * s->nword * sizeof *s->word);
    for (uint32_t r = 0; r < nrank; r++) {
        s->set[r] = (struct plait_set){ 1, 1 };
        if (s->exact) {
            words(s, r)[r / 64] = 1ull << r % 64;
        } else {
            words(s, r)[0] = plait_mix(r);
            words(s, r)[1] = plait_mix(~(uint64_t)r);
            s->all[0] += words(s, r)[0];
            s->all[1] += words(s, r)[1];
        }
    }
    s->nset = nrank;
    return true;
}

void plait_sets_finish(struct plait_sets *s)
{
    free(s->word);
    free(s->set);
    memset(s, 0, sizeof *s);
}

uint32_t plait_sets_unite(struct plait_sets *s, uint32_t x, uint32_t y)
{
    uint32_t set = s->free;

    if (set != PLAIT_NONE) {
        s->free = s->set[set].ref;
    } else {
        if (s->nset == s->cset && !grow(s, s->cset + s->cset / 2))
            return PLAIT_NONE;
        set = s->nset++;
    }
    uint64_t *to = words(s, set);
    const uint64_t *a = words(s, x), *b = words(s, y);
    for (uint32_t w = 0; w < s->nword; w++)
        to[w] = a[w] + b[w]; /* the union, as the sets are disjoint */
    s->set[set] = (struct plait_set){ 1, s->set[x].size + s->set[y].size };
    return set;
}

uint32_t plait_sets_common(const struct plait_sets *s, uint32_t x, uint32_t y)
{
    const uint64_t *a = words(s, x), *b = words(s, y);

    if (!s->exact)
        return s->set[x].size + s->set[y].size > s->nrank ? (x < s->nrank ? x : y < s->nrank ? y : 0) : PLAIT_NONE;
    for (uint32_t w = 0; w < s->nword; w++)
        if ((a[w] & b[w]) != 0)
            return 64 * w + (uint32_t)__builtin_ctzll(a[w] & b[w]);
    return PLAIT_NONE;
}

bool plait_sets_is_all(const struct plait_sets *s, uint32_t x, uint32_t *missing)
{
    *missing = PLAIT_NONE;
    if (!s->exact)
        return s->set[x].size == s->nrank && memcmp(s->all, words(s, x), sizeof s->all) == 0;
    if (s->set[x].size == s->nrank)
        return true;
    for (*missing = 0; (words(s, x)[*missing / 64] >> *missing % 64 & 1) != 0;)
        ++*missing;
    return false;
}
