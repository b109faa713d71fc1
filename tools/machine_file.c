/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine_file.h"

#include "base/nearest.h"

#include "json_line.h"
#include "message.h"
#include "quantity.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    FIELD(plait_level, bandwidth, RATE, false),   FIELD(plait_level, latency, TIME, true),
    FIELD(plait_level, overhead, TIME, false),    FIELD(plait_level, eager, SIZE, false),
    FIELD(plait_level, processors, COUNT, false), FIELD(plait_level, memory, RATE, false),
};
static const struct field machine_fields[] = {
    FIELD(plait_machine, copy, RATE, false),
    FIELD(plait_machine, reduce, RATE, false),
    FIELD(plait_machine, cache, SIZE, false),
};
static const struct field slow_fields[] = { FIELD(plait_slow, percent, COUNT, true) };
#define NFIELD(fields) (sizeof(fields) / sizeof *(fields))

/* Keys that are read by functions of their own. */
static const char *const level_others[] = { "name", "oversubscription", "about", NULL };
static const char *const machine_others[] = { "name", "about", "slow", "levels", NULL };
static const char *const slow_others[] = { "rank", "links", NULL };

struct reader {
    const char *file, *text;
    size_t bytes;
};

/* An object of the file. */
struct place {
    char name[32];
    struct json_step steps[2];
    size_t nstep;
    json_t *object;
};

/* ---- Messages --------------------------------------------------------------------------------------- */

/* complain() with the line of this key of the object; NULL: of the object. */
static bool wrong(const struct reader *r, const struct place *p, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool wrong(const struct reader *r, const struct place *p, const char *key, const char *format, ...)
{
    struct json_step steps[3] = { p->steps[0], p->steps[1] };
    char text[1024];
    va_list arguments;

    steps[p->nstep].key = key;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return complain("%s, line %u: %s", r->file, json_line(r->text, r->bytes, steps, p->nstep + (key != NULL)), text);
}

static bool wrong_value(const struct reader *r, const struct place *p, const char *key, const char *must)
{
    char *text = json_dumps(json_object_get(p->object, key), JSON_ENCODE_ANY);

    wrong(r, p, key, "%s.%s is %.200s; it must be %s", p->name, key, text != NULL ? text : "?", must);
    free(text);
    return false;
}

/* Keep in best[64] the name that is nearest to `key`. */
static void nearer(const char *key, const char *name, char best[64], unsigned *distance)
{
    const unsigned d = plait_distance(key, name);

    if (d < *distance) {
        *distance = d;
        snprintf(best, 64, "%s", name);
    }
}

static bool unknown(const struct reader *r, const struct place *p, const char *key, const struct field *fields,
                    size_t n, const char *const *others)
{
    unsigned distance = PLAIT_NEAR + 1;
    char best[64] = "", all[256] = "";

    for (size_t i = 0; p->nstep == 0 && i < NFIELD(level_fields); i++)
        if (strcmp(key, level_fields[i].name) == 0)
            return wrong(r, p, key, "%s has no field '%s'; it belongs into a level", p->name, key);
    for (size_t i = 0; i < n; i++)
        nearer(key, fields[i].name, best, &distance);
    for (const char *const *o = others; *o != NULL; o++) {
        nearer(key, *o, best, &distance);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s, ", *o);
    }
    if (best[0] != '\0')
        return wrong(r, p, key, "%s has no field '%.60s'; did you mean '%s'?", p->name, key, best);
    for (size_t i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", fields[i].name, i + 1 < n ? ", " : "");
    return wrong(r, p, key, "%s has no field '%.60s'; its fields are %s", p->name, key, all);
}

/* ---- Fields ----------------------------------------------------------------------------------------- */

static bool read_quantity(const struct reader *r, const struct place *p, const struct field *f, double *out)
{
    const json_t *v = json_object_get(p->object, f->name);
    bool ok = false;

    if (json_is_number(v)) {
        *out = json_number_value(v);
        ok = quantity_allowed(f->quantity, *out);
    } else if (json_is_string(v) && f->quantity != COUNT) {
        ok = quantity_parse(f->quantity, json_string_value(v), out);
    }
    return ok || wrong_value(r, p, f->name, quantity_form(f->quantity));
}

static bool read_field(const struct reader *r, const struct place *p, const struct field *f, void *to)
{
    double value;

    if (!read_quantity(r, p, f, &value))
        return false;
    const uint64_t v = (uint64_t)llround(value);
    if (f->size == sizeof(uint32_t) && v > UINT32_MAX)
        return wrong(r, p, f->name, "%s.%s is %.0f; at most %u is allowed", p->name, f->name, value, UINT32_MAX);
    if (f->size == sizeof(uint32_t))
        *(uint32_t *)(void *)((char *)to + f->offset) = (uint32_t)v;
    else
        *(uint64_t *)(void *)((char *)to + f->offset) = v;
    return true;
}

static bool read_fields(const struct reader *r, const struct place *p, const struct field *fields, size_t n,
                        const char *const *others, void *to)
{
    const char *key;
    json_t *v;

    json_object_foreach(p->object, key, v)
    {
        size_t i = 0;
        while (i < n && strcmp(key, fields[i].name) != 0)
            i++;
        if (i < n && !read_field(r, p, &fields[i], to))
            return false;
        const char *const *o = others;
        while (*o != NULL && strcmp(key, *o) != 0)
            o++;
        if (i == n && *o == NULL)
            return unknown(r, p, key, fields, n, others);
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].needed && json_object_get(p->object, fields[i].name) == NULL)
            return wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, fields[i].name, quantity_form(fields[i].quantity));
    return true;
}

