/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Specs of algorithms such as torus:4x8 and hierarchy:jia:trees:2:wide, over all emitters. Input: ranks, in
 * place, node map, then the text. Every spec that is taken makes plans that the checker proves, figures equal to
 * the claim.
 */
#include "fuzz.h"

#include "base/ascii.h"
#include "engine/select.h"

#include <plait/plan.h>

#define MOST_RANKS 24

static void must_make_right_plans(const struct plait_alg *alg, const struct plait_shape *s, const char *spec)
{
    struct plait_report report;
    char name[PLAIT_MAX_SPEC];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, ":"), spec);
    MUST(s->nparam <= PLAIT_MAX_PARAM);
    MUST(alg->coll == s->coll && alg->applies(alg, s));
    MUST(plait_same_name(alg->name, name));
    if (plait_alg_check(alg, s, &report) != PLAIT_OK) {
        fprintf(stderr, "%s, %u ranks: %s\n", spec, s->nrank, report.text);
        abort();
    }
}

/* PLAIT_ALGO is "collective:spec". */
static void must_split(const char *text)
{
    char spec[PLAIT_MAX_SPEC], setting[2 * PLAIT_MAX_SPEC];

    plait_spec_for(text, PLAIT_ALLREDUCE, spec);
    MUST(memchr(spec, '\0', sizeof spec) != NULL);
    if (strlen(text) >= PLAIT_MAX_SPEC)
        return;
    snprintf(setting, sizeof setting, "allreduce:%s", text);
    plait_spec_for(setting, PLAIT_BARRIER, spec);
    MUST(strcmp(spec, text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t node[MOST_RANKS];
    const struct plait_alg *alg = NULL;

    if (size < 3)
        return 0;
    char *const text = text_of(data + 3, size - 3);
    struct plait_shape s = { .coll = PLAIT_ALLREDUCE, .nrank = 1 + data[0] % MOST_RANKS, .inplace = data[1] & 1 };
    for (uint32_t r = 0; r < s.nrank; r++) /* equal nodes, or one that is larger */
        node[r] = data[2] & 0x80 ? r / (1 + data[2] % 8u) : r > data[2] % 24u;
    s.node = data[1] & 2 ? node : NULL;
    const enum plait_status status = plait_alg_find(plait_algs, text, &s, &alg);
    MUST(status == PLAIT_OK || status == PLAIT_ERR_CONFIG);
    if (status == PLAIT_OK)
        must_make_right_plans(alg, &s, text);
    must_split(text);
    free(text);
    return 0;
}
