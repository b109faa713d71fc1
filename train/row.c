/* SPDX-License-Identifier: BSD-3-Clause */
#include "row.h"

#include "ending.h"

#include "../lib/base/ascii.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool row_set(const struct row *r, struct options *o, const char *flag, const char *value)
{
    void *at = (char *)o + r->offset;

    switch (r->kind) {
    case NUMBER:
        return value_number(flag, value, r->least, r->most, at);
    case REAL:
        return value_real(flag, value, r->least, r->most, at);
    case TEXT:
        *(const char **)at = value;
        return *value != '\0' || complain("%s needs a value; see --help", flag);
    case CHOICE:
        return value_choice(flag, value, r->choices, at);
    case PARSED:
        return r->parse(o, flag, value);
    case SWITCH:
        *(bool *)at = strcmp(value, "on") == 0;
        return true;
    case TITLE:
        break;
    }
    return false;
}

void row_print_real(double value, char *out, size_t room)
{
    char *end;

    for (int digits = 6; digits <= 17; digits++) {
        plait_print_real(out, room, digits, value);
        if (plait_real(out, &end) == value)
            return;
    }
}

bool row_print(const struct row *r, const struct options *o, char *out, size_t room)
{
    const void *at = (const char *)o + r->offset;
    const char *text;
    int value;

    out[0] = '\0';
    switch (r->kind) {
    case SWITCH:
        return snprintf(out, room, *(const bool *)at ? "on" : "off") > 0;
    case NUMBER:
        snprintf(out, room, "%llu", (unsigned long long)*(const uint64_t *)at);
        return *(const uint64_t *)at >= (uint64_t)r->least;
    case REAL:
        row_print_real(*(const double *)at, out, room);
        return *(const double *)at >= r->least;
    case TEXT:
        text = *(const char *const *)at;
        return text != NULL && snprintf(out, room, "%s", text) > 0;
    case CHOICE:
        memcpy(&value, at, sizeof value);
        for (const struct choice *c = r->choices; c->name != NULL; c++)
            if (c->value == value)
                return snprintf(out, room, "%s", c->name) > 0;
        return false;
    case PARSED:
        return r->print(o, out, room);
    case TITLE:
        break;
    }
    return false;
}
