/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <plait/config.h>
#include <plait/topology.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "package 1 of 2", or "several of 2 packages"; nothing where there is one. */
static void add(char *line, size_t room, const char *what, uint32_t number, uint32_t n)
{
    const size_t used = strlen(line);
    const char *comma = used > 0 ? ", " : "";

    if (n > 1 && number != PLAIT_NOWHERE)
        snprintf(line + used, room - used, "%s%s %" PRIu32 " of %" PRIu32, comma, what, number, n);
    else if (n > 1)
        snprintf(line + used, room - used, "%sin several of %" PRIu32 " %ss", comma, n, what);
}

void locality_print(void)
{
    struct plait_locality at;
    char line[256] = "";

    plait_locality_get(&at);
    if (!at.known) {
        printf("place       unknown (%s)\n", at.text);
        return;
    }
    add(line, sizeof line, "package", at.package, at.npackage);
    add(line, sizeof line, "memory node", at.memory, at.nmemory);
    add(line, sizeof line, "shared cache", at.cache, at.ncache);
    printf("place       %s%s%s\n", line[0] != '\0' ? line : "one package, memory node and shared cache",
           at.devices[0] != '\0' ? "; beside it: " : "", at.devices);
    if (at.text[0] != '\0')
        printf("advice      %s\n", at.text);
}
