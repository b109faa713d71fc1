/* SPDX-License-Identifier: BSD-3-Clause */
#include "comma_locale.h"

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not here is as in POSIX, which localedef warns of. */
static const char source[] = "comment_char %\n"
                             "escape_char /\n"
                             "LC_CTYPE\n"
                             "upper <A>;<I>\n"
                             "lower <a>;<i>\n"
                             "toupper (<a>,<A>)\n"
                             "tolower (<A>,<a>)\n"
                             "END LC_CTYPE\n"
                             "LC_NUMERIC\n"
                             "decimal_point \",\"\n"
                             "thousands_sep \".\"\n"
                             "grouping 3;3\n"
                             "END LC_NUMERIC\n";

static bool make(const char *folder)
{
    char command[256], path[64];

    snprintf(path, sizeof path, "%s/source", folder);
    FILE *const f = fopen(path, "w");
    if (f == NULL || fputs(source, f) < 0 || fclose(f) != 0)
        return false;
    /* Without a file of characters it takes ASCII. Warnings make its status 1. */
    snprintf(command, sizeof command, "I18NPATH=%s localedef -c -f none -i %s %s/xx_XX >%s/log 2>&1", folder, path,
             folder, folder);
    return system(command) != -1 && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_ALL, "xx_XX") != NULL;
}

bool comma_locale(bool on)
{
    char folder[] = "/tmp/plait-locale-XXXXXX", command[64], *end;

    if (!on)
        return setlocale(LC_ALL, "C") != NULL;
    const bool made = mkdtemp(folder) != NULL && make(folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    const bool removed = system(command) == 0;
    const volatile int small_i = 'i'; /* strcasecmp() is the sanitizers' own under them */
    const bool acts = made && strtod("2.5", &end) == 2 && strcmp(end, ".5") == 0 && toupper(small_i) != 'I';
    if (!acts)
        fprintf(stderr, "no locale with a decimal comma could be made with localedef (Debian: libc-bin)\n");
    return acts && removed;
}
