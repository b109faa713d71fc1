/* SPDX-License-Identifier: BSD-3-Clause */
#include "step.h"

#include "message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define WORTH 0.9 /* of the efficiency */

static bool has_steps(const struct task *t)
{
    return t->model.n > 0;
}

/* The last number of ranks with an efficiency above WORTH; 0: none. */
static uint64_t last_worth(const struct task *t, int k)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < t->n; i++)
        n = t->points[i].of[k].efficiency > WORTH && t->points[i].x > n ? t->points[i].x : n;
    return n;
}

/* The number of ranks with the least time for each sample. */
static uint64_t fastest(const struct task *t, int k)
{
    const struct point *best = &t->points[0];

    for (uint32_t i = 1; i < t->n; i++) {
        const struct point *p = &t->points[i];
        if ((double)p->of[k].time / (double)p->x < (double)best->of[k].time / (double)best->x)
            best = p;
    }
    return best->x;
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static double ratio(const struct result *r, const struct result *to)
{
    return (double)r->time / (double)to->time;
}

static json_t *result_json(const struct task *t, const struct result *r)
{
    json_t *o = json_pack("{s:f, s:s}", "time_us", 1e-6 * (double)r->time, "algorithm", r->algorithm);

    if (has_steps(t))
        json_object_update_new(o, json_pack("{s:f, s:f}", "exposed", r->exposed, "efficiency", r->efficiency));
    if (r->cuts != NULL) {
        json_t *cuts = json_array();
        for (uint32_t i = 0; i < r->ncut; i++)
            json_array_append_new(cuts, json_integer(r->cuts[i]));
        json_object_set_new(o, "cuts", cuts);
    }
    return o;
}

/* Beside `to`. */
static json_t *changed_json(const struct task *t, const struct result *r, const struct result *to)
{
    json_t *o = result_json(t, r);

    json_object_set_new(o, "ratio", json_real(ratio(r, to)));
    return o;
}

static json_t *point_json(const struct task *t, const struct point *p)
{
    const bool layout = t->options->step != NULL && t->options->scale == NULL;
    json_t *o = layout ? json_pack("{s:s}", t->what, p->label) : json_pack("{s:I}", t->what, (json_int_t)p->x);

    if (has_steps(t))
        json_object_set_new(o, "buckets", json_integer(p->of[0].nbucket));
    json_object_update_new(o, result_json(t, &p->of[0]));
    json_object_set_new(o, "not_simulated", names_json(p->of[0].large));
    if (t->nscene > 1)
        json_object_set_new(o, "what_if", changed_json(t, &p->of[1], &p->of[0]));
    return o;
}

/* The options that say what was simulated. */
static void set_question(json_t *root, const struct task *t)
{
    const struct simulate_options *o = t->options;

    if (o->step != NULL)
        json_object_set_new(root, "step", json_string(o->step));
    else if (o->sweep == NULL)
        json_object_set_new(root, "bytes", json_integer((json_int_t)(t->count * sizeof(float))));
    if (o->what_if != NULL)
        json_object_set_new(root, "what_if", json_string(o->what_if));
    if (o->placement != NULL)
        json_object_set_new(root, "placement", json_string(o->placement));
}

static void print_json(const struct task *t, const struct alone *alone, uint32_t nalone, const struct result *beside)
{
    json_t *list = json_array(), *changes = json_array();

    for (uint32_t i = 0; i < t->n; i++)
        json_array_append_new(list, point_json(t, &t->points[i]));
    for (uint32_t i = 0; i < nalone; i++) {
        json_t *o = changed_json(t, &alone[i].result, beside);
        json_object_set_new(o, "change", json_string(alone[i].change));
        json_array_append_new(changes, o);
    }
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:o, s:o}", "machine", t->scenes[0].machine.name, "collective",
                  plait_coll_name(t->shape->coll), "ranks", (int)t->shape->nrank, "results", list, "alone", changes);
    set_question(root, t);
    if (has_steps(t) && t->options->scale != NULL)
        json_object_update_new(root, json_pack("{s:I, s:I}", "worth_ranks", (json_int_t)last_worth(t, 0),
                                               "fastest_ranks", (json_int_t)fastest(t, 0)));
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

/* ---- Text ----------------------------------------------------------------------------------------------- */

static void print_table(const struct task *t)
{
    printf("%-16s", t->what);
    for (int k = 0; k < t->nscene; k++)
        printf("  %14s%s  %-20s", k == 0 ? "time (us)" : "what if (us)", has_steps(t) ? "  exposed  efficiency" : "",
               "algorithm");
    printf("%s\n", t->nscene > 1 ? "   ratio" : "");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct point *p = &t->points[i];
        printf("%-16s", p->label);
        for (int k = 0; k < t->nscene; k++) {
            printf("  %14.1f", 1e-6 * (double)p->of[k].time);
            if (has_steps(t))
                printf("  %5.1f %%  %8.1f %%", 100 * p->of[k].exposed, 100 * p->of[k].efficiency);
            printf("  %-20s", p->of[k].algorithm);
        }
        if (t->nscene > 1)
            printf("  %6.3f", ratio(&p->of[1], &p->of[0]));
        putchar('\n');
    }
}

