/* SPDX-License-Identifier: BSD-3-Clause */
/* The levels of a shape, as a communicator on the machine would find them. */
#include "machine.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Units of a level that have ranks. seen: [the machine's ranks], scratch */
static uint32_t count_units(const struct plait_hardware *h, uint32_t level, bool *seen)
{
    uint32_t n = 0;

    memset(seen, 0, plait_machine_ranks(h->machine) * sizeof *seen);
    for (uint32_t r = 0; r < h->nrank; r++) {
        bool *unit = &seen[plait_hardware_unit(h, r, level)];
        n += !*unit;
        *unit = true;
    }
    return n;
}

static void fill(const struct plait_hardware *h, uint32_t level, uint32_t *out)
{
    for (uint32_t r = 0; r < h->nrank; r++)
        out[r] = plait_hardware_unit(h, r, level);
}

/* The levels that divide units of the one above into smaller ones with several ranks, outermost first. */
static uint32_t find_levels(const struct plait_hardware *h, bool *seen, uint32_t levels[PLAIT_MAX_LEVELS])
{
    uint32_t n = 0, above = 1;

    for (uint32_t k = h->machine->nlevel - 1; k-- > 0 && n < PLAIT_MAX_LEVELS;) {
        const uint32_t units = count_units(h, k, seen);
        if (units == above || units == h->nrank)
            continue;
        levels[n++] = k;
        above = units;
    }
    return n;
}

enum plait_status plait_hardware_shape(const struct plait_hardware *h, struct plait_shape *shape, uint32_t **memory)
{
    const bool nodes = h->node + 1 < h->machine->nlevel;
    bool *seen = malloc(plait_machine_ranks(h->machine) * sizeof *seen);
    uint32_t levels[PLAIT_MAX_LEVELS], *room = malloc((PLAIT_MAX_LEVELS + 1) * (size_t)h->nrank * sizeof *room);

    *memory = room;
    if (seen == NULL || room == NULL) {
        free(seen);
        return plait_fail_memory("out of memory to simulate %u ranks", h->nrank);
    }
    if (shape->node == NULL && shape->nlevel == 0) {
        const uint32_t n = find_levels(h, seen, levels);
        for (uint32_t l = 0; l < n; l++)
            fill(h, levels[n - 1 - l], room + (size_t)l * h->nrank);
        fill(h, h->node, room + (size_t)n * h->nrank);
        shape->nlevel = n;
        shape->level = n > 0 ? room : NULL;
        shape->node = nodes ? room + (size_t)n * h->nrank : NULL;
    }
    free(seen);
    return PLAIT_OK;
}
