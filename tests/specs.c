/* SPDX-License-Identifier: BSD-3-Clause */
#include "specs.h"

#include <stdarg.h>
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

/* Add "name:X", X as format and numbers say. */
static void add_form(struct specs *s, const struct plait_shape *base, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_form(struct specs *s, const struct plait_shape *base, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strlen(text) < PLAIT_MAX_SPEC)
        add(s, base, text);
}

/* ":XxY" and ":XxYxZ" for every factorisation. */
static void add_grids(struct specs *s, const struct plait_shape *base, const char *name)
{
    const uint32_t n = base->nrank;

    for (uint32_t x = 1; x <= n; x++) {
        if (n % x != 0)
            continue;
        add_form(s, base, "%s:%ux%u", name, x, n / x);
        for (uint32_t y = 2; x > 1 && y < n / x; y++)
            if (n / x % y == 0)
                add_form(s, base, "%s:%ux%ux%u", name, x, y, n / x / y);
    }
}

/* What may stand behind a ':' of any algorithm; those that do not take it are left out by add(). */
static void add_alg(struct specs *s, const struct plait_shape *base, const struct plait_alg *alg)
{
    static const char *const inside[] = { "tree", "jia", "direct" };

    add(s, base, alg->name);
    if (alg->parse == NULL)
        return;
    for (uint32_t k = 1; k <= MOST_COLOURS; k++) {
        add_form(s, base, "%s:%u", alg->name, k);
        add_form(s, base, "%s:%u:wide", alg->name, k);
    }
    add_grids(s, base, alg->name);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        add_form(s, base, "%s:%s", alg->name, inside[i]);
        for (const struct plait_alg *const *other = plait_algs; *other != NULL; other++)
            if (*other != alg)
                add_form(s, base, "%s:%s:%s", alg->name, inside[i], (*other)->name);
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
