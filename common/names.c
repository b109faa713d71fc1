/* SPDX-License-Identifier: BSD-3-Clause */
#include "names.h"

#include "base/ascii.h"
#include "option.h"

#include <plait/plan.h>

#include <stdio.h>
#include <string.h>

int name_coll(const char *text, bool *vform)
{
    size_t n = strlen(text);

    if (n > strlen("_perf") && plait_same_word(text + n - strlen("_perf"), "_perf"))
        n -= strlen("_perf");
    *vform = n > 0 && plait_lower(text[n - 1]) == 'v';
    return plait_coll_find(text);
}

const char *name_algorithm(const char *text, int *coll)
{
    const size_t n = strcspn(text, ":");
    char name[40];

    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), text);
    *coll = text[n] == ':' ? plait_coll_find(name) : -1;
    return *coll >= 0 ? text + n + 1 : text;
}

const struct plait_alg *const *name_algorithms(void)
{
    const struct plait_alg *const *all = plait_algs;

    if (plait_alg_list(&all) != PLAIT_OK)
        option_misuse("%s", plait_last_error());
    return all;
}
