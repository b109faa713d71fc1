/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology.h"

#include "file.h"
#include "machine_draw.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>

static void print_notes(const struct machine_source *s)
{
    if (s->notes.machine[0] != '\0')
        printf("%s.\n", s->notes.machine);
    for (uint32_t k = s->machine.nlevel; k-- > 0;)
        if (s->notes.level[k][0] != '\0')
            printf("%s: %s.\n", s->machine.level[k].name, s->notes.level[k]);
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
    print_notes(&source);
    machine_close(&source);
    return true;
}

bool topology_export(const char *name, const struct machine_wish *wish, const char *path)
{
    struct machine_source source;

    if (!machine_open(name, wish, &source))
        return false;
    char *text = machine_format(&source.machine, &source.notes);
    machine_close(&source);
    FILE *f = text == NULL ? NULL : strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    bool ok = f != NULL || (text != NULL && complain("--export %s: %m", path));
    if (ok)
        fputs(text, f);
    if (ok && f != stdout)
        ok = file_end(f, "--export", path);
    free(text);
    return ok;
}