static bool read_text(const struct reader *r, const struct place *p, const char *key, bool needed, char *to,
                      size_t room)
{
    const json_t *v = json_object_get(p->object, key);
    const char *text = json_string_value(v);
    char must[48];

    if (v == NULL && !needed)
        return true;
    snprintf(must, sizeof must, "text of 1 to %zu bytes", room - 1);
    if (v == NULL)
        return wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, key, must);
    if (text == NULL || text[0] == '\0' || strlen(text) >= room)
        return wrong_value(r, p, key, must);
    snprintf(to, room, "%s", text);
    return true;
}

/* ---- Levels and what is slow ------------------------------------------------------------------------- */

/* Links of `below`'s units that take together 1 / n of what their own children's links take. */
static bool read_oversubscription(const struct reader *r, const struct place *p, const struct plait_level *below,
                                  struct plait_level *l)
{
    const json_t *v = json_object_get(p->object, "oversubscription");
    const double n = json_number_value(v);

    if (v == NULL)
        return l->bandwidth > 0 || json_object_get(p->object, "bandwidth") != NULL ||
               wrong(r, p, NULL, "%s needs \"bandwidth\": %s", p->name, quantity_form(RATE));
    if (!(n >= 0.01 && n <= 10000))
        return wrong_value(r, p, "oversubscription", "a number from 0.01 to 10000");
    if (json_object_get(p->object, "links") != NULL)
        return wrong(r, p, "oversubscription", "%s has \"links\" and \"oversubscription\"; leave one of them out",
                     p->name);
    if (below == NULL || below->links == 0)
        return wrong(r, p, "oversubscription", "%s.oversubscription needs links in the level below; give \"links\"",
                     p->name);
    const double all = (double)below->children * below->links * (double)below->bandwidth / n;
    if (l->bandwidth == 0)
        l->bandwidth = below->bandwidth;
    if (all < (double)l->bandwidth)
        l->bandwidth = (uint64_t)llround(all);
    const double links = l->bandwidth > 0 ? round(all / (double)l->bandwidth) : 1;
    l->links = links < 1e6 ? (uint32_t)links : 1000000; /* which plait_machine_check() refuses */
    return true;
}

static bool read_level(const struct reader *r, json_t *object, size_t i, struct plait_machine *m,
                       struct machine_notes *notes)
{
    struct place p = { .steps = { { "levels", 0 }, { NULL, i } }, .nstep = 2, .object = object };
    struct plait_level *l = &m->level[i];

    snprintf(p.name, sizeof p.name, "levels[%zu]", i);
    return (json_is_object(object) || wrong(r, &p, NULL, "%s must be an object with \"name\"", p.name)) &&
           read_text(r, &p, "name", true, l->name, sizeof l->name) &&
           read_text(r, &p, "about", false, notes->level[i], MACHINE_NOTE) &&
           read_fields(r, &p, level_fields, NFIELD(level_fields), level_others, l) &&
           read_oversubscription(r, &p, i > 0 ? l - 1 : NULL, l);
}

