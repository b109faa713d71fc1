/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"
#include "value.h"

#include <plait/config.h>
#include <plait/topology.h>

#include <inttypes.h>
#include <stdio.h>

/* "package 1 of 2", or "in several of 2 packages"; nothing where there is one. */
static void add(char *line, size_t room, const char *what, uint32_t number, uint32_t n)
{
    char text[64];

    if (n > 1 && number != PLAIT_NOWHERE)
        snprintf(text, sizeof text, "%s %" PRIu32 " of %" PRIu32, what, number, n);
    else
        snprintf(text, sizeof text, "in several of %" PRIu32 " %ss", n, what);
    if (n > 1)
        list_add(line, room, text);
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