/* The cuts of a computed layout, as options take them. */
static void print_cuts(const struct result *r)
{
    printf("\nThe layout computed, as --layouts and plait-train's --bucket take it: %s",
           r->ncut > 0 ? "cuts" : "threshold:all");
    for (uint32_t i = 0; i < r->ncut; i++)
        printf("%c%" PRIu32, i == 0 ? ':' : '+', r->cuts[i]);
    printf(".\n");
    if (r->ncut > 0)
        printf("A bucket begins at each of these gradients, which are counted from 0 in the order of their registration"
               " (of a list: from its end).\n");
}

static void print_worth(const struct task *t, int k)
{
    const uint64_t worth = last_worth(t, k), best = fastest(t, k);

    if (worth > 0)
        printf("%sThe efficiency is above %.0f %% up to %" PRIu64 " rank%s", k > 0 ? "With the changes: " : "",
               100 * WORTH, worth, plural(worth));
    else
        printf("%sThe efficiency is above %.0f %% nowhere", k > 0 ? "With the changes: " : "", 100 * WORTH);
    printf("; the time for each sample falls up to %" PRIu64 ".\n", best);
}

static void print_alone(const struct alone *alone, uint32_t n, const struct result *beside)
{
    const struct alone *best = alone;

    printf("\nTimes with each change alone: ");
    for (uint32_t i = 0; i < n; i++) {
        printf("%s%s %.3f", i > 0 ? ", " : "", alone[i].change, ratio(&alone[i].result, beside));
        best = alone[i].result.time < best->result.time ? &alone[i] : best;
    }
    if (best->result.time < beside->time)
        printf(". %s helps most.\n", best->change);
    else
        printf(". None of them helps.\n");
}

static void print_heading(const struct task *t)
{
    uint64_t least = t->points[0].x, most = least;

    for (uint32_t i = 1; i < t->n; i++) {
        least = t->points[i].x < least ? t->points[i].x : least;
        most = t->points[i].x > most ? t->points[i].x : most;
    }
    printf("%s\n%s", t->scenes[0].machine.name, plait_coll_name(t->shape->coll));
    if (!has_steps(t) && t->options->sweep == NULL)
        printf(" of %zu bytes", t->count * sizeof(float));
    if (t->options->scale == NULL)
        printf(", %" PRIu32 " ranks\n\n", t->shape->nrank);
    else if (least < most)
        printf(", %" PRIu64 " to %" PRIu64 " ranks\n\n", least, most);
    else
        printf(", %" PRIu64 " ranks\n\n", least);
}

/* Algorithms that were not simulated: of each number of ranks; otherwise all points have the same. */
static void print_large(const struct task *t)
{
    for (uint32_t i = 0; i < (t->options->scale != NULL ? t->n : 1); i++)
        for (int k = 0; k < t->nscene; k++) {
            const char *large = t->points[i].of[k].large, *before = k > 0 ? t->points[i].of[0].large : "";
            if (strcmp(large, before) == 0)
                continue;
            printf("Not simulated");
            if (t->options->scale != NULL)
                printf(" at %s ranks", t->points[i].label);
            printf("%s, since that takes long: %s.\n", k > 0 ? " with the changes" : "",
                   large[0] != '\0' ? large : "none");
        }
}

void points_print(const struct task *t, const struct alone *alone, uint32_t nalone, const struct result *beside)
{
    const struct model *m = &t->model;

    if (t->options->json) {
        print_json(t, alone, nalone, beside);
        return;
    }
    if (has_steps(t))
        printf("%s: %" PRIu64 " elements in %" PRIu32 " tensors; a rank computes %.3f ms %s; gradients travel as %s\n",
               t->options->step, m->elements, m->n, 1e-9 * (double)m->compute, m->about,
               plait_dtype_name(m->payload != PLAIT_NDTYPE ? m->payload : m->tensors[0].type));
    print_heading(t);
    print_table(t);
    print_large(t);
    if (has_steps(t))
        printf("\nexposed: the share of the step in which communication is not hidden by the computation.\n"
               "efficiency: the computation's time divided by the step's.\n");
    for (uint32_t i = 0; t->options->scale == NULL && i < t->n; i++)
        if (t->points[i].of[0].cuts != NULL)
            print_cuts(&t->points[i].of[0]);
    for (int k = 0; has_steps(t) && t->options->scale != NULL && k < t->nscene; k++)
        print_worth(t, k);
    if (nalone > 0)
        print_alone(alone, nalone, beside);
}
