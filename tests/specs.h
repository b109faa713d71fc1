/* SPDX-License-Identifier: BSD-3-Clause */
/* All algorithms of the library with all parameters worth testing. */
#ifndef PLAIT_TESTS_SPECS_H
#define PLAIT_TESTS_SPECS_H

#include <plait/plan.h>

#include <stdlib.h>

/* Memory that was asked for: there must be some. */
static inline void *must_have(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

struct spec {
    char text[PLAIT_MAX_SPEC + 16]; /* e.g. "torus:4x8", with " nodes:4" when there is a node map */
    const struct plait_alg *alg;
    struct plait_shape shape;
};

struct specs {
    struct spec *spec;
    uint32_t n, capacity;
    uint32_t *maps[3]; /* node maps: NULL (one node), nodes of 4, nodes of 3, 1, 2, 3, 1, 2, ... */
};

/* Every spec of plait_algs that fits this many ranks; root 0. Free with specs_finish(). */
void specs_init(struct specs *s, enum plait_coll coll, uint32_t nrank, bool inplace);
/*
 * The i-th root worth testing, UINT32_MAX when there are no more: one that is not looked at where there is none; all of
 * up to `all_up_to` ranks; some of more.
 */
uint32_t specs_root(enum plait_coll coll, uint32_t nrank, uint32_t all_up_to, uint32_t i);
void specs_finish(struct specs *s);

#endif
