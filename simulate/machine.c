/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE          UINT32_MAX
#define MOST_RATE     ((uint64_t)1 << 44) /* bytes per second: 17 TB/s */
#define MOST_LATENCY  1000000000000ull    /* ns: 1,000 s */
#define MOST_CHILDREN (1u << 20)
#define PROCESSOR     ((uint64_t)1 << 52) /* capacity of one: what the fastest activity alone takes is still precise */

/* ---- Descriptions ----------------------------------------------------------------------------------- */

static enum plait_status check_number(const char *unit, const char *field, uint64_t value, uint64_t least,
                                      uint64_t most)
{
    if (value >= least && value <= most)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG, "machine: %s%s%s is %" PRIu64 "; it must be %" PRIu64 " to %" PRIu64, unit,
                      unit[0] != '\0' ? "." : "", field, value, least, most);
}

static enum plait_status check_level(const struct plait_level *l)
{
    enum plait_status status;

    if (memchr(l->name, '\0', sizeof l->name) == NULL || l->name[0] == '\0')
        return plait_fail(PLAIT_ERR_ARG, "machine: a level has no name; it needs one of at most %zu bytes",
                          sizeof l->name - 1);
    status = check_number(l->name, "children", l->children, 1, MOST_CHILDREN);
    if (status == PLAIT_OK)
        status = check_number(l->name, "links", l->links, 0, 1024);
    if (status == PLAIT_OK)
        status = check_number(l->name, "bandwidth", l->bandwidth, 1, MOST_RATE);
    return status == PLAIT_OK ? check_number(l->name, "latency", l->latency, 0, MOST_LATENCY) : status;
}

enum plait_status plait_machine_check(const struct plait_machine *m)
{
    enum plait_status status;

