/* SPDX-License-Identifier: BSD-3-Clause */
#include "value.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "message.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_number(const char *flag, const char *text, double least, double most, uint64_t *out)
{
    char *end;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || (double)value < least || (double)value > most)
        return complain("%s %s: must be a whole number from %.0f to %.0f", flag, text, least, most);
    *out = value;
    return true;
}

bool value_real(const char *flag, const char *text, double least, double most, double *out)
{
    char *end;
    const double value = plait_real(text, &end);

    if (end == text || *end != '\0' || !(value >= least && value <= most))
        return complain("%s %s: must be a number from %g to %g", flag, text, least, most);
    *out = value;
    return true;
}

bool value_bytes(const char *flag, const char *text, size_t *out)
{
    return plait_parse_bytes(text, out) || complain("%s %s: must be bytes, as 65536, 64K, 1M or 2G", flag, text);
}

bool list_has(const char *list, const char *name)
{
    char word[64];

    for (; list != NULL && *list != '\0'; list += strspn(list, " ")) {
        const size_t n = strcspn(list, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (plait_same_name(word, name))
            return true;
        list += n;
    }
    return false;
}

void list_add(char *text, size_t room, const char *name)
{
    const size_t used = strlen(text);

    snprintf(text + used, room - used, "%s%s", used > 0 ? ", " : "", name);
}

bool value_choice(const char *flag, const char *text, const struct choice *choices, void *out)
{
    char names[256] = "";

    for (const struct choice *c = choices; c->name != NULL; c++) {
        if (plait_same_name(c->name, text) || list_has(c->also, text)) {
            memcpy(out, &c->value, sizeof c->value);
            return true;
        }
        list_add(names, sizeof names, c->name);
    }
    return complain("%s %s: must be one of %s", flag, text, names);
}

bool value_picture(const char *flag, const char *text)
{
    const char *dot = strrchr(text, '.');

    return (dot != NULL && strcmp(dot, ".svg") == 0) || complain("%s %s: must be a name that ends in .svg", flag, text);
}

bool number_begins(const char *text, uint32_t least, uint32_t most, const char **end, uint32_t *out)
{
    char *stop;
    const unsigned long n = isdigit((unsigned char)*text) ? strtoul(text, &stop, 10) : 0;

    if (!isdigit((unsigned char)*text) || n < least || n > most)
        return false;
    *end = stop;
    *out = (uint32_t)n;
    return true;
}

bool nodes_parse(const char *text, uint32_t *node, uint32_t room, uint32_t *nrank)
{
    const char *times = strchr(text, 'x'), *end;
    uint32_t n = 0, nodes = 0;

    while (*text != '\0') {
        uint32_t repeat = 1, ranks;

        if (!number_begins(text, 1, room, &end, &ranks))
            return false;
        if (times != NULL) {
            repeat = ranks;
            if (end != times || !number_begins(times + 1, 1, room, &end, &ranks) || *end != '\0')
                return false;
        }
        for (; repeat > 0; repeat--, nodes++)
            for (uint32_t r = 0; r < ranks; r++) {
                if (n == room)
                    return false;
                node[n++] = nodes;
            }
        if (*end != '\0' && ((*end != ',' && *end != '+') || end[1] == '\0'))
            return false;
        text = *end == '\0' ? end : end + 1;
    }
    *nrank = n;
    return n > 0;
}

uint32_t levels_parse(const char *text, uint32_t *level, uint32_t most, uint32_t room, uint32_t *nrank)
{
    uint32_t n = 0;
    char map[256];

    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        uint32_t ranks;
        snprintf(map, sizeof map, "%.*s", (int)length, text);
        if (n == most || length >= sizeof map || (text[length] == ',' && text[length + 1] == '\0') ||
            !nodes_parse(map, level + (n > 0 ? n * *nrank : 0), room, &ranks) || (n > 0 && ranks != *nrank))
            return 0;
        *nrank = ranks;
        n++;
        text += length + (text[length] == ',');
    }
    return n;
}
