/* SPDX-License-Identifier: BSD-3-Clause */
#include "units.h"

#include <math.h>
#include <stdio.h>

const char *units_number(char out[UNITS_ROOM], double x)
{
    const double size = fabs(x);

    snprintf(out, UNITS_ROOM, size < 999.5 ? "%.3g" : "%.0f", x);
    return out;
}

/* x in the largest unit of which it has at least one; names end with NULL. */
static const char *scaled(char out[UNITS_ROOM], double x, double step, const char *const *names)
{
    char number[UNITS_ROOM];

    for (; fabs(x) >= 0.9995 * step && names[1] != NULL; names++)
        x /= step;
    snprintf(out, UNITS_ROOM, "%.20s %s", units_number(number, x), *names);
    return out;
}

const char *units_bytes(char out[UNITS_ROOM], double bytes)
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", NULL };

    return scaled(out, bytes, 1024, names);
}

const char *units_seconds(char out[UNITS_ROOM], double seconds)
{
    static const char *const names[] = { "ps", "ns", "us", "ms", "s", NULL };

    return seconds == 0 ? "0" : scaled(out, 1e12 * seconds, 1000, names);
}

const char *units_rate(char out[UNITS_ROOM], double rate)
{
    static const char *const names[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL };

    return scaled(out, rate, 1000, names);
}
