/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include "base/ascii.h"
#include "message.h"
#include "option.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 64

struct field {
    const char *name;
    size_t offset, size;
    uint32_t above; /* of the level so far above */
};

#define OF_LEVEL(name)   #name, offsetof(struct plait_level, name), sizeof((struct plait_level *)NULL)->name, 0
#define OF_MACHINE(name) #name, offsetof(struct plait_machine, name), sizeof((struct plait_machine *)NULL)->name, 0

static const struct field level_fields[] = {
    { OF_LEVEL(children) },
    { OF_LEVEL(links) },
    { OF_LEVEL(bandwidth) },
    { OF_LEVEL(latency) },
    { OF_LEVEL(overhead) },
    { OF_LEVEL(eager) },
    { OF_LEVEL(processors) },
    { OF_LEVEL(memory) },
    { "uplink", offsetof(struct plait_level, bandwidth), sizeof(uint64_t), 1 },
    { "uplinks", offsetof(struct plait_level, links), sizeof(uint32_t), 1 },
};
static const struct field machine_fields[] = { { OF_MACHINE(copy) }, { OF_MACHINE(reduce) }, { OF_MACHINE(cache) } };

/* ---- Changes -------------------------------------------------------------------------------------------- */

static const struct field *find_field(const struct field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static uint32_t find_level(const struct plait_machine *m, const char *name)
{
    uint32_t k = 0;

    while (k < m->nlevel && strcmp(m->level[k].name, name) != 0)
        k++;
    return k;
}

/* "/4", "*0.5" or, with `old` above 0, a number. */
static double changed(const char *change, const char *value, double old)
{
    const bool factor = *value == '/' || *value == '*';
    char *end;
    const double x = plait_real(value + factor, &end);

    if (end == value + factor || *end != '\0' || !(x >= 0) || x > 1e18 || (factor && x == 0) || (!factor && old < 0))
        option_misuse("--what-if %s: the value must be %s/FACTOR or *FACTOR, such as /4", change,
                      old < 0 ? "" : "a number, ");
    return !factor ? x : *value == '/' ? fabs(old) / x : fabs(old) * x;
}

static void set_field(const char *change, const struct field *f, void *of, const char *value)
{
    char *at = (char *)of + f->offset;
    const bool is_small = f->size == sizeof(uint32_t);
    const double old = is_small ? *(uint32_t *)(void *)at : (double)*(uint64_t *)(void *)at;
    const double now = round(changed(change, value, old));

    if (now > (is_small ? UINT32_MAX : 1e18))
        option_misuse("--what-if %s: %.0f is too large", change, now);
    if (is_small)
        *(uint32_t *)(void *)at = (uint32_t)now;
    else
        *(uint64_t *)(void *)at = (uint64_t)now;
}

/* "rank 5" or "host 3" is slower. */
static void add_slow(struct plait_machine *m, const char *change, char *name, const char *value)
{
    char *space = strrchr(name, ' ');
    const char *end = "";
    uint32_t child;

    *space = '\0';
    const bool rank = strcmp(name, "rank") == 0;
    const uint32_t k = rank ? 0 : find_level(m, name);
    if (!number_begins(space + 1, 0, UINT32_MAX - 1, &end, &child) || *end != '\0' || k + (rank ? 0 : 1) >= m->nlevel)
        option_misuse("--what-if %s: must be 'rank N' or, for the links of one unit, '%s N' of any level but the last",
                      change, m->level[0].name);
    const double percent = round(changed(change, value, -100));
    if (percent < 1 || percent > 100)
        option_misuse("--what-if %s: leaves %.0f %% of the speed; it must leave 1 to 100 %%", change, percent);
    if (m->nslow == PLAIT_MOST_SLOW)
        option_misuse("--what-if %s: more than %d slow parts", change, PLAIT_MOST_SLOW);
    m->slow[m->nslow++] =
        (struct plait_slow){ .rank = rank, .level = rank ? 0 : k + 1, .child = child, .percent = (uint32_t)percent };
}

static void change_one(struct plait_machine *m, const char *change)
{
    char name[128];
    const char *value = strchr(change, '=');
    const struct field *f;

    if (value == NULL || (size_t)(value - change) >= sizeof name)
        option_misuse("--what-if %s: must be LEVEL.FIELD=VALUE, such as rack.uplink=/4, or 'rank 5=/2'", change);
    snprintf(name, sizeof name, "%.*s", (int)(value++ - change), change);
    char *dot = strchr(name, '.');
    if (dot != NULL) {
        *dot = '\0';
        const uint32_t k = find_level(m, name);
        f = find_field(level_fields, sizeof level_fields / sizeof *level_fields, dot + 1);
        if (k == m->nlevel || f == NULL || k + f->above >= m->nlevel)
            option_misuse("--what-if %s: the machine has no %s '%s'; see its file and docs/predict.md", change,
                          k == m->nlevel ? "level" : "field", k == m->nlevel ? name : dot + 1);
        set_field(change, f, &m->level[k + f->above], value);
    } else if ((f = find_field(machine_fields, sizeof machine_fields / sizeof *machine_fields, name)) != NULL) {
        set_field(change, f, m, value);
    } else if (strchr(name, ' ') != NULL) {
        add_slow(m, change, name, value);
    } else {
        option_misuse("--what-if %s: must be LEVEL.FIELD=VALUE, such as rack.uplink=/4, or 'rank 5=/2'", change);
    }
}

void scene_change(struct scene *s, const char *changes)
{
    char *text = strdup(changes), *rest = NULL;

    for (char *c = text != NULL ? strtok_r(text, ",", &rest) : NULL; c != NULL; c = strtok_r(NULL, ",", &rest))
        change_one(&s->machine, c);
    free(text);
    if (plait_machine_check(&s->machine) != PLAIT_OK)
        option_misuse("--what-if %s: %s", changes, plait_last_error());
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

static struct plait_forecast *create(const struct plait_forecast_options *o)
{
    struct plait_forecast *f = NULL;

    if (plait_forecast_create(o, &f) != PLAIT_OK)
        complain("%s", plait_last_error());
    return f;
}

struct plait_forecast *scene_forecast(const struct scene *s, const struct plait_shape *shape, const char *spec)
{
    const char *names[MOST_CANDIDATES + 1] = { spec };
    struct plait_forecast_options o = {
        .machine = &s->machine, .shape = *shape, .place = s->place, .algorithms = spec != NULL ? names : NULL
    };
    struct plait_forecast *all = create(&o), *f;
    uint32_t n = 0;

    if (all == NULL || spec != NULL)
        return all;
    for (uint32_t k = 0; plait_forecast_algorithm(all, k) != NULL && n < MOST_CANDIDATES; k++)
        if (!simulate_takes_long(plait_forecast_algorithm(all, k), shape))
            names[n++] = plait_forecast_algorithm(all, k);
    names[n] = NULL;
    o.algorithms = names;
    f = create(&o);
    plait_forecast_destroy(all);
    return f;
}
