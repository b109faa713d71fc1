/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_hosts.h"

#include "config.h"

#include <ctype.h>
#include <plait/config.h>
#include <stdio.h>
#include <string.h>

/* Parse a port. Returns the text after it; NULL: no port. */
static const char *parse_port(const char *text, unsigned *out)
{
    unsigned value = 0;
    const char *c = text;

    for (; isdigit((unsigned char)*c) && value <= UINT16_MAX; c++)
        value = value * 10 + (unsigned)(*c - '0');
    *out = value;
    return c > text && value > 0 && value <= UINT16_MAX ? c : NULL;
}

const char *plait_parse_ports(const char *text, void *field)
{
    unsigned first, last;
    const char *end = parse_port(text, &first);

    last = first;
    if (end != NULL && *end == '-')
        end = parse_port(end + 1, &last);
    if (end == NULL || *end != '\0' || last < first)
        return "a port or a range of ports: 20000-29999";
    *(struct plait_ports *)field = (struct plait_ports){ (uint16_t)first, (uint16_t)(last - first + 1) };
    return NULL;
}

const char *plait_parse_ifname(const char *text, void *field)
{
    const char *name = text + strspn(text, "^="),
               *allowed = "names or starts of names, eth,ib; =eth0 the very name, ^docker all but: at "
                          "most 63 characters";

    if (strlen(text) >= sizeof((struct plait_config *)0)->ifname || (*text != '\0' && *name == '\0') ||
        strpbrk(name, "^= ") != NULL)
        return allowed;
    strcpy(field, text);
    return NULL;
}

const char *plait_parse_launcher(const char *text, void *field)
{
    static const char *const names[] = { "", "torchrun", "slurm", "openmpi", "none" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            strcpy(field, text);
            return NULL;
        }
    return "torchrun, slurm, openmpi or none";
}

const char *plait_parse_secret(const char *text, void *field)
{
    const size_t n = strlen(text);

    if (n > 0 && (n < PLAIT_LEAST_SECRET || n >= sizeof((struct plait_config *)0)->secret))
        return "16 to 79 characters that are hard to guess; plait-info --make-secret writes some to a file instead";
    strcpy(field, text);
    return NULL;
}

void plait_config_variable(const char *name, char out[PLAIT_VARIABLE])
{
    struct plait_setting s;

    snprintf(out, PLAIT_VARIABLE, "%s", name);
    for (size_t i = 0; plait_config_get(i, &s) == PLAIT_OK; i++)
        if (strcmp(s.name, name) == 0) {
            if (strspn(s.origin, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(s.origin))
                snprintf(out, PLAIT_VARIABLE, "%.63s", s.origin);
            return;
        }
}
