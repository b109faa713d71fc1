/* SPDX-License-Identifier: BSD-3-Clause */
#include "cards.h"

#include "base/status.h"

#include <plait/topology.h>

#include <stdlib.h>
#include <string.h>

/* Outermost first. */
enum kind { RACK, HOST, PACKAGE, MEMORY, CACHE, NKIND };
static const char *const names[NKIND] = { "rack", "host", "package", "memory node", "cache" };
_Static_assert((int)NKIND == PLAIT_MAX_LEVELS && CACHE - PACKAGE + 1 == PLAIT_NPLACE, "one level of each kind");

/* Equal for ranks in the same object of this kind; 0: unknown. */
static uint64_t key_of(const struct plait_comm *comm, const struct plait_card *all, const uint32_t *node,
                       enum kind kind, uint32_t r)
{
    if (kind == RACK)
        return all[r].rack;
    if (kind == HOST)
        return (uint64_t)(comm->node != NULL ? comm->node : node)[r] + 1;
    const uint32_t place = all[r].place[kind - PACKAGE];
    return place == PLAIT_NOWHERE ? 0 : ((uint64_t)node[r] << 32 | place) + 1;
}

/*
 * Divide each group by the keys of its ranks; number the new groups by first ranks. A group with a rank of unknown
 * key stays whole. Returns the number of groups.
 *
 * whole  [n] scratch
 */
static uint32_t divide(uint32_t n, const uint32_t *group, const uint64_t *key, bool *whole, uint32_t *out)
{
    uint32_t count = 0;

    memset(whole, 0, n * sizeof *whole);
    for (uint32_t r = 0; r < n; r++)
        whole[group[r]] |= key[r] == 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t end = r; /* one above the last rank of the same new group */
        while (end > 0 && (group[end - 1] != group[r] || (!whole[group[r]] && key[end - 1] != key[r])))
            end--;
        out[r] = end > 0 ? out[end - 1] : count++;
    }
    return count;
}

enum plait_status plait_levels_find(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node)
{
    const uint32_t n = comm->nrank;
    uint32_t *level = calloc((size_t)n * (NKIND + 1), sizeof *level), first = NKIND, count = 1;
    uint64_t *key = malloc(n * sizeof *key);
    bool *whole = malloc(n * sizeof *whole);
    const bool failed = level == NULL || key == NULL || whole == NULL;
    const uint32_t *group = failed ? NULL : level + (size_t)NKIND * n; /* all in one */
    bool beyond = false;

    for (enum kind kind = RACK; !failed && kind < NKIND; kind++) {
        uint32_t *at = level + (size_t)(first - 1) * n;
        for (uint32_t r = 0; r < n; r++)
            key[r] = key_of(comm, all, node, kind, r);
        const uint32_t groups = divide(n, group, key, whole, at);
        if (groups == count || groups == n)
            continue;
        beyond |= kind != HOST;
        comm->level_names[--first] = names[kind];
        group = at;
        count = groups;
    }
    free(key);
    free(whole);
    if (failed || !beyond) {
        free(level);
        return failed ? plait_fail_memory("out of memory for a comm of %u ranks", n) : PLAIT_OK;
    }
    comm->nlevel = NKIND - first;
    memmove(level, level + (size_t)first * n, (size_t)comm->nlevel * n * sizeof *level);
    memmove(comm->level_names, comm->level_names + first, comm->nlevel * sizeof *comm->level_names);
    comm->level = level;
    return PLAIT_OK;
}
