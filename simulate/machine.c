/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include "base/status.h"
#include "fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* ---- Descriptions ----------------------------------------------------------------------------------- */

static enum plait_status check_number(const char *unit, const char *field, uint64_t value, uint64_t least,
                                      uint64_t most)
{
    if (value >= least && value <= most)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG, "machine: %s%s%s is %" PRIu64 "; it must be %" PRIu64 " to %" PRIu64, unit,
                      unit[0] != '\0' ? "." : "", field, value, least, most);
}

static enum plait_status check_fields(const char *unit, const struct plait_field *fields, size_t n, const void *of)
{
    enum plait_status status = PLAIT_OK;

    for (size_t i = 0; i < n && status == PLAIT_OK; i++)
        status = check_number(unit, fields[i].name, plait_field_get(&fields[i], of), fields[i].least, fields[i].most);
    return status;
}

static enum plait_status check_level(const struct plait_level *l)
{
    if (memchr(l->name, '\0', sizeof l->name) == NULL || l->name[0] == '\0')
        return plait_fail(PLAIT_ERR_ARG, "machine: a level has no name; it needs one of at most %zu bytes",
                          sizeof l->name - 1);
    if (memchr(l->about, '\0', sizeof l->about) == NULL)
        return plait_fail(PLAIT_ERR_ARG, "machine: %s.about has no end; it needs one in its %zu bytes", l->name,
                          sizeof l->about);
    return check_fields(l->name, plait_level_fields, PLAIT_NLEVEL_FIELD, l);
}

static bool is_same_part(const struct plait_slow *a, const struct plait_slow *b)
{
    return a->rank == b->rank && a->child == b->child && (a->rank || a->level == b->level);
}

/* w: one of the machine's */
static enum plait_status check_slow(const struct plait_machine *m, const struct plait_slow *w)
{
    uint64_t n = plait_machine_ranks(m);
    enum plait_status status = check_number("slow", "percent", w->percent, 1, 100);

    if (status == PLAIT_OK && !w->rank)
        status = check_number("slow", "level", w->level, 0, m->nlevel - 1);
    if (status == PLAIT_OK && !w->rank && m->level[w->level].links == 0)
        status = plait_fail(PLAIT_ERR_ARG, "machine: slow: level %s has no links", m->level[w->level].name);
    for (uint32_t k = 0; status == PLAIT_OK && !w->rank && k < w->level; k++)
        n /= m->level[k].children;
    if (status == PLAIT_OK)
        status = check_number("slow", w->rank ? "rank" : "child", w->child, 0, n - 1);
    for (const struct plait_slow *other = m->slow; status == PLAIT_OK && other < w; other++)
        if (is_same_part(other, w))
            status =
                plait_fail(PLAIT_ERR_ARG, "machine: slow: %s%s %" PRIu32 " come%s twice; leave out one",
                           w->rank ? "" : "links of ", w->rank || w->level == 0 ? "rank" : m->level[w->level - 1].name,
                           w->child, w->rank ? "s" : "");
    return status;
}

enum plait_status plait_machine_check(const struct plait_machine *m)
{
    enum plait_status status;

