/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include "ending.h"

#include "../lib/base/ascii.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_number(const char *flag, const char *text, double least, double most, uint64_t *out)
{
    char *end;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || (double)value < least || (double)value > most)
        return complain("%s %s: expected a whole number from %.0f to %.0f", flag, text, least, most);
    *out = value;
    return true;
}

bool value_real(const char *flag, const char *text, double least, double most, double *out)
{
    char *end;
    const double value = plait_real(text, &end);

    if (end == text || *end != '\0' || !(value >= least && value <= most))
        return complain("%s %s: expected a number from %g to %g", flag, text, least, most);
    *out = value;
    return true;
}

bool value_choice(const char *flag, const char *text, const struct choice *choices, void *out)
{
    char names[256] = "";

    for (const struct choice *c = choices; c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            memcpy(out, &c->value, sizeof c->value);
            return true;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names != '\0' ? ", " : "", c->name);
    }
    return complain("%s %s: expected one of %s", flag, text, names);
}

static unsigned least3(unsigned a, unsigned b, unsigned c)
{
    return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

unsigned value_distance(const char *a, const char *b)
{
    unsigned row[40];
    const size_t n = strlen(b);

    if (n >= sizeof row / sizeof *row)
        return UINT32_MAX;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1] != '\0'; i++) {
        unsigned corner = row[0]++;
        for (size_t j = 1; j <= n; j++) {
            const unsigned change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = least3(change, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[n];
}
