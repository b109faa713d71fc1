/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Algorithms from plan files: the plans of all ranks, one after the other, as `plait-plan show` prints them. A line
 * "algorithm NAME" may come first; else the file's name without ".plan" is the algorithm's. Plans for other numbers of
 * ranks, roots or algorithms may follow in the same file.
 *
 * The plans are out of place, and their dependencies are kept as they are.
 */
#include "plan_file.h"

#include "base/ascii.h"
#include "base/hash.h"
#include "base/status.h"
#include "plan_check.h"

#include <stdio.h>
#include <string.h>

static struct plait_plans_of *find_shape(const struct plait_file_alg *a, uint32_t nrank, uint32_t root)
{
    for (size_t i = 0; i < a->nshape; i++)
        if (a->shapes[i].nrank == nrank && a->shapes[i].root == root)
            return &a->shapes[i];
    return NULL;
}

/* ---- The algorithm's functions ------------------------------------------------------------------ */

static const struct plait_plans_of *shape_of(const struct plait_alg *self, const struct plait_shape *shape)
{
    const bool rooted = plait_geometry_of(self->coll, shape->nrank, 0, 0, 1).rooted;

    return find_shape(self->preset, shape->nrank, rooted ? shape->root : 0);
}

static bool applies(const struct plait_alg *self, const struct plait_shape *shape)
{
    return shape_of(self, shape) != NULL;
}

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *shape)
{
    const struct plait_plans_of *p = shape_of(self, shape);

    return p != NULL ? p->claim : (struct plait_claim){ .nblk = 1 };
}

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape, uint32_t rank)
{
    const struct plait_plans_of *p = shape_of(self, shape);

    if (p != NULL)
        plait_emit_plan(b, p->plans[rank]);
}

uint64_t plait_alg_contents(const struct plait_alg *alg)
{
    return alg->emit == emit ? ((const struct plait_file_alg *)alg->preset)->hash : 0;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

static void free_plans(struct plait_plans_of *p)
{
    plait_plans_destroy(p->plans, p->nrank);
    p->plans = NULL;
}

/* Has the plan of rank r the same head as that of rank 0? */
static enum plait_status compare_heads(const struct plait_text *t, uint32_t line, const struct plait_plan *first,
                                       const struct plait_plan *plan, uint32_t r)
{
    const char *what = plan->coll != first->coll     ? "collective"
                       : plan->nrank != first->nrank ? "number of ranks"
                       : plan->root != first->root   ? "root"
                       : plan->nblk != first->nblk   ? "number of blocks"
                                                     : NULL;

    if (plan->root >= plan->nrank)
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: the root is %u, but there are %u ranks", t->name, line, plan->root,
                          plan->nrank);
    if (plan->inplace)
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: the plan is in place; a file has plans out of place", t->name, line);
    if (plan->rank != r)
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: the plan of rank %u is expected, not of rank %u", t->name, line, r,
                          plan->rank);
    if (what != NULL)
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: the plan of rank %u has another %s than that of rank 0", t->name,
                          line, r, what);
    return PLAIT_OK;
}

static enum plait_status read_plans(struct plait_text *t, struct plait_plans_of *p)
{
    enum plait_status status = PLAIT_OK;
    size_t room = 0;

    for (uint32_t r = 0; status == PLAIT_OK && (r == 0 || r < p->plans[0]->nrank); r++) {
        plait_text_skip(t);
        const uint32_t line = t->line;
        if (r > 0 && *t->at == '\0')
            return plait_fail(PLAIT_ERR_PLAN, "%s:%u: the plan of rank %u of %u is missing", t->name, line, r,
                              p->plans[0]->nrank);
        if (!plait_grow((void **)&p->plans, r + 1, &room, sizeof *p->plans))
            return plait_fail_memory("%s: out of memory for its plans", t->name);
        status = plait_text_read_plan(t, &p->plans[r]);
        if (status == PLAIT_OK) {
            p->nrank = r + 1;
            status = compare_heads(t, line, p->plans[0], p->plans[r], r);
        }
    }
    if (status == PLAIT_OK && p->plans[0]->coll == PLAIT_BARRIER)
        return plait_fail(PLAIT_ERR_PLAN, "%s:1: a barrier runs as an all-reduce; make it a plan of allreduce",
                          t->name);
    if (status == PLAIT_OK)
        p->root = p->plans[0]->root;
    return status;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* The name in the next line; without one the name before stays, at first the file's. */
static enum plait_status read_name(struct plait_text *t, char name[PLAIT_FILE_NAME])
{
    static const char word[] = "algorithm";
    const char *from = strrchr(t->name, '/'), *at = from != NULL ? from + 1 : t->name;
    size_t n = strlen(at);
    bool named = false;

