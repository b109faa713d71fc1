/* SPDX-License-Identifier: BSD-3-Clause */
#include "fields.h"

#include "base/ascii.h"

#include <inttypes.h>
#include <string.h>

/* ---- Values ------------------------------------------------------------------------------------------- */

/* Of each quantity, from the smallest. printed: as plait_quantity_print() writes it. */
static const struct unit {
    enum plait_quantity quantity;
    const char *name;
    double factor;
    bool printed;
} units[] = {
    { PLAIT_RATE, "B/s", 1, false },
    { PLAIT_RATE, "kB/s", 1e3, false },
    { PLAIT_RATE, "KiB/s", 1024, false },
    { PLAIT_RATE, "Mbit/s", 1e6 / 8, false },
    { PLAIT_RATE, "MB/s", 1e6, true },
    { PLAIT_RATE, "MiB/s", 1048576, false },
    { PLAIT_RATE, "Gbit/s", 1e9 / 8, false },
    { PLAIT_RATE, "GB/s", 1e9, true },
    { PLAIT_RATE, "GiB/s", 1073741824, false },
    { PLAIT_RATE, "Tbit/s", 1e12 / 8, false },
    { PLAIT_RATE, "TB/s", 1e12, true },
    { PLAIT_TIME, "ns", 1, true },
    { PLAIT_TIME, "us", 1e3, true },
    { PLAIT_TIME, "ms", 1e6, true },
    { PLAIT_TIME, "s", 1e9, true },
    { PLAIT_SIZE, "B", 1, false },
    { PLAIT_SIZE, "KiB", 1024, true },
    { PLAIT_SIZE, "MiB", 1048576, true },
    { PLAIT_SIZE, "GiB", 1073741824, true },
};
#define NUNIT (sizeof units / sizeof *units)

bool plait_quantity_allowed(enum plait_quantity q, double value)
{
    return value >= 0 && value < 1e18 && (q != PLAIT_COUNT || value == (double)(uint64_t)value);
}

bool plait_quantity_parse(enum plait_quantity q, const char *text, double *out)
{
    char *end;
    const double value = plait_real(text, &end);
    double factor = -1;

    if (end == text)
        return false;
    end += strspn(end, " ");
    if (*end == '\0')
        factor = 1;
    for (size_t i = 0; i < NUNIT; i++)
        if (units[i].quantity == q && strcmp(end, units[i].name) == 0)
            factor = units[i].factor;
    *out = value * factor;
    return factor > 0 && plait_quantity_allowed(q, *out);
}

static uint64_t rounded(double value)
{
    return (uint64_t)(value + 0.5);
}

/* The number of these units, with at most 6 digits. True if it is exactly `value`. */
static bool is_short(uint64_t value, const struct unit *u, char out[32])
{
    char digits[24], *end;

    plait_print_real(digits, sizeof digits, 6, (double)value / u->factor);
    snprintf(out, 32, "%s %s", digits, u->name);
    return rounded(plait_real(digits, &end) * u->factor) == value;
}

void plait_quantity_print(enum plait_quantity q, uint64_t value, char out[32])
{
    for (size_t i = NUNIT; i-- > 0;)
        if (units[i].quantity == q && units[i].printed && (double)value >= units[i].factor &&
            is_short(value, &units[i], out))
            return;
    snprintf(out, 32, "%" PRIu64, value);
}

const char *plait_quantity_form(enum plait_quantity q)
{
    static const char *const forms[] = { "a whole number",
                                         "bytes per second, or text such as \"12.5 GB/s\" or \"100 Gbit/s\"",
                                         "nanoseconds, or text such as \"2 us\" (ns, us, ms, s)",
                                         "bytes, or text such as \"8 KiB\" (B, KiB, MiB, GiB)" };

    return forms[q];
}

/* ---- Fields ------------------------------------------------------------------------------------------- */

#define FIELD(type, name, quantity, needed, least, most)                                                     \
    {                                                                                                        \
#name, quantity, needed, least, most, offsetof(struct type, name), sizeof((struct type *)NULL)->name \
    }
const struct plait_field plait_level_fields[PLAIT_NLEVEL_FIELD] = {
    FIELD(plait_level, children, PLAIT_COUNT, true, 1, PLAIT_MOST_PLACES),
    FIELD(plait_level, links, PLAIT_COUNT, false, 0, 1024),
    FIELD(plait_level, bandwidth, PLAIT_RATE, false, 1, PLAIT_MOST_RATE),
    FIELD(plait_level, latency, PLAIT_TIME, true, 0, PLAIT_MOST_TIME),
    FIELD(plait_level, overhead, PLAIT_TIME, false, 0, PLAIT_MOST_TIME),
    FIELD(plait_level, eager, PLAIT_SIZE, false, 0, UINT64_MAX),
    FIELD(plait_level, processors, PLAIT_COUNT, false, 0, PLAIT_MOST_PLACES),
    FIELD(plait_level, memory, PLAIT_RATE, false, 0, PLAIT_MOST_RATE),
};
const struct plait_field plait_machine_fields[PLAIT_NMACHINE_FIELD] = {
    FIELD(plait_machine, copy, PLAIT_RATE, false, 0, PLAIT_MOST_RATE),
    FIELD(plait_machine, reduce, PLAIT_RATE, false, 0, PLAIT_MOST_RATE),
    FIELD(plait_machine, cache, PLAIT_SIZE, false, 0, UINT64_MAX),
};
#undef FIELD

const struct plait_field *plait_field_find(const struct plait_field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

uint64_t plait_field_get(const struct plait_field *f, const void *from)
{
    const char *at = (const char *)from + f->offset;

    return f->size == sizeof(uint32_t) ? *(const uint32_t *)(const void *)at : *(const uint64_t *)(const void *)at;
}

bool plait_field_set(const struct plait_field *f, double value, void *to)
{
    char *at = (char *)to + f->offset;
    const uint64_t v = rounded(value);

    if (f->size == sizeof(uint64_t))
        *(uint64_t *)(void *)at = v;
    else if (v <= UINT32_MAX)
        *(uint32_t *)(void *)at = (uint32_t)v;
    return f->size == sizeof(uint64_t) || v <= UINT32_MAX;
}

bool plait_unit_find(const struct plait_machine *m, const char *unit, uint32_t *level, uint32_t *child)
{
    const char *number = strrchr(unit, ' ');
    const size_t n = number != NULL ? (size_t)(number - unit) : 0;
    double value;
    uint32_t k = 0;

    if (n == 0 || !plait_quantity_parse(PLAIT_COUNT, number + 1, &value) || value >= UINT32_MAX)
        return false;
    while (k < m->nlevel && (strlen(m->level[k].name) != n || memcmp(m->level[k].name, unit, n) != 0))
        k++;
    *level = n == 4 && memcmp(unit, "rank", n) == 0 ? 0 : k + 1;
    *child = (uint32_t)value;
    return *level < m->nlevel;
}

bool plait_oversubscribe(struct plait_machine *m, uint32_t k, double n)
{
    struct plait_level *l = &m->level[k];
    const struct plait_level *below = l - 1;

    if (k == 0 || below->links == 0)
        return false;
    const double all = (double)below->children * below->links * (double)below->bandwidth / n;
    if (l->bandwidth == 0)
        l->bandwidth = below->bandwidth;
    if (all < (double)l->bandwidth)
        l->bandwidth = rounded(all);
    const double links = l->bandwidth > 0 ? all / (double)l->bandwidth : 1;
    l->links = links < 1e6 ? (uint32_t)rounded(links) : 1000000; /* which plait_machine_check() refuses */
    return true;
}