    if (m == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_machine_check: machine is NULL");
    if (memchr(m->name, '\0', sizeof m->name) == NULL || memchr(m->about, '\0', sizeof m->about) == NULL)
        return plait_fail(PLAIT_ERR_ARG, "machine: name or about has no end; they need one in their %zu and %zu bytes",
                          sizeof m->name, sizeof m->about);
    status = check_number("", "nlevel", m->nlevel, 1, PLAIT_MOST_LEVELS);
    for (uint32_t k = 0; k < m->nlevel && status == PLAIT_OK; k++) {
        status = check_level(&m->level[k]);
        if (status == PLAIT_OK && k > 0 && m->level[k].links == 0 && m->level[k - 1].links > 0)
            status = plait_fail(PLAIT_ERR_ARG,
                                "machine: %s.links is 0; ranks cannot share memory beyond links, which %s has",
                                m->level[k].name, m->level[k - 1].name);
    }
    if (status == PLAIT_OK && plait_machine_ranks(m) > PLAIT_MOST_PLACES)
        status = plait_fail(PLAIT_ERR_ARG, "machine: it has room for %" PRIu64 " ranks; %u are the most",
                            plait_machine_ranks(m), PLAIT_MOST_PLACES);
    if (status == PLAIT_OK)
        status = check_fields("", plait_machine_fields, PLAIT_NMACHINE_FIELD, m);
    if (status == PLAIT_OK)
        status = check_number("", "nslow", m->nslow, 0, PLAIT_MOST_SLOW);
    for (uint32_t i = 0; status == PLAIT_OK && i < m->nslow; i++)
        status = check_slow(m, &m->slow[i]);
    return status;
}

uint64_t plait_machine_ranks(const struct plait_machine *m)
{
    uint64_t n = 1;

    for (uint32_t k = 0; k < m->nlevel && n <= PLAIT_MOST_PLACES; k++)
        n *= m->level[k].children;
    return n;
}

/* ---- Resources -------------------------------------------------------------------------------------- */

/* Find the resources' numbers. */
static void number_resources(struct plait_hardware *h, const struct plait_machine *m)
{
    const uint64_t all = plait_machine_ranks(m);
    uint64_t each = 1;

    *h = (struct plait_hardware){ .machine = m };
    for (uint32_t k = 0; k < m->nlevel; k++) {
        h->links[k] = m->level[k].links > 0 ? h->nresource : NONE;
        h->nresource += m->level[k].links > 0 ? 2 * (uint32_t)(all / each) : 0;
        each *= m->level[k].children;
        h->ranks_in[k] = each;
        h->node = m->level[k].links == 0 ? k : h->node;
    }
    for (uint32_t k = 0; k < m->nlevel; k++) {
        const struct plait_level *l = &m->level[k];
        const uint32_t nunit = (uint32_t)(all / h->ranks_in[k]);
        const bool crowded = l->processors > 0 && l->processors < h->ranks_in[k];
        h->memory[k] = l->memory > 0 ? h->nresource : NONE;
        h->nresource += l->memory > 0 ? nunit : 0;
        h->processors[k] = crowded ? h->nresource : NONE;
        h->nresource += crowded ? nunit : 0;
    }
}

static enum plait_status check_places(const struct plait_machine *m, uint32_t nrank, const uint32_t *place)
{
    const uint64_t room = plait_machine_ranks(m);
    enum plait_status status = PLAIT_OK;

