/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine_file.h"

#include "base/ascii.h"

#include "message.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum quantity { COUNT, RATE, TIME, SIZE };

static const struct unit {
    enum quantity quantity;
    const char *name;
    double factor;
} units[] = {
    { RATE, "B/s", 1 },           { RATE, "kB/s", 1e3 },
    { RATE, "MB/s", 1e6 },        { RATE, "GB/s", 1e9 },
    { RATE, "TB/s", 1e12 },       { RATE, "KiB/s", 1024 },
    { RATE, "MiB/s", 1048576 },   { RATE, "GiB/s", 1073741824 },
    { RATE, "Mbit/s", 1e6 / 8 },  { RATE, "Gbit/s", 1e9 / 8 },
    { RATE, "Tbit/s", 1e12 / 8 }, { TIME, "ns", 1 },
    { TIME, "us", 1e3 },          { TIME, "ms", 1e6 },
    { TIME, "s", 1e9 },           { SIZE, "B", 1 },
    { SIZE, "KiB", 1024 },        { SIZE, "MiB", 1048576 },
    { SIZE, "GiB", 1073741824 },
};

struct field {
    const char *name;
    enum quantity quantity;
    size_t offset, size; /* in the struct */
    bool needed;
};

#define FIELD(type, name, quantity, needed)                                                     \
    {                                                                                           \
#name, quantity, offsetof(struct type, name), sizeof((struct type *)NULL)->name, needed \
    }
static const struct field level_fields[] = {
    FIELD(plait_level, children, COUNT, true),    FIELD(plait_level, links, COUNT, false),
    FIELD(plait_level, bandwidth, RATE, true),    FIELD(plait_level, latency, TIME, true),
    FIELD(plait_level, overhead, TIME, false),    FIELD(plait_level, eager, SIZE, false),
    FIELD(plait_level, processors, COUNT, false), FIELD(plait_level, memory, RATE, false),
};
static const struct field machine_fields[] = {
    FIELD(plait_machine, copy, RATE, false),
    FIELD(plait_machine, reduce, RATE, false),
    FIELD(plait_machine, cache, SIZE, false),
};
#define NFIELD(fields) (sizeof(fields) / sizeof *(fields))

static bool read_quantity(const char *file, const char *place, const struct field *f, const json_t *v, double *out)
{
    static const char *const wanted[] = { "a whole number", "bytes per second, or text such as \"12.5 GB/s\"",
                                          "nanoseconds, or text such as \"2 us\"", "bytes, or text such as \"8 KiB\"" };
    char *end = NULL;

    if (json_is_number(v)) {
        *out = json_number_value(v);
    } else if (json_is_string(v) && f->quantity != COUNT) {
        *out = plait_real(json_string_value(v), &end);
        const char *unit = end + strspn(end, " ");
        double factor = end == json_string_value(v) ? NAN : *unit == '\0' ? 1 : NAN;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (units[i].quantity == f->quantity && strcmp(unit, units[i].name) == 0 && end != json_string_value(v))
                factor = units[i].factor;
        *out *= factor;
    } else {
        *out = NAN;
    }
    if (*out >= 0 && *out < 1e18 && (f->quantity != COUNT || *out == floor(*out)))
        return true;
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    complain("%s: %s.%s is %s; it must be %s", file, place, f->name, text != NULL ? text : "?", wanted[f->quantity]);
    free(text);
    return false;
}

static bool store(const char *file, const char *place, const struct field *f, double value, void *to)
{
    const uint64_t v = (uint64_t)llround(value);

    if (f->size == sizeof(uint32_t) && v > UINT32_MAX) {
        complain("%s: %s.%s is %.0f; at most %u is allowed", file, place, f->name, value, UINT32_MAX);
        return false;
    }
    if (f->size == sizeof(uint32_t))
        *(uint32_t *)(void *)((char *)to + f->offset) = (uint32_t)v;
    else
        *(uint64_t *)(void *)((char *)to + f->offset) = v;
    return true;
}

/* The fields of an object. other: keys that are read elsewhere, with a space after each. */
static bool read_fields(const char *file, const char *place, json_t *o, const struct field *fields, size_t n,
                        const char *other, void *to)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v)
    {
        size_t i = 0;
        while (i < n && strcmp(key, fields[i].name) != 0)
            i++;
        double value;
        if (i < n && !(read_quantity(file, place, &fields[i], v, &value) && store(file, place, &fields[i], value, to)))
            return false;
        char word[64];
        snprintf(word, sizeof word, "%.60s ", key);
        if (i == n && strstr(other, word) == NULL) {
            complain("%s: %s has no field '%s'; see docs/predict.md", file, place, key);
            return false;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].needed && json_object_get(o, fields[i].name) == NULL) {
            complain("%s: %s needs '%s'", file, place, fields[i].name);
            return false;
        }
    return true;
}

static bool read_name(const char *file, const char *place, const json_t *o, char *to, size_t room)
{
    const char *name = json_string_value(json_object_get(o, "name"));

    if (name == NULL || name[0] == '\0' || strlen(name) >= room) {
        complain("%s: %s needs \"name\": text of 1 to %zu bytes", file, place, room - 1);
        return false;
    }
    snprintf(to, room, "%s", name);
    return true;
}

static bool read_machine(const char *file, json_t *root, struct plait_machine *m)
{
    const json_t *levels = json_object_get(root, "levels");
    bool ok = read_name(file, "the machine", root, m->name, sizeof m->name) &&
              read_fields(file, "the machine", root, machine_fields, NFIELD(machine_fields), "name levels about ", m);

    if (ok && (!json_is_array(levels) || json_array_size(levels) == 0 || json_array_size(levels) > PLAIT_MOST_LEVELS)) {
        complain("%s: the machine needs \"levels\": an array of 1 to %d, the smallest first", file, PLAIT_MOST_LEVELS);
        ok = false;
    }
    for (size_t i = 0; ok && i < json_array_size(levels); i++) {
        char place[32];
        snprintf(place, sizeof place, "levels[%zu]", i);
        json_t *o = json_array_get(levels, i);
        ok = read_name(file, place, o, m->level[i].name, sizeof m->level[i].name) &&
             read_fields(file, place, o, level_fields, NFIELD(level_fields), "name ", &m->level[i]);
        m->nlevel++;
    }
    if (ok && plait_machine_check(m) != PLAIT_OK) {
        complain("%s: %s", file, plait_last_error());
        ok = false;
    }
    return ok;
}

bool machine_parse(const char *name, const char *text, size_t bytes, struct plait_machine *out)
{
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    struct plait_machine m = { 0 };

    if (root == NULL) {
        complain("%s, line %d: %s", name, error.line, error.text);
        return false;
    }
    if (!json_is_object(root))
        complain("%s: it must be an object with \"name\" and \"levels\"; see docs/predict.md", name);
    const bool ok = json_is_object(root) && read_machine(name, root, &m);
    json_decref(root);
    if (ok)
        *out = m;
    return ok;
}
