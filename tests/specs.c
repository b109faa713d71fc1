/* SPDX-License-Identifier: BSD-3-Clause */
#include "specs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLOURS 8

static const char *const map_names[] = { "", " nodes:4", " nodes:3+1+2" };

static void *must(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

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
            s->spec = must(realloc(s->spec, (s->capacity = 2 * s->capacity + 16) * sizeof *s->spec));
        struct spec *spec = &s->spec[s->n++];
        *spec = (struct spec){ .alg = alg, .shape = shape };
        snprintf(spec->text, sizeof spec->text, "%.63s%s", text, map_names[m]);
    }
}

/* "name", "name:k", "name:XxY" for every factorisation, "name:other". */
static void add_alg(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg)
{
    char text[PLAIT_MAX_SPEC];
    const uint32_t n = base->nrank;

    add(s, base, alg->name);
    if (alg->parse == NULL)
        return;
    for (uint32_t k = 1; k <= MOST_COLOURS; k++) {
        snprintf(text, sizeof text, "%.30s:%u", alg->name, k);
        add(s, base, text);
    }
    for (uint32_t x = 1; x <= n; x++)
        if (n % x == 0) {
            snprintf(text, sizeof text, "%.30s:%ux%u", alg->name, x, n / x);
            add(s, base, text);
        }
    for (const struct plait_alg *const *other = plait_algs; *other != NULL; other++)
        if (*other != alg) {
            snprintf(text, sizeof text, "%.30s:%.30s", alg->name, (*other)->name);
            add(s, base, text);
        }
}

void specs_init(struct specs *s, enum plait_coll coll, uint32_t nrank, bool inplace)
{
    static const uint32_t uneven[] = { 0, 0, 0, 1, 2, 2 };
    const struct plait_shape base = { .coll = coll, .nrank = nrank, .inplace = inplace };

    *s = (struct specs){ 0 };
    for (int m = 1; m < 3; m++)
        s->maps[m] = must(malloc(nrank * sizeof **s->maps));
    for (uint32_t r = 0; r < nrank; r++) {
        s->maps[1][r] = r / 4;
        s->maps[2][r] = r / 6 * 3 + uneven[r % 6];
    }
    for (const struct plait_alg *const *alg = plait_algs; *alg != NULL; alg++)
        if ((*alg)->coll == coll)
            add_alg(s, &base, *alg);
}

void specs_finish(struct specs *s)
{
    free(s->spec);
    free(s->maps[1]);
    free(s->maps[2]);
    *s = (struct specs){ 0 };
}
