/* SPDX-License-Identifier: BSD-3-Clause */
#include "specs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLOURS 8

static const char *const map_names[] = { "", " nodes:4", " nodes:3+1+2" };

/* Add `text` when an algorithm takes it on this shape. */
static void add(struct specs *s, const struct plait_shape *base, const char *text)
{
    const struct plait_alg *alg;

    for (int m = 0; m < 3; m++) {
        struct plait_shape shape = *base;
        shape.node = s->maps[m];
        if (plait_alg_find(plait_algs, text, &shape, &alg) != PLAIT_OK)
            continue;
        if (m > 0 && strstr(alg->text, "node") == NULL)
            continue; /* does not look at nodes */
        if (s->n == s->capacity)
            s->spec = must_have(realloc(s->spec, (s->capacity = 2 * s->capacity + 16) * sizeof *s->spec));
        struct spec *spec = &s->spec[s->n++];
        *spec = (struct spec){ .alg = alg, .shape = shape };
        snprintf(spec->text, sizeof spec->text, "%.63s%s", text, map_names[m]);
    }
}

/* A word of the algorithm's own, or one of its parameters; refused ones are not added. */
static void add_params(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg, const char *params)
{
    char text[PLAIT_MAX_SPEC];

    snprintf(text, sizeof text, "%.24s:%.36s", alg->name, params);
    add(s, base, text);
}

/* "name:k" and "name:k:wide"; "name:XxY" and "name:XdxY" for every factorisation, and grids of one rank less. */
static void add_numbers(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg)
{
    const uint32_t n = base->nrank;
    char text[32];

    for (uint32_t k = 1; k <= MOST_COLOURS; k++)
        for (int wide = 0; wide < 2; wide++) {
            snprintf(text, sizeof text, wide ? "%u:wide" : "%u", k);
            add_params(s, base, alg, text);
        }
    for (uint32_t size = n > 1 ? n - 1 : n; size <= n; size++)
        for (uint32_t x = 1; x <= size; x++)
            for (int direct = 0; size % x == 0 && direct < 2; direct++) {
                snprintf(text, sizeof text, direct ? "%udx%u" : "%ux%u", x, size / x);
                add_params(s, base, alg, text);
            }
    if (n % 12 == 0) {
        snprintf(text, sizeof text, "2x%ux3", n / 6);
        add_params(s, base, alg, text);
    }
}

/* "name:other" and "name:in:other", for what is built of others. */
static void add_others(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg)
{
    static const char *const inside[] = { "", "tree:", "jia:", "direct:" };
    char text[40];

    for (const struct plait_alg *const *other = plait_algs; *other != NULL; other++)
        for (size_t i = 0; i < sizeof inside / sizeof *inside && (*other)->coll == alg->coll && *other != alg; i++) {
            snprintf(text, sizeof text, "%s%.24s", inside[i], (*other)->name);
            add_params(s, base, alg, text);
        }
    add_params(s, base, alg, "jia:trees:3:wide");
}

static void add_alg(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg)
{
    add(s, base, alg->name);
    if (alg->parse == NULL)
        return;
    add_numbers(s, base, alg);
    add_others(s, base, alg);
}

void specs_init(struct specs *s, enum plait_coll coll, uint32_t nrank, bool inplace)
{
    static const uint32_t uneven[] = { 0, 0, 0, 1, 2, 2 };
    const struct plait_shape base = { .coll = coll, .nrank = nrank, .inplace = inplace };

    *s = (struct specs){ 0 };
    for (int m = 1; m < 3; m++)
        s->maps[m] = must_have(malloc(nrank * sizeof **s->maps));
    for (uint32_t r = 0; r < nrank; r++) {
        s->maps[1][r] = r / 4;
        s->maps[2][r] = r / 6 * 3 + uneven[r % 6];
    }
    for (const struct plait_alg *const *alg = plait_algs; *alg != NULL; alg++)
        if ((*alg)->coll == coll)
            add_alg(s, &base, *alg);
}

uint32_t specs_root(enum plait_coll coll, uint32_t nrank, uint32_t all_up_to, uint32_t i)
{
    const uint32_t some[] = { 0, 1, nrank / 2 - 1, nrank / 2, nrank * 5 / 8, nrank - 1 };

    if (!plait_geometry_of(coll, nrank, 0, 0, 1).rooted)
        return i == 0 ? 0 : UINT32_MAX;
    if (nrank <= all_up_to || nrank < 4)
        return i < nrank ? i : UINT32_MAX;
    return i < sizeof some / sizeof *some ? some[i] : UINT32_MAX;
}

void specs_finish(struct specs *s)
{
    free(s->spec);
    free(s->maps[1]);
    free(s->maps[2]);
    *s = (struct specs){ 0 };
}
