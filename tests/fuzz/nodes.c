/* SPDX-License-Identifier: BSD-3-Clause */
/* Node maps such as 4x2 or 3+1+2: nodes are numbered from 0 without gaps, and the map prints and parses to itself. */
#include "fuzz.h"

#include "value.h"

#define ROOM 64

/* As "3+1+2". */
static void print(const uint32_t *node, uint32_t n, char *text)
{
    for (uint32_t r = 0, first = 0; r < n; r++)
        if (r + 1 == n || node[r + 1] != node[r]) {
            text += sprintf(text, "%s%u", first > 0 ? "+" : "", r + 1 - first);
            first = r + 1;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = text_of(data, size);
    uint32_t *node = malloc(ROOM * sizeof *node), again[ROOM], n = 0, m = 0;
    char printed[4 * ROOM];

    MUST(node != NULL);
    if (nodes_parse(text, node, ROOM, &n)) {
        MUST(n >= 1 && n <= ROOM && node[0] == 0);
        for (uint32_t r = 1; r < n; r++)
            MUST(node[r] == node[r - 1] || node[r] == node[r - 1] + 1);
        print(node, n, printed);
        MUST(nodes_parse(printed, again, n, &m) && m == n && memcmp(node, again, n * sizeof *node) == 0);
        MUST(!nodes_parse(text, again, n - 1, &m)); /* without room it is refused */
    }
    free(node);
    free(text);
    return 0;
}
