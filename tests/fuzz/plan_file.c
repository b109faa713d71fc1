/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plan files. An algorithm that is made of one is right, and its plans, printed and read again, are the same algorithm.
 * Every error names the file.
 */
#include "fuzz.h"

#include "plan/plan_check.h"
#include "plan/plan_file.h"

#define MOST 256 /* blocks and TMP slots: the checker needs memory for each */

/* A number above MOST behind one of these words? */
static bool is_large(const char *text)
{
    for (const char *at = text; (at = strpbrk(at, "bt")) != NULL; at++)
        if ((strncmp(at, "blocks", 6) == 0 && strtoul(at + 6, NULL, 10) > MOST) ||
            (strncmp(at, "tmp", 3) == 0 && strtoul(at + 3, NULL, 10) > MOST))
            return true;
    return false;
}

static struct plait_alg_set *set_of(const char *text)
{
    static const struct plait_alg *const none[] = { NULL };
    struct plait_alg_set *set = calloc(1, sizeof *set);

    MUST(set != NULL);
    const enum plait_status status = plait_alg_set_add(set, "fuzz.plan", text);
    MUST(status == PLAIT_OK || status == PLAIT_ERR_PLAN || status == PLAIT_ERR_CONFIG);
    MUST(status == PLAIT_OK || strncmp(plait_last_error(), "fuzz.plan:", 10) == 0);
    if (status == PLAIT_OK) {
        MUST(plait_alg_set_finish(set, none) == PLAIT_OK);
        return set;
    }
    plait_alg_set_destroy(set);
    return NULL;
}

static char *print(const struct plait_alg *alg, const struct plait_shape *shape)
{
    char *all = NULL;
    size_t size;
    FILE *f = open_memstream(&all, &size);

    MUST(f != NULL);
    fprintf(f, "algorithm %s\n", alg->name);
    for (uint32_t r = 0; r < shape->nrank; r++) {
        struct plait_plan *plan;
        char *text;
        MUST(plait_plan_emit(alg, shape, r, &plan) == PLAIT_OK && plait_plan_print(plan, &text) == PLAIT_OK);
        fputs(text, f);
        free(text);
        plait_plan_destroy(plan);
    }
    fclose(f);
    return all;
}

/* alone: nothing else is in the file */
static void must_be_right(const struct plait_alg *alg, const struct plait_plans_of *p, bool alone)
{
    const struct plait_shape shape = { .coll = alg->coll, .nrank = p->nrank, .root = p->root };

    MUST(alg->applies(alg, &shape) && plait_alg_check(alg, &shape, NULL) == PLAIT_OK);
    char *text = print(alg, &shape);
    struct plait_alg_set *again = set_of(text);
    MUST(again != NULL && (!alone || plait_alg_contents(again->list[0]) == plait_alg_contents(alg)));
    plait_alg_set_destroy(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = text_of(data, size);
    struct plait_alg_set *set = is_large(text) ? NULL : set_of(text);

    if (set != NULL) {
        for (size_t i = 0; i < set->n; i++)
            for (size_t k = 0; k < set->algs[i]->nshape; k++)
                must_be_right(set->list[i], &set->algs[i]->shapes[k], set->n == 1 && set->algs[0]->nshape == 1);
    }
    plait_alg_set_destroy(set);
    free(text);
    return 0;
}