    if (nrank > room)
        return plait_fail(PLAIT_ERR_ARG, "plait_simulate: %" PRIu32 " ranks, but machine '%s' has room for %" PRIu64,
                          nrank, m->name, room);
    unsigned char *taken = place != NULL ? calloc(room, 1) : NULL;
    if (place != NULL && taken == NULL)
        return plait_fail_memory("out of memory to simulate");
    for (uint32_t r = 0; place != NULL && r < nrank && status == PLAIT_OK; r++) {
        if (place[r] >= room || taken[place[r]]++ > 0)
            status = plait_fail(PLAIT_ERR_ARG,
                                "plait_simulate: place[%" PRIu32 "] is %" PRIu32
                                "; each rank needs a place of its own below %" PRIu64,
                                r, place[r], room);
    }
    free(taken);
    return status;
}

static void set_capacities(struct plait_hardware *h)
{
    const struct plait_machine *m = h->machine;
    const uint64_t all = plait_machine_ranks(m);

    for (uint32_t k = 0; k < m->nlevel; k++) {
        const struct plait_level *l = &m->level[k];
        const uint64_t nunit = all / h->ranks_in[k];
        for (uint64_t i = 0; h->links[k] != NONE && i < 2 * nunit * l->children; i++)
            h->resources[h->links[k] + i].capacity = l->links * l->bandwidth;
        for (uint64_t i = 0; h->memory[k] != NONE && i < nunit; i++)
            h->resources[h->memory[k] + i].capacity = l->memory;
        for (uint64_t i = 0; h->processors[k] != NONE && i < nunit; i++)
            h->resources[h->processors[k] + i].capacity = l->processors * PLAIT_PROCESSOR;
    }
    for (uint32_t i = 0; i < m->nslow; i++)
        for (uint32_t side = 0; side < 2 && !m->slow[i].rank; side++) {
            uint64_t *capacity = &h->resources[h->links[m->slow[i].level] + 2 * m->slow[i].child + side].capacity;
            *capacity = (*capacity * m->slow[i].percent + 99) / 100;
        }
}

enum plait_status plait_hardware_create(struct plait_hardware *h, const struct plait_machine *m, uint32_t nrank,
                                        const uint32_t *place)
{
    const enum plait_status status = check_places(m, nrank, place);

    number_resources(h, m);
    h->place = place;
    h->nrank = nrank;
    if (status != PLAIT_OK)
        return status;
    h->resources = calloc((size_t)h->nresource + 1, sizeof *h->resources);
    if (h->resources == NULL)
        return plait_fail_memory("out of memory to simulate %" PRIu32 " links", h->nresource);
    set_capacities(h);
    return PLAIT_OK;
}

void plait_hardware_destroy(struct plait_hardware *h)
{
    free(h->resources);
}

/* ---- What an activity uses ---------------------------------------------------------------------------- */

static uint64_t place_of(const struct plait_hardware *h, uint32_t rank)
{
    return h->place != NULL ? h->place[rank] : rank;
}

uint32_t plait_hardware_unit(const struct plait_hardware *h, uint32_t rank, uint32_t k)
{
    return (uint32_t)(place_of(h, rank) / h->ranks_in[k]);
}

/* The child of a level-k unit that contains this rank: a unit of the level below, or the rank's place. */
static uint32_t child_of(const struct plait_hardware *h, uint32_t rank, uint32_t k)
{
    return k > 0 ? plait_hardware_unit(h, rank, k - 1) : (uint32_t)place_of(h, rank);
}

uint32_t plait_hardware_level(const struct plait_hardware *h, uint32_t a, uint32_t b)
{
    uint32_t k = 0;

    while (plait_hardware_unit(h, a, k) != plait_hardware_unit(h, b, k))
        k++;
    return k;
}

uint32_t plait_hardware_processor(const struct plait_hardware *h, uint32_t rank)
{
    return h->nresource + (uint32_t)place_of(h, rank);
}

uint32_t plait_hardware_speed(const struct plait_hardware *h, uint32_t rank)
{
    const struct plait_machine *m = h->machine;
    uint32_t percent = 100;

    for (uint32_t i = 0; i < m->nslow; i++)
        if (m->slow[i].rank && m->slow[i].child == place_of(h, rank))
            percent = m->slow[i].percent;
    return percent;
}

static void use(struct plait_uses_of *u, uint32_t resource, uint64_t weight)
{
    u->use[u->n++] = (struct plait_use){ resource, weight };
}

void plait_hardware_route(const struct plait_hardware *h, uint32_t from, uint32_t to, struct plait_uses_of *out)
{
    const struct plait_machine *m = h->machine;
    const uint32_t top = plait_hardware_level(h, from, to);

    *out = (struct plait_uses_of){ .speed = m->level[top].bandwidth };
    for (uint32_t k = 0; k <= top; k++) {
        if (m->level[k].links == 0)
            continue;
        use(out, h->links[k] + 2 * child_of(h, from, k), 1);
        use(out, h->links[k] + 2 * child_of(h, to, k) + 1, 1);
        out->speed = m->level[k].bandwidth < out->speed ? m->level[k].bandwidth : out->speed;
    }
}

void plait_hardware_own(const struct plait_hardware *h, uint32_t rank, struct plait_uses_of *out)
{
    *out = (struct plait_uses_of){ 0 };
    for (uint32_t k = 0; k < h->machine->nlevel; k++)
        if (h->memory[k] != NONE)
            use(out, h->memory[k] + plait_hardware_unit(h, rank, k), 1);
    out->nmemory = out->n;
    for (uint32_t k = 0; k < h->machine->nlevel; k++)
        if (h->processors[k] != NONE)
            use(out, h->processors[k] + plait_hardware_unit(h, rank, k), 1);
}

/* ---- Names -------------------------------------------------------------------------------------------- */

uint32_t plait_machine_resources(const struct plait_machine *m)
{
    struct plait_hardware h;

    number_resources(&h, m);
    return h.nresource;
}

/* The unit of a list from `first` on, if `resource` is in the list. */
static bool is_in(uint32_t resource, uint32_t first, uint64_t n, uint32_t *unit)
{
    *unit = resource - first;
    return first != NONE && resource >= first && resource - first < n;
}

void plait_machine_resource(const struct plait_machine *m, uint32_t resource, char *out, size_t room)
{
    const uint64_t all = plait_machine_ranks(m);
    struct plait_hardware h;
    uint32_t i;

    number_resources(&h, m);
    snprintf(out, room, "%s", "");
    if (is_in(resource, h.nresource, all, &i))
        snprintf(out, room, "rank %" PRIu32 ", processor", i);
    for (uint32_t k = 0; k < m->nlevel; k++) {
        const uint64_t nunit = all / h.ranks_in[k];
        if (is_in(resource, h.links[k], 2 * nunit * m->level[k].children, &i))
            snprintf(out, room, "%s %" PRIu32 ", %s", k > 0 ? m->level[k - 1].name : "rank", i / 2,
                     i % 2 == 0 ? "up" : "down");
        else if (is_in(resource, h.memory[k], nunit, &i))
            snprintf(out, room, "%s %" PRIu32 ", memory", m->level[k].name, i);
        else if (is_in(resource, h.processors[k], nunit, &i))
            snprintf(out, room, "%s %" PRIu32 ", processors", m->level[k].name, i);
    }
}
