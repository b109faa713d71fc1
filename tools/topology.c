/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology.h"

#include "machine_draw.h"
#include "message.h"

#include <errno.h>
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
    const bool to_stdout = strcmp(path, "-") == 0;
    struct machine_source source;

    if (!machine_open(name, wish, &source))
        return false;
    char *text = machine_format(&source.machine, &source.notes);
    machine_close(&source);
    if (text == NULL)
        return false;
    FILE *f = to_stdout ? stdout : fopen(path, "we");
    bool ok = f != NULL && fputs(text, f) >= 0;
    if (f != NULL && !to_stdout)
        ok = fclose(f) == 0 && ok;
    free(text);
    return ok || complain("--export %s: %s", path, strerror(errno));
}
