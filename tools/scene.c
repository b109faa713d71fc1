/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include "allocate.h"
#include "message.h"
#include "option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 64
#define MOST_MESSAGES   1000000 /* of an algorithm that was not asked for by name: a minute or so */
#define MOST_AT_ONCE    10000   /* messages at the same time, which share links; likewise */

void scene_change(struct scene *s, const char *changes)
{
    if (plait_machine_change(&s->machine, changes) != PLAIT_OK)
        option_misuse("--what-if %s", plait_last_error());
}

/* ---- Placement ------------------------------------------------------------------------------------------ */

void scene_place(struct scene *s, const char *placement, uint32_t nrank)
{
    const uint64_t all = plait_machine_ranks(&s->machine);
    const uint32_t each = s->machine.level[0].children, units = (nrank + each - 1) / each; /* as few as possible */
    unsigned long long n = 0, at;

    s->place = calloc(nrank, sizeof *s->place);
    if (s->place == NULL)
        option_misuse("--placement: out of memory");
    if (strcmp(placement, "round-robin") == 0) {
        for (uint32_t r = 0; r < nrank; r++)
            s->place[r] = r % units * each + r / units;
        return;
    }
    FILE *f = fopen(placement, "re");
    if (f == NULL)
        option_misuse("--placement %s: %m; must be round-robin, or a file with the place of each rank", placement);
    while (n < nrank && fscanf(f, "%llu", &at) == 1 && at < all)
        s->place[n++] = (uint32_t)at;
    fclose(f);
    if (n < nrank)
        option_misuse("--placement %s: number %llu is missing or no place; it needs %" PRIu32
                      " numbers from 0 to %" PRIu64,
                      placement, n + 1, nrank, all - 1);
}

/* ---- Candidates ----------------------------------------------------------------------------------------- */

/* Would its simulation take long? */
static bool is_large(const struct plait_alg *alg, const struct plait_shape *shape)
{
    const struct plait_claim c = alg->claim(alg, shape);
    const uint64_t messages = c.rounds * shape->nrank;

    return messages > MOST_MESSAGES || messages / (c.depth > 0 ? c.depth : 1) > MOST_AT_ONCE;
}

/* The node of each rank: what a forecast takes for them if it is given none. NULL: one node. */
static uint32_t *nodes_of(const struct scene *s, uint32_t nrank)
{
    const struct plait_machine *m = &s->machine;
    uint64_t each = m->level[0].children;

    if (m->nlevel == 1)
        return NULL;
    for (uint32_t k = 1; k < m->nlevel && m->level[k].links == 0; k++)
        each *= m->level[k].children;
    uint32_t *node = allocate(nrank, sizeof *node);
    for (uint32_t r = 0; r < nrank; r++)
        node[r] = (uint32_t)((s->place != NULL ? s->place[r] : r) / each);
    return node;
}

struct plait_forecast *scene_forecast(const struct scene *s, const struct plait_shape *shape, const char *spec,
                                      char *large, size_t room)
{
    const char *names[MOST_CANDIDATES + 1] = { spec };
    uint32_t *nodes = shape->node == NULL ? nodes_of(s, shape->nrank) : NULL;
    struct plait_forecast_options o = {
        .machine = &s->machine, .shape = *shape, .place = s->place, .algorithms = names
    };
    struct plait_forecast *f = NULL;
    const struct plait_alg *alg;
    uint32_t n = 0;

    o.shape.node = nodes != NULL ? nodes : shape->node;
    struct plait_shape found = o.shape;
    if (spec != NULL && plait_alg_find(plait_algs, spec, &found, &alg) != PLAIT_OK)
        option_misuse("%s", plait_last_error());
    for (const struct plait_alg *const *a = plait_algs; spec == NULL && *a != NULL && n < MOST_CANDIDATES; a++) {
        found = o.shape;
        if ((*a)->coll != shape->coll || plait_alg_find(plait_algs, (*a)->name, &found, &alg) != PLAIT_OK)
            continue;
        if (!is_large(alg, &found))
            names[n++] = (*a)->name;
        else if (large != NULL)
            list_add(large, room, (*a)->name);
    }
    if (plait_forecast_create(&o, &f) != PLAIT_OK)
        complain("%s%s", plait_last_error(), spec == NULL && n == 0 ? " that does not take long; name one" : "");
    free(nodes);
    return f;
}