    n -= n > 5 && strcmp(at + n - 5, ".plan") == 0 ? 5 : 0;
    plait_text_skip(t);
    const uint32_t line = t->line;
    if (strncmp(t->at, word, sizeof word - 1) == 0 && strchr(" \t\r\n", t->at[sizeof word - 1]) != NULL) {
        named = true;
        at = t->at + sizeof word - 1;
        at += strspn(at, " \t");
        n = strcspn(at, " \t\r\n");
        t->at = at + n;
        plait_text_skip(t);
    }
    if (!named && name[0] != '\0')
        return PLAIT_OK;
    if (n == 0 || n >= PLAIT_FILE_NAME || strchr(LETTERS, *at) == NULL || strspn(at, LETTERS "0123456789._-") < n)
        return plait_fail(PLAIT_ERR_PLAN,
                          "%s:%u: '%.*s' is no name of an algorithm: a letter, then letters, digits, '.', '_' and "
                          "'-', at most %d characters%s",
                          t->name, line, n < 60 ? (int)n : 60, at, PLAIT_FILE_NAME - 1,
                          named ? "" : "; give one in a first line, 'algorithm NAME'");
    if (named && t->line == line && *t->at != '\0')
        return plait_fail(PLAIT_ERR_PLAN, "%s:%u: 'algorithm NAME' is a line of its own", t->name, line);
    snprintf(name, PLAIT_FILE_NAME, "%.*s", (int)n, at);
    return PLAIT_OK;
}

/* ---- Proving ------------------------------------------------------------------------------------- */

static enum plait_status prove(struct plait_file_alg *a, const char *path, struct plait_plans_of *p)
{
    const struct plait_shape shape = { .coll = a->alg.coll, .nrank = p->nrank, .root = p->root };
    struct plait_report report;
    const enum plait_status status =
        plait_plan_check(a->name, &shape, (const struct plait_plan *const *)p->plans, NULL, &report);

    p->claim = report.seen;
    a->alg.canonical &= report.canonical;
    a->alg.no_partials &= report.no_partials;
    return status == PLAIT_ERR_PLAN ? plait_fail(status, "%s: %s", path, report.text) : status;
}

static void hash_plans(struct plait_file_alg *a, const struct plait_plans_of *p)
{
    uint64_t h = plait_hash(PLAIT_HASH_START, a->name, strlen(a->name));

    for (uint32_t r = 0; r < p->nrank; r++)
        h = plait_hash(h, p->plans[r], p->plans[r]->bytes);
    a->hash += h; /* in whatever order the files are read */
}

/* The text, "plans for 4, 8 ranks", and the remedy. */
static void describe(struct plait_file_alg *a)
{
    const bool rooted = plait_geometry_of(a->alg.coll, 1, 0, 0, 1).rooted;
    char list[160] = "";

    for (const struct plait_plans_of *p = a->shapes; p < a->shapes + a->nshape; p++) {
        plait_append(list, sizeof list, "%s%u", p == a->shapes ? "" : ", ", p->nrank);
        if (rooted)
            plait_append(list, sizeof list, " (root %u)", p->root);
    }
    snprintf(a->text, sizeof a->text, "plans for %s ranks", list);
    snprintf(a->remedy, sizeof a->remedy, "its plans are for %s ranks", list);
}

/* ---- Sets ---------------------------------------------------------------------------------------- */

/* The algorithm of this name and collective; a new one if there is none. NULL: out of memory. */
static struct plait_file_alg *find_or_add(struct plait_alg_set *set, const char *name, enum plait_coll coll)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->algs[i]->alg.coll == coll && plait_same_name(set->algs[i]->name, name))
            return set->algs[i];
    if (!plait_grow((void **)&set->algs, set->n + 1, &set->room, sizeof *set->algs))
        return NULL;
    struct plait_file_alg *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->alg = (struct plait_alg){ .name = a->name,
                                 .coll = coll,
                                 .params = "",
                                 .text = a->text,
                                 .source = a->source,
                                 .canonical = true,
                                 .no_partials = true,
                                 .preset = a,
                                 .applies = applies,
                                 .emit = emit,
                                 .claim = claim,
                                 .remedy = a->remedy };
    set->algs[set->n++] = a;
    return a;
}

