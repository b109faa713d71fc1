/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology.h"

#include "machine_draw.h"
#include "message.h"

#include <stdio.h>

static void print_notes(const struct plait_machine *m)
{
    if (m->about[0] != '\0')
        printf("%s.\n", m->about);
    for (uint32_t k = m->nlevel; k-- > 0;)
        if (m->level[k].about[0] != '\0')
            printf("%s: %s.\n", m->level[k].name, m->level[k].about);
}

bool topology_print(const char *name, const struct machine_wish *wish)
{
    struct machine_source source;

    if (!machine_open(name, wish, &source))
        return false;
    if (source.host != NULL) {
        parts_draw(stdout, source.host, &source.wish);
        printf("\nFor the simulator (--export writes it):\n");
    }
    machine_draw(stdout, &source.machine);
    print_notes(&source.machine);
    machine_close(&source);
    return true;
}

bool topology_export(const char *name, const struct machine_wish *wish, const char *path)
{
    struct machine_source source;

    if (!machine_open(name, wish, &source))
        return false;
    machine_close(&source);
    return plait_machine_save(&source.machine, path) == PLAIT_OK || complain("--export %s", plait_last_error());
}
