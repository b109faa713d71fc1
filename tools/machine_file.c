/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine_file.h"

#include "base/nearest.h"

#include "../simulate/fields.h"
#include "json_line.h"
#include "message.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct plait_field slow_fields[] = { { "percent", PLAIT_COUNT, true, 1, 100,
                                                    offsetof(struct plait_slow, percent), 4 } };

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

static bool unknown(const struct reader *r, const struct place *p, const char *key, const struct plait_field *fields,
                    size_t n, const char *const *others)
{
    unsigned distance = PLAIT_NEAR + 1;
    char best[64] = "", all[256] = "";

    if (p->nstep == 0 && plait_field_find(plait_level_fields, PLAIT_NLEVEL_FIELD, key) != NULL)
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

static bool read_field(const struct reader *r, const struct place *p, const struct plait_field *f, void *to)
{
    const json_t *v = json_object_get(p->object, f->name);
    double value = json_number_value(v);
    bool ok = json_is_number(v) && plait_quantity_allowed(f->quantity, value);

    if (json_is_string(v) && f->quantity != PLAIT_COUNT)
        ok = plait_quantity_parse(f->quantity, json_string_value(v), &value);
    if (!ok)
        return wrong_value(r, p, f->name, plait_quantity_form(f->quantity));
    return plait_field_set(f, value, to) ||
           wrong(r, p, f->name, "%s.%s is %.0f; at most %u is allowed", p->name, f->name, value, UINT32_MAX);
}

static bool read_fields(const struct reader *r, const struct place *p, const struct plait_field *fields, size_t n,
                        const char *const *others, void *to)
{
    const char *key;
    json_t *v;

    json_object_foreach(p->object, key, v)
    {
        const struct plait_field *f = plait_field_find(fields, n, key);
        const char *const *o = others;
        while (*o != NULL && strcmp(key, *o) != 0)
            o++;
        if (f != NULL ? !read_field(r, p, f, to) : *o == NULL && !unknown(r, p, key, fields, n, others))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].needed && json_object_get(p->object, fields[i].name) == NULL)
            return wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, fields[i].name,
                         plait_quantity_form(fields[i].quantity));
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

static bool read_oversubscription(const struct reader *r, const struct place *p, struct plait_machine *m, uint32_t k)
{
    const json_t *v = json_object_get(p->object, "oversubscription");
    const double n = json_number_value(v);

    if (v == NULL)
        return m->level[k].bandwidth > 0 || json_object_get(p->object, "bandwidth") != NULL ||
               wrong(r, p, NULL, "%s needs \"bandwidth\": %s", p->name, plait_quantity_form(PLAIT_RATE));
    if (!(n >= 0.01 && n <= 10000))
        return wrong_value(r, p, "oversubscription", PLAIT_FORM_OVERSUBSCRIPTION);
    if (json_object_get(p->object, "links") != NULL)
        return wrong(r, p, "oversubscription", "%s has \"links\" and \"oversubscription\"; leave one of them out",
                     p->name);
    return plait_oversubscribe(m, k, n) ||
           wrong(r, p, "oversubscription", "%s.oversubscription needs links in the level below; give \"links\"",
                 p->name);
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
           read_fields(r, &p, plait_level_fields, PLAIT_NLEVEL_FIELD, level_others, l) &&
           read_oversubscription(r, &p, m, (uint32_t)i);
}

static bool read_slow(const struct reader *r, json_t *object, size_t i, struct plait_machine *m)
{
    static const struct plait_field rank = { "rank", PLAIT_COUNT, false,
                                             0,      UINT32_MAX,  offsetof(struct plait_slow, child),
                                             4 };
    struct place p = { .steps = { { "slow", 0 }, { NULL, i } }, .nstep = 2, .object = object };
    const char *links = json_string_value(json_object_get(object, "links"));
    struct plait_slow s = { .child = 0 };
    char change[128], must[96];

    snprintf(p.name, sizeof p.name, "slow[%zu]", i);
    if (!json_is_object(object))
        return wrong(r, &p, NULL, "%s must be an object such as { \"rank\": 3, \"percent\": 50 }", p.name);
    if (!read_fields(r, &p, slow_fields, 1, slow_others, &s))
        return false;
    s.rank = json_object_get(object, "rank") != NULL;
    if (s.rank == (json_object_get(object, "links") != NULL))
        return wrong(r, &p, NULL, "%s needs either \"rank\": a number, or \"links\": a unit, such as \"%s 0\"", p.name,
                     m->level[0].name);
    if (s.rank && !read_field(r, &p, &rank, &s))
        return false;
    if (s.rank)
        snprintf(change, sizeof change, "rank %u=/1", s.child);
    else
        snprintf(change, sizeof change, "%.100s links=/1", links != NULL ? links : "");
    snprintf(must, sizeof must, "a unit with its number, from 0, such as \"%s 0\"",
             m->nlevel > 1 ? m->level[m->nlevel - 2].name : "rank");
    if (plait_machine_change(m, change) != PLAIT_OK)
        return wrong_value(r, &p, s.rank ? "rank" : "links", must);
    m->slow[m->nslow - 1].percent = s.percent;
    return true;
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
        for (size_t k = 0; k < PLAIT_NLEVEL_FIELD; k++) {
            snprintf(name, sizeof name, " %s.%s ", m->level[i].name, plait_level_fields[k].name);
            p.steps[1].index = i;
            if (strstr(text, name) != NULL)
                return wrong(r, &p, plait_level_fields[k].name, "%s", text);
        }
    p.nstep = 0;
    for (size_t k = 0; k < PLAIT_NMACHINE_FIELD; k++) {
        snprintf(name, sizeof name, " %s is ", plait_machine_fields[k].name);
        if (strstr(text, name) != NULL)
            return wrong(r, &p, plait_machine_fields[k].name, "%s", text);
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
        !read_fields(r, &p, plait_machine_fields, PLAIT_NMACHINE_FIELD, machine_others, m))
        return false;
    if (!json_is_array(levels) || json_array_size(levels) == 0 || json_array_size(levels) > PLAIT_MOST_LEVELS)
        return wrong(r, &p, levels != NULL ? "levels" : NULL,
                     "the machine needs \"levels\": an array of 1 to %d, the smallest first", PLAIT_MOST_LEVELS);
    for (; m->nlevel < json_array_size(levels); m->nlevel++)
        if (!read_level(r, json_array_get(levels, m->nlevel), m->nlevel, m, notes))
            return false;
    if (slow != NULL && (!json_is_array(slow) || json_array_size(slow) > PLAIT_MOST_SLOW))
        return wrong(r, &p, "slow", "the machine's \"slow\" must be an array of at most %d", PLAIT_MOST_SLOW);
    for (size_t i = 0; i < json_array_size(slow); i++)
        if (!read_slow(r, json_array_get(slow, i), i, m))
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

static void put_field(FILE *f, const char *before, const struct plait_field *field, const void *from)
{
    const uint64_t v = plait_field_get(field, from);
    char text[32];

    if (v == 0 && !field->needed)
        return;
    plait_quantity_print(field->quantity, v, text);
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
        for (size_t i = 0; i < PLAIT_NLEVEL_FIELD; i++)
            put_field(f, ", ", &plait_level_fields[i], &m->level[k]);
        if (notes->level[k][0] != '\0')
            put_text(f, ",\n          ", "about", notes->level[k]);
        fprintf(f, " }");
    }
    fprintf(f, "\n    ]");
    for (size_t i = 0; i < PLAIT_NMACHINE_FIELD; i++)
        put_field(f, ",\n    ", &plait_machine_fields[i], m);
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
