/* SPDX-License-Identifier: BSD-3-Clause */
#include "row.h"

#include "base/ascii.h"

#include <stdio.h>
#include <string.h>

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
    const struct option *option = &r->option;
    const void *at = (const char *)o + option->offset;
    const char *text;
    int value;

    out[0] = '\0';
    switch (option->kind) {
    case OPTION_SWITCH:
        return snprintf(out, room, *(const bool *)at ? "on" : "off") > 0;
    case OPTION_NUMBER:
        snprintf(out, room, "%llu", (unsigned long long)*(const uint64_t *)at);
        return *(const uint64_t *)at >= (uint64_t)option->least;
    case OPTION_REAL:
        row_print_real(*(const double *)at, out, room);
        return *(const double *)at >= option->least;
    case OPTION_TEXT:
        text = *(const char *const *)at;
        return text != NULL && snprintf(out, room, "%s", text) > 0;
    case OPTION_CHOICE:
        memcpy(&value, at, sizeof value);
        for (const struct choice *c = option->choices; c->name != NULL; c++)
            if (c->value == value)
                return snprintf(out, room, "%s", c->name) > 0;
        return false;
    case OPTION_PARSED:
        return r->print(o, out, room);
    default:
        return false;
    }
}
