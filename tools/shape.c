/* SPDX-License-Identifier: BSD-3-Clause */
#include "shape.h"

#include "allocate.h"
#include "message.h"
#include "option.h"

#include <inttypes.h>
#include <stdlib.h>

void shape_read(const char *nodes, const char *levels, uint32_t ranks, const char *flag, uint32_t most,
                struct plait_shape *shape)
{
    static uint32_t *node, *level;
    uint32_t n = 0, in_levels = 0;

    node = grow(node, most, sizeof *node);
    level = grow(level, (size_t)PLAIT_MAX_LEVELS * most, sizeof *level);
    if (nodes != NULL && !nodes_parse(nodes, node, most, &n))
        option_misuse("--nodes %s: must be like 4x2 (4 nodes of 2 ranks) or 3+1+2, with at most %" PRIu32 " ranks",
                      nodes, most);
    shape->nlevel = levels != NULL ? levels_parse(levels, level, PLAIT_MAX_LEVELS, most, &in_levels) : 0;
    if (levels != NULL && shape->nlevel == 0)
        option_misuse("--levels %s: must be at most %d maps as of --nodes, such as 2+1+3,3+3, of equally many ranks",
                      levels, PLAIT_MAX_LEVELS);
    if (nodes != NULL && levels != NULL && n != in_levels)
        option_misuse("--levels %s has %" PRIu32 " rank%s, but --nodes says %" PRIu32, levels, in_levels,
                      plural(in_levels), n);
    shape->nrank = nodes != NULL ? n : in_levels;
    if (shape->nrank != 0 && ranks != 0 && ranks != shape->nrank)
        option_misuse("--%s %s has %" PRIu32 " rank%s, but %s says %" PRIu32, nodes != NULL ? "nodes" : "levels",
                      nodes != NULL ? nodes : levels, shape->nrank, plural(shape->nrank), flag, ranks);
    shape->node = nodes != NULL ? node : NULL;
    shape->level = level;
}
