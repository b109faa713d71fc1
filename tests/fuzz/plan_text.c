/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans as text, one after the other. What the parser takes prints and parses to the same plan, and the checker
 * finds a comm made of such plans right or says what is wrong.
 */
#include "fuzz.h"

#include <plait/plan.h>

#define MOST_PLANS  8
#define MOST_MEMORY 256 /* blocks and TMP slots that the checker is given: it needs memory for each */

/* Cut before the next "plan" at the start of a line. */
static char *next_plan(char *text)
{
    char *next = strstr(text, "\nplan");

    if (next == NULL)
        return NULL;
    *next = '\0';
    return next + 1;
}

static void must_print_and_parse_to_the_same(const struct plait_plan *plan)
{
    struct plait_plan *again = NULL;
    char *text = NULL, *second = NULL;

    MUST(plait_plan_print(plan, &text) == PLAIT_OK);
    MUST(plait_plan_parse("fuzz", text, &again) == PLAIT_OK);
    MUST(again->bytes == plan->bytes && memcmp(again, plan, plan->bytes) == 0);
    MUST(plait_plan_print(again, &second) == PLAIT_OK && strcmp(text, second) == 0);
    free(text);
    free(second);
    plait_plan_destroy(again);
}

static void must_be_judged(struct plait_plan *const *plans, uint32_t n)
{
    const struct plait_shape shape = {
        .coll = (enum plait_coll)plans[0]->coll, .nrank = n, .root = plans[0]->root, .inplace = plans[0]->inplace
    };
    struct plait_report report = { 0 };

    for (uint32_t r = 0; r < n; r++)
        if (plans[r]->nblk > MOST_MEMORY || plans[r]->ntmp > MOST_MEMORY)
            return;
    const enum plait_status status =
        plait_plan_check("fuzz", &shape, (const struct plait_plan *const *)plans, NULL, &report);
    MUST(status == PLAIT_OK || status == PLAIT_ERR_PLAN || status == PLAIT_ERR_NOMEM);
    MUST(status != PLAIT_ERR_PLAN || ((unsigned)report.failed < PLAIT_NCHECK && report.text[0] != '\0'));
    MUST(memchr(report.text, '\0', sizeof report.text) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = text_of(data, size);
    struct plait_plan *plans[MOST_PLANS];
    uint32_t n = 0;

    for (char *at = text, *next; at != NULL && n < MOST_PLANS; at = next) {
        char *one;
        next = next_plan(at);
        if (asprintf(&one, "%s\n", at) < 0)
            break;
        /* The cut took the line's end, but the last plan has its own. */
        if (next == NULL)
            one[strlen(one) - 1] = '\0';
        const enum plait_status status = plait_plan_parse("fuzz", one, &plans[n]);
        MUST(status == PLAIT_OK || status == PLAIT_ERR_PLAN);
        if (status == PLAIT_OK)
            must_print_and_parse_to_the_same(plans[n++]);
        else
            MUST(strncmp(plait_last_error(), "fuzz:", 5) == 0);
        free(one);
    }
    if (n > 0)
        must_be_judged(plans, n);
    for (uint32_t i = 0; i < n; i++)
        plait_plan_destroy(plans[i]);
    free(text);
    return 0;
}