/* "host 3": the links of that unit, "rank 3": those of a rank. */
static bool read_links(const struct reader *r, const struct place *p, const struct plait_machine *m,
                       struct plait_slow *s)
{
    const char *text = json_string_value(json_object_get(p->object, "links"));
    const char *digits = text != NULL ? strrchr(text, ' ') : NULL;
    char must[96];

    for (uint32_t k = 0; digits != NULL && k < m->nlevel; k++) {
        const char *unit = k > 0 ? m->level[k - 1].name : "rank";
        double child;
        if (strlen(unit) == (size_t)(digits - text) && strncmp(unit, text, strlen(unit)) == 0 &&
            quantity_parse(COUNT, digits + 1, &child) && child <= UINT32_MAX) {
            s->level = k;
            s->child = (uint32_t)child;
            return true;
        }
    }
    snprintf(must, sizeof must, "a unit with its number, from 0, such as \"%s 0\"",
             m->nlevel > 1 ? m->level[m->nlevel - 2].name : "rank");
    return wrong_value(r, p, "links", must);
}

static bool read_slow(const struct reader *r, json_t *object, size_t i, struct plait_machine *m)
{
    static const struct field rank = FIELD(plait_slow, child, COUNT, false);
    struct place p = { .steps = { { "slow", 0 }, { NULL, i } }, .nstep = 2, .object = object };
    struct plait_slow *s = &m->slow[i];
    double value;

    snprintf(p.name, sizeof p.name, "slow[%zu]", i);
    if (!json_is_object(object))
        return wrong(r, &p, NULL, "%s must be an object such as { \"rank\": 3, \"percent\": 50 }", p.name);
    if (!read_fields(r, &p, slow_fields, NFIELD(slow_fields), slow_others, s))
        return false;
    s->rank = json_object_get(object, "rank") != NULL;
    if (s->rank == (json_object_get(object, "links") != NULL))
        return wrong(r, &p, NULL, "%s needs either \"rank\": a number, or \"links\": a unit, such as \"%s 0\"", p.name,
                     m->level[0].name);
    if (!s->rank)
        return read_links(r, &p, m, s);
    const struct field f = { "rank", COUNT, rank.offset, rank.size, true };
    return read_quantity(r, &p, &f, &value) && read_field(r, &p, &f, s);
}

/* plait_machine_check(), with the line of the field that its message names. */
static bool check(const struct reader *r, const struct plait_machine *m)
{
    char text[512], name[64];
    struct place p = { .steps = { { "levels", 0 } }, .nstep = 2 };

    if (plait_machine_check(m) == PLAIT_OK)
        return true;
    snprintf(text, sizeof text, "%s", plait_last_error());
    for (size_t i = 0; i < m->nlevel; i++)
        for (size_t k = 0; k < NFIELD(level_fields); k++) {
            snprintf(name, sizeof name, " %s.%s ", m->level[i].name, level_fields[k].name);
            p.steps[1].index = i;
            if (strstr(text, name) != NULL)
                return wrong(r, &p, level_fields[k].name, "%s", text);
        }
    p.nstep = 0;
    for (size_t k = 0; k < NFIELD(machine_fields); k++) {
        snprintf(name, sizeof name, " %s is ", machine_fields[k].name);
        if (strstr(text, name) != NULL)
            return wrong(r, &p, machine_fields[k].name, "%s", text);
    }
    return wrong(r, &p, strstr(text, "slow") != NULL ? "slow" : "levels", "%s", text);
}

/* ---- Machines ---------------------------------------------------------------------------------------- */

static bool read_machine(const struct reader *r, json_t *root, struct plait_machine *m, struct machine_notes *notes)
{
    const struct place p = { .name = "the machine", .object = root };
    const json_t *levels = json_object_get(root, "levels"), *slow = json_object_get(root, "slow");

    if (!read_text(r, &p, "name", true, m->name, sizeof m->name) ||
        !read_text(r, &p, "about", false, notes->machine, MACHINE_NOTE) ||
        !read_fields(r, &p, machine_fields, NFIELD(machine_fields), machine_others, m))
        return false;
    if (!json_is_array(levels) || json_array_size(levels) == 0 || json_array_size(levels) > PLAIT_MOST_LEVELS)
        return wrong(r, &p, levels != NULL ? "levels" : NULL,
                     "the machine needs \"levels\": an array of 1 to %d, the smallest first", PLAIT_MOST_LEVELS);
    for (; m->nlevel < json_array_size(levels); m->nlevel++)
        if (!read_level(r, json_array_get(levels, m->nlevel), m->nlevel, m, notes))
            return false;
    if (slow != NULL && (!json_is_array(slow) || json_array_size(slow) > PLAIT_MOST_SLOW))
        return wrong(r, &p, "slow", "the machine's \"slow\" must be an array of at most %d", PLAIT_MOST_SLOW);
    for (; m->nslow < json_array_size(slow); m->nslow++)
        if (!read_slow(r, json_array_get(slow, m->nslow), m->nslow, m))
            return false;
    return check(r, m);
}