    if (m == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_machine_check: machine is NULL");
    status = check_number("", "nlevel", m->nlevel, 1, PLAIT_MOST_LEVELS);
    for (uint32_t k = 0; k < m->nlevel && status == PLAIT_OK; k++) {
        status = check_level(&m->level[k]);
        if (status == PLAIT_OK && k > 0 && m->level[k].links == 0)
            status = plait_fail(PLAIT_ERR_ARG, "machine: %s.links is 0; only ranks of level 0 can share memory",
                                m->level[k].name);
    }
    if (status == PLAIT_OK && plait_machine_ranks(m) > MOST_CHILDREN)
        status = plait_fail(PLAIT_ERR_ARG, "machine: it has room for %" PRIu64 " ranks; %u are the most",
                            plait_machine_ranks(m), MOST_CHILDREN);
    if (status == PLAIT_OK)
        status = check_number("", "copy", m->copy, 0, MOST_RATE);
    if (status == PLAIT_OK)
        status = check_number("", "reduce", m->reduce, 0, MOST_RATE);
    if (status == PLAIT_OK)
        status = check_number("", "memory", m->memory, 0, MOST_RATE);
    if (status == PLAIT_OK)
        status = check_number("", "overhead", m->overhead, 0, MOST_LATENCY);
    return status;
}

uint64_t plait_machine_ranks(const struct plait_machine *m)
{
    uint64_t n = 1;

    for (uint32_t k = 0; k < m->nlevel && n <= MOST_CHILDREN; k++)
        n *= m->level[k].children;
    return n;
}

/* ---- Resources -------------------------------------------------------------------------------------- */

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

static uint64_t place_of(const struct plait_hardware *h, uint32_t rank)
{
    return h->place != NULL ? h->place[rank] : rank;
}

/* The unit of level `k`, counted over the machine, that contains this rank. */
static uint32_t unit_of(const struct plait_hardware *h, uint32_t rank, uint32_t k)
{
    return (uint32_t)(place_of(h, rank) / h->ranks_in[k]);
}

/* The child of a level-k unit that contains this rank: a unit of the level below, or the rank's place. */
static uint32_t child_of(const struct plait_hardware *h, uint32_t rank, uint32_t k)
{
    return k > 0 ? unit_of(h, rank, k - 1) : (uint32_t)place_of(h, rank);
}

enum plait_status plait_hardware_create(struct plait_hardware *h, const struct plait_machine *m, uint32_t nrank,
                                        const uint32_t *place)
{
    const uint64_t all = plait_machine_ranks(m);
    const uint32_t nunit = (uint32_t)(all / m->level[0].children);
    const bool crowded = m->processors > 0 && m->processors < m->level[0].children;
    uint64_t each = 1;
    enum plait_status status = check_places(m, nrank, place);

    *h = (struct plait_hardware){ .machine = m, .place = place, .nrank = nrank, .memory = NONE, .processors = NONE };
    if (status != PLAIT_OK)
        return status;
    for (uint32_t k = 0; k < m->nlevel; k++) {
        h->first[k] = h->nresource;
        h->nresource += m->level[k].links > 0 ? 2 * (uint32_t)(all / each) : 0;
        each *= m->level[k].children;
        h->ranks_in[k] = each;
    }
    h->memory = m->memory > 0 ? h->nresource : NONE;
    h->nresource += m->memory > 0 ? nunit : 0;
    h->processors = crowded ? h->nresource : NONE;
    h->nresource += crowded ? nunit : 0;
    h->resources = calloc((size_t)h->nresource + 1, sizeof *h->resources);
    if (h->resources == NULL)
        return plait_fail_memory("out of memory to simulate %" PRIu64 " links", (uint64_t)h->nresource);
    for (uint32_t i = 0; i < h->nresource; i++) {
        uint32_t k = m->nlevel - 1;
        while (k > 0 && i < h->first[k])
            k--;
        h->resources[i].capacity = m->level[k].links * m->level[k].bandwidth;
    }
    for (uint32_t i = 0; i < nunit; i++) {
        if (h->memory != NONE)
            h->resources[h->memory + i].capacity = m->memory;
        if (h->processors != NONE)
            h->resources[h->processors + i].capacity = m->processors * PROCESSOR;
    }
    return PLAIT_OK;
}

void plait_hardware_destroy(struct plait_hardware *h)
{
    free(h->resources);
}

uint32_t plait_hardware_level(const struct plait_hardware *h, uint32_t a, uint32_t b)
{
    uint32_t k = 0;

    while (unit_of(h, a, k) != unit_of(h, b, k))
        k++;
    return k;
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
    for (uint32_t k = top == 0 ? 0 : 1; k <= top; k++) {
        if (m->level[k].links == 0)
            continue;
        use(out, h->first[k] + 2 * child_of(h, from, k), 1);
        use(out, h->first[k] + 2 * child_of(h, to, k) + 1, 1);
        out->speed = m->level[k].bandwidth < out->speed ? m->level[k].bandwidth : out->speed;
    }
}

void plait_hardware_work(const struct plait_hardware *h, uint32_t rank, uint64_t speed, uint32_t touched,
                         struct plait_uses_of *out)
{
    *out = (struct plait_uses_of){ .speed = speed };
    if (h->memory != NONE && touched > 0)
        use(out, h->memory + unit_of(h, rank, 0), touched);
    if (h->processors != NONE)
        use(out, h->processors + unit_of(h, rank, 0), PROCESSOR / speed);
}

void plait_hardware_name(const struct plait_hardware *h, uint32_t resource, char *out, size_t room)
{
    const struct plait_machine *m = h->machine;

    if (h->processors != NONE && resource >= h->processors) {
        snprintf(out, room, "%s %" PRIu32 ", processors", m->level[0].name, resource - h->processors);
    } else if (h->memory != NONE && resource >= h->memory) {
        snprintf(out, room, "%s %" PRIu32 ", memory", m->level[0].name, resource - h->memory);
    } else {
        uint32_t k = m->nlevel - 1;
        while (resource < h->first[k] || m->level[k].links == 0)
            k--;
        snprintf(out, room, "%s %" PRIu32 ", %s", k > 0 ? m->level[k - 1].name : "rank", (resource - h->first[k]) / 2,
                 (resource - h->first[k]) % 2 == 0 ? "up" : "down");
    }
}
