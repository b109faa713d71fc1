/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include "message.h"
#include "names.h"
#include "option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 64
#define MOST_MESSAGES   1000000  /* of an algorithm that was not asked for by name: a minute or so */
#define MOST_AT_ONCE    10000    /* messages at the same time, which share links; likewise */
#define MOST_SIMULATED  20000000 /* messages of all its operations, of ranks that are simulated; likewise */
#define PROBE           16384    /* elements: one slice */

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

/* Would its simulation take long? What works over nodes sends few messages for its rounds: not it. */
static bool is_large(const char *spec, const struct plait_shape *shape)
{
    struct plait_shape flat = *shape;
    const struct plait_alg *alg;

    if (plait_alg_find(name_algorithms(), spec, &flat, &alg) != PLAIT_OK)
        return false;
    const struct plait_claim c = alg->claim(alg, &flat);
    const uint64_t messages = c.rounds * shape->nrank;
    return messages > MOST_MESSAGES || messages / (c.depth > 0 ? c.depth : 1) > MOST_AT_ONCE;
}

/* Would all these slices take long? Of ranks that are equal one is simulated: one small operation tells how many. */
static bool are_many(struct plait_forecast *f, uint32_t k, const struct plait_shape *shape, uint64_t slices)
{
    struct plait_prediction p;
    struct plait_shape flat = *shape;
    const struct plait_alg *alg;

    if (slices == 0 || plait_alg_find(name_algorithms(), plait_forecast_algorithm(f, k), &flat, &alg) != PLAIT_OK ||
        alg->claim(alg, &flat).rounds * shape->nrank * slices <= MOST_SIMULATED ||
        plait_forecast_time(f, k, PLAIT_FLOAT32, PROBE, &p) != PLAIT_OK)
        return false;
    return (double)p.messages / (double)p.slices * p.simulated / shape->nrank * (double)slices > MOST_SIMULATED;
}

static struct plait_forecast *create(const struct plait_forecast_options *o)
{
    struct plait_forecast *f = NULL;

    if (plait_forecast_create(o, &f) != PLAIT_OK)
        complain("%s", plait_last_error());
    return f;
}

struct plait_forecast *scene_forecast(const struct scene *s, const struct plait_shape *shape, const char *spec,
                                      uint64_t slices, char *large, size_t room)
{
    const char *names[MOST_CANDIDATES + 1] = { spec }, *name;
    struct plait_forecast_options o = {
        .machine = &s->machine, .shape = *shape, .place = s->place, .algorithms = spec != NULL ? names : NULL
    };
    struct plait_forecast *all = create(&o), *f;
    uint32_t n = 0;

    if (all == NULL || spec != NULL)
        return all;
    for (uint32_t k = 0; (name = plait_forecast_algorithm(all, k)) != NULL; k++)
        if (!is_large(name, shape) && !are_many(all, k, shape, slices))
            names[n++] = name;
        else if (large != NULL)
            list_add(large, room, name);
    names[n] = NULL;
    o.algorithms = names;
    f = n > 0 ? create(&o) : NULL;
    if (n == 0)
        complain("every algorithm takes long to simulate; name one to wait for it, or take fewer ranks or bytes");
    plait_forecast_destroy(all);
    return f;
}