bool machine_parse(const char *name, const char *text, size_t bytes, struct plait_machine *out,
                   struct machine_notes *notes)
{
    const struct reader r = { name, text, bytes };
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    struct plait_machine m = { 0 };
    struct machine_notes own = { 0 };

    if (root == NULL)
        return complain("%s, line %d: %s", name, error.line > 0 ? error.line : 1, error.text);
    if (!json_is_object(root))
        complain("%s, line 1: it must be an object with \"name\" and \"levels\"; see docs/predict.md", name);
    const bool ok = json_is_object(root) && read_machine(&r, root, &m, &own);
    json_decref(root);
    if (ok)
        *out = m;
    if (ok && notes != NULL)
        *notes = own;
    return ok;
}

/* ---- Writing ----------------------------------------------------------------------------------------- */

/* , "key": "text" */
static void put_text(FILE *f, const char *before, const char *key, const char *text)
{
    json_t *v = json_string(text);
    char *quoted = v != NULL ? json_dumps(v, JSON_ENCODE_ANY) : NULL;

    fprintf(f, "%s\"%s\": %s", before, key, quoted != NULL ? quoted : "\"\"");
    free(quoted);
    json_decref(v);
}

static uint64_t value_of(const struct field *f, const void *from)
{
    const char *at = (const char *)from + f->offset;

    return f->size == sizeof(uint32_t) ? *(const uint32_t *)(const void *)at : *(const uint64_t *)(const void *)at;
}

static void put_field(FILE *f, const char *before, const struct field *field, const void *from)
{
    const uint64_t v = value_of(field, from);
    char text[32];

    if (v == 0 && !field->needed)
        return;
    quantity_print(field->quantity, v, text);
    fprintf(f, strchr(text, ' ') != NULL ? "%s\"%s\": \"%s\"" : "%s\"%s\": %s", before, field->name, text);
}

static void put_slow(FILE *f, const struct plait_machine *m, const struct plait_slow *s)
{
    fprintf(f, "{ ");
    if (s->rank) {
        fprintf(f, "\"rank\": %u", s->child);
    } else {
        char unit[48];
        snprintf(unit, sizeof unit, "%s %u", s->level > 0 ? m->level[s->level - 1].name : "rank", s->child);
        put_text(f, "", "links", unit);
    }
    fprintf(f, ", \"percent\": %u }", s->percent);
}

static void put_machine(FILE *f, const struct plait_machine *m, const struct machine_notes *notes)
{
    put_text(f, "{\n    ", "name", m->name);
    if (notes->machine[0] != '\0')
        put_text(f, ",\n    ", "about", notes->machine);
    fprintf(f, ",\n    \"levels\": [");
    for (uint32_t k = 0; k < m->nlevel; k++) {
        put_text(f, k > 0 ? ",\n        { " : "\n        { ", "name", m->level[k].name);
        for (size_t i = 0; i < NFIELD(level_fields); i++)
            put_field(f, ", ", &level_fields[i], &m->level[k]);
        if (notes->level[k][0] != '\0')
            put_text(f, ",\n          ", "about", notes->level[k]);
        fprintf(f, " }");
    }
    fprintf(f, "\n    ]");
    for (size_t i = 0; i < NFIELD(machine_fields); i++)
        put_field(f, ",\n    ", &machine_fields[i], m);
    for (uint32_t i = 0; i < m->nslow; i++) {
        fprintf(f, i > 0 ? ",\n        " : ",\n    \"slow\": [\n        ");
        put_slow(f, m, &m->slow[i]);
    }
    fprintf(f, m->nslow > 0 ? "\n    ]\n}\n" : "\n}\n");
}

char *machine_format(const struct plait_machine *machine, const struct machine_notes *notes)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    if (f != NULL)
        put_machine(f, machine, notes);
    if (f == NULL || fclose(f) != 0) {
        complain("out of memory");
        free(text);
        return NULL;
    }
    return text;
}
