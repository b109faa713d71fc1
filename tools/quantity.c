/* SPDX-License-Identifier: BSD-3-Clause */
#include "quantity.h"

#include "base/ascii.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Of each quantity, from the smallest. printed: as quantity_print() writes it. */
static const struct unit {
    enum quantity quantity;
    const char *name;
    double factor;
    bool printed;
} units[] = {
    { RATE, "B/s", 1, false },
    { RATE, "kB/s", 1e3, false },
    { RATE, "KiB/s", 1024, false },
    { RATE, "Mbit/s", 1e6 / 8, false },
    { RATE, "MB/s", 1e6, true },
    { RATE, "MiB/s", 1048576, false },
    { RATE, "Gbit/s", 1e9 / 8, false },
    { RATE, "GB/s", 1e9, true },
    { RATE, "GiB/s", 1073741824, false },
    { RATE, "Tbit/s", 1e12 / 8, false },
    { RATE, "TB/s", 1e12, true },
    { TIME, "ns", 1, true },
    { TIME, "us", 1e3, true },
    { TIME, "ms", 1e6, true },
    { TIME, "s", 1e9, true },
    { SIZE, "B", 1, false },
    { SIZE, "KiB", 1024, true },
    { SIZE, "MiB", 1048576, true },
    { SIZE, "GiB", 1073741824, true },
};
#define NUNIT (sizeof units / sizeof *units)

bool quantity_allowed(enum quantity q, double value)
{
    return value >= 0 && value < 1e18 && (q != COUNT || value == floor(value));
}

bool quantity_parse(enum quantity q, const char *text, double *out)
{
    char *end;
    const double value = plait_real(text, &end);
    double factor = NAN;

    if (end == text)
        return false;
    end += strspn(end, " ");
    if (*end == '\0')
        factor = 1;
    for (size_t i = 0; i < NUNIT; i++)
        if (units[i].quantity == q && strcmp(end, units[i].name) == 0)
            factor = units[i].factor;
    *out = value * factor;
    return quantity_allowed(q, *out);
}

/* The number of these units, with at most 6 digits. True if it is exactly `value`. */
static bool is_short(uint64_t value, const struct unit *u, char out[32])
{
    char digits[24], *end;

    plait_print_real(digits, sizeof digits, 6, (double)value / u->factor);
    snprintf(out, 32, "%s %s", digits, u->name);
    return (uint64_t)llround(plait_real(digits, &end) * u->factor) == value;
}

void quantity_print(enum quantity q, uint64_t value, char out[32])
{
    for (size_t i = NUNIT; i-- > 0;)
        if (units[i].quantity == q && units[i].printed && (double)value >= units[i].factor &&
            is_short(value, &units[i], out))
            return;
    snprintf(out, 32, "%" PRIu64, value);
}

const char *quantity_form(enum quantity q)
{
    static const char *const forms[] = { "a whole number",
                                         "bytes per second, or text such as \"12.5 GB/s\" or \"100 Gbit/s\"",
                                         "nanoseconds, or text such as \"2 us\" (ns, us, ms, s)",
                                         "bytes, or text such as \"8 KiB\" (B, KiB, MiB, GiB)" };

    return forms[q];
}
