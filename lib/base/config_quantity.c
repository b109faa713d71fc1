/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_quantity.h"

#include "config.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Parse a decimal number. Returns the text after it; NULL: no number. Not strtod(), which depends on the locale and
 * accepts "inf" and "nan".
 */
static const char *decimal(const char *text, double *out)
{
    double value = 0, place = 1;
    bool digits = false;

    for (; isdigit((unsigned char)*text); text++, digits = true)
        value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++, digits = true)
            value += (*text - '0') * (place /= 10);
    *out = value;
    return digits ? text : NULL;
}

const char *plait_parse_seconds(const char *text, void *field)
{
    double value;
    const char *end = decimal(text, &value);

    if (end == NULL || *end != '\0' || !(value > 0) || value > 1e9)
        return "seconds: a positive number up to 1e9, e.g. 30 or 0.5";
    *(double *)field = value;
    return NULL;
}

/* Parse "1000us" or "1000MB/s", each at most once. Returns the text after it, or NULL. Limits prevent overflow. */
static const char *parse_quantity(const char *text, struct plait_pace *out)
{
    static const struct {
        const char *unit;
        double factor; /* to ns, to bytes per second */
        size_t offset;
    } units[] = {
        { "us", 1e3, offsetof(struct plait_pace, latency) },
        { "ms", 1e6, offsetof(struct plait_pace, latency) },
        { "MB/s", 1e6, offsetof(struct plait_pace, bandwidth) },
        { "GB/s", 1e9, offsetof(struct plait_pace, bandwidth) },
    };
    double value;
    const char *end = decimal(text, &value);

    for (size_t i = 0; end != NULL && i < sizeof units / sizeof *units; i++) {
        const size_t length = strlen(units[i].unit);
        uint64_t *field = (uint64_t *)(void *)((char *)out + units[i].offset);
        if (strncmp(end, units[i].unit, length) != 0)
            continue;
        value *= units[i].factor;
        if (*field > 0 || !(value >= 1000 && value <= 1e13))
            return NULL;
        *field = (uint64_t)value;
        return end + length;
    }
    return NULL;
}

const char *plait_parse_pace(const char *text, void *field)
{
    struct plait_pace pace = { 0, 0 };
    const char *end = *text != '\0' ? parse_quantity(text, &pace) : text;

    if (end != NULL && *end == ',')
        end = parse_quantity(end + 1, &pace);
    if (end == NULL || *end != '\0')
        return "the latency of a message, the bandwidth of a link, or both: 1000us, 1000MB/s, 1000us,1000MB/s; units "
               "are us, ms, MB/s and GB/s, values 1us to 1e10us, 0.001MB/s to 1e7MB/s";
    memcpy(field, &pace, sizeof pace);
    return NULL;
}

const char *plait_parse_version(const char *text, void *field)
{
    unsigned part[3] = { 0, 0, 0 }, n = 0;

    for (; n < 3 && isdigit((unsigned char)*text); n++) {
        for (; isdigit((unsigned char)*text) && part[n] < 100; text++)
            part[n] = part[n] * 10 + (unsigned)(*text - '0');
        if (*text == '.' && n < 2)
            text++;
    }
    if (n != 3 || *text != '\0' || part[0] > 99 || part[1] > 99 || part[2] > 99)
        return "three numbers below 100 with points between: 2.32.3";
    *(uint32_t *)field = part[0] * 10000 + part[1] * 100 + part[2];
    return NULL;
}