static const char *library_name(const char *name, enum plait_coll coll)
{
    for (const struct plait_alg *const *own = plait_algs; *own != NULL; own++)
        if ((*own)->coll == coll && plait_same_name((*own)->name, name))
            return (*own)->name;
    return NULL;
}

/* Takes the plans, whatever it returns. */
static enum plait_status add(struct plait_alg_set *set, const char *path, const char *name, struct plait_plans_of *p)
{
    const enum plait_coll coll = (enum plait_coll)p->plans[0]->coll;
    struct plait_file_alg *a = NULL;
    enum plait_status status = PLAIT_OK;

    if (library_name(name, coll) != NULL)
        status = plait_fail(PLAIT_ERR_CONFIG,
                            "%s: the library has an algorithm '%s' for %s; give this one another name, in a first line "
                            "'algorithm NAME'",
                            path, library_name(name, coll), plait_coll_name(coll));
    else if ((a = find_or_add(set, name, coll)) == NULL)
        status = plait_fail_memory("%s: out of memory for an algorithm", path);
    else if (find_shape(a, p->nrank, p->root) != NULL)
        status = plait_fail(PLAIT_ERR_CONFIG,
                            "%s: there are two plans of '%s' for %u ranks; begin one with a line 'algorithm NAME'",
                            path, name, p->nrank);
    else if (!plait_grow((void **)&a->shapes, a->nshape + 1, &a->room, sizeof *a->shapes))
        status = plait_fail_memory("%s: out of memory for an algorithm", path);
    if (status != PLAIT_OK) {
        free_plans(p);
        return status;
    }
    a->shapes[a->nshape++] = *p;
    status = prove(a, path, &a->shapes[a->nshape - 1]);
    hash_plans(a, p);
    snprintf(a->source, sizeof a->source, "%s%s", strlen(path) < sizeof a->source ? "" : "...",
             strlen(path) < sizeof a->source ? path : path + strlen(path) - sizeof a->source + 5);
    describe(a);
    return status;
}

enum plait_status plait_alg_set_add(struct plait_alg_set *set, const char *path, const char *text)
{
    struct plait_text t = { .name = path, .at = text, .line = 1 };
    char name[PLAIT_FILE_NAME] = "";
    enum plait_status status;

    do {
        struct plait_plans_of p = { 0 };
        status = read_name(&t, name);
        if (status == PLAIT_OK)
            status = read_plans(&t, &p);
        if (status == PLAIT_OK)
            status = add(set, path, name, &p);
        else
            free_plans(&p);
    } while (status == PLAIT_OK && *t.at != '\0');
    return status;
}

const struct plait_alg *const *plait_alg_set_list(const struct plait_alg_set *set)
{
    static const struct plait_alg *const none[] = { NULL };

    return set != NULL ? set->list : none;
}

enum plait_status plait_alg_set_finish(struct plait_alg_set *set, const struct plait_alg *const *behind)
{
    size_t m = 0;

    while (behind[m] != NULL)
        m++;
    set->list = malloc((set->n + m + 1) * sizeof *set->list);
    if (set->list == NULL)
        return plait_fail_memory("out of memory for algorithms");
    for (size_t i = 0; i < set->n; i++)
        set->list[i] = &set->algs[i]->alg;
    for (size_t i = 0; i <= m; i++)
        set->list[set->n + i] = behind[i];
    return PLAIT_OK;
}

void plait_alg_set_destroy(struct plait_alg_set *set)
{
    for (size_t i = 0; set != NULL && i < set->n; i++) {
        for (size_t k = 0; k < set->algs[i]->nshape; k++)
            free_plans(&set->algs[i]->shapes[k]);
        free(set->algs[i]->shapes);
        free(set->algs[i]);
    }
    if (set != NULL) {
        free(set->algs);
        free(set->list);
    }
    free(set);
}
