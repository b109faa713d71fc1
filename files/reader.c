/* SPDX-License-Identifier: BSD-3-Clause */
#include "reader.h"

#include "base/ascii.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors ------------------------------------------------------------------------------------------ */

bool reader_wrong(const struct reader *r, const struct place *p, const char *key, const char *format, ...)
{
    struct json_step steps[MOST_STEPS + 1];
    va_list arguments;

    memcpy(steps, p->steps, sizeof p->steps);
    steps[p->nstep] = (struct json_step){ .key = key };
    const unsigned line = json_line(r->file->text, r->file->bytes, steps, p->nstep + (key != NULL));
    const int n = snprintf(r->why, r->room, "%s, line %u: ", r->file->name, line);
    va_start(arguments, format);
    if (n > 0 && (size_t)n < r->room)
        vsnprintf(r->why + n, r->room - (size_t)n, format, arguments);
    va_end(arguments);
    return false;
}

bool reader_wrong_value(const struct reader *r, const struct place *p, const char *key, const char *must)
{
    char *text = json_dumps(json_object_get(p->object, key), JSON_ENCODE_ANY);

    reader_wrong(r, p, key, "%s.%s is %.200s; it must be %s", p->name, key, text != NULL ? text : "?", must);
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

static bool unknown(const struct reader *r, const struct place *p, const char *key, const struct kind *kind)
{
    unsigned distance = PLAIT_NEAR + 1;
    char best[64] = "", all[256] = "";

    if (plait_field_find(kind->inside, kind->ninside, key) != NULL)
        return reader_wrong(r, p, key, "%s has no field '%s'; it belongs into %s", p->name, key, kind->of);
    for (const char *const *o = kind->others; *o != NULL; o++) {
        nearer(key, *o, best, &distance);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] != '\0' ? ", " : "", *o);
    }
    for (size_t i = 0; i < kind->n; i++) {
        nearer(key, kind->fields[i].name, best, &distance);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] != '\0' ? ", " : "", kind->fields[i].name);
    }
    if (best[0] != '\0')
        return reader_wrong(r, p, key, "%s has no field '%.60s'; did you mean '%s'?", p->name, key, best);
    return reader_wrong(r, p, key, "%s has no field '%.60s'; its fields are %s", p->name, key, all);
}

/* ---- Objects ----------------------------------------------------------------------------------------- */

json_t *reader_parse(const struct reader *r, const char *form)
{
    json_error_t error;
    json_t *root = json_loadb(r->file->text, r->file->bytes, JSON_REJECT_DUPLICATES, &error);

    if (root == NULL)
        snprintf(r->why, r->room, "%s, line %d: %s", r->file->name, error.line > 0 ? error.line : 1, error.text);
    if (root == NULL || json_is_object(root))
        return root;
    snprintf(r->why, r->room, "%s, line 1: it must be %s", r->file->name, form);
    json_decref(root);
    return NULL;
}

bool reader_enter(const struct reader *r, const struct place *p, const char *key, size_t i, const char *with,
                  struct place *out)
{
    *out = *p;
    out->steps[out->nstep++] = (struct json_step){ .key = key };
    out->steps[out->nstep++] = (struct json_step){ .index = i };
    out->object = json_array_get(json_object_get(p->object, key), i);
    if (p->nstep == 0)
        snprintf(out->name, sizeof out->name, "%s[%zu]", key, i);
    else
        snprintf(out->name, sizeof out->name, "%.20s.%.8s[%zu]", p->name, key, i);
    return json_is_object(out->object) || reader_wrong(r, out, NULL, "%s must be an object %s", out->name, with);
}

bool reader_inside(const struct reader *r, const struct place *p, const char *key, struct place *out)
{
    *out = *p;
    out->object = json_object_get(p->object, key);
    snprintf(out->name, sizeof out->name, "%s", key);
    if (out->object == NULL)
        return reader_wrong(r, p, NULL, "%s needs \"%s\": an object", p->name, key);
    out->steps[out->nstep++] = (struct json_step){ .key = key };
    return json_is_object(out->object) || reader_wrong(r, out, NULL, "%s must be an object", key);
}

/* ---- Fields ------------------------------------------------------------------------------------------ */

bool reader_field(const struct reader *r, const struct place *p, const struct plait_field *f, void *to)
{
    const json_t *v = json_object_get(p->object, f->name);
    double value = json_number_value(v);
    bool ok = json_is_number(v) && plait_quantity_allowed(f->quantity, value);
    char must[64];

    if (json_is_string(v) && f->quantity != PLAIT_COUNT)
        ok = plait_quantity_parse(f->quantity, json_string_value(v), &value);
    if (!ok)
        return reader_wrong_value(r, p, f->name, plait_quantity_form(f->quantity));
    snprintf(must, sizeof must, "%" PRIu64 " to %" PRIu64, f->least, f->most);
    return (plait_field_set(f, value, to) && plait_field_get(f, to) >= f->least && plait_field_get(f, to) <= f->most) ||
           reader_wrong_value(r, p, f->name, must);
}

bool reader_fields(const struct reader *r, const struct place *p, const struct kind *kind, void *to)
{
    const char *key;
    json_t *v;

    json_object_foreach(p->object, key, v)
    {
        const struct plait_field *f = plait_field_find(kind->fields, kind->n, key);
        const char *const *o = kind->others;
        while (*o != NULL && strcmp(key, *o) != 0)
            o++;
        if (f != NULL ? !reader_field(r, p, f, to) : *o == NULL && !unknown(r, p, key, kind))
            return false;
    }
    for (size_t i = 0; i < kind->n; i++)
        if (kind->fields[i].needed && json_object_get(p->object, kind->fields[i].name) == NULL)
            return reader_wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, kind->fields[i].name,
                                plait_quantity_form(kind->fields[i].quantity));
    return true;
}

bool reader_text(const struct reader *r, const struct place *p, const char *key, bool needed, char *to, size_t room)
{
    const json_t *v = json_object_get(p->object, key);
    const char *text = json_string_value(v);
    char must[48];

    if (v == NULL && !needed)
        return true;
    snprintf(must, sizeof must, "text of 1 to %zu bytes", room - 1);
    if (v == NULL)
        return reader_wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, key, must);
    if (text == NULL || text[0] == '\0' || strlen(text) >= room)
        return reader_wrong_value(r, p, key, must);
    snprintf(to, room, "%s", text);
    return true;
}

bool reader_name(const struct reader *r, const struct place *p, const char *key, const char *const *names,
                 unsigned *out)
{
    const json_t *v = json_object_get(p->object, key);
    char must[256] = "";

    for (unsigned i = 0; names[i] != NULL; i++) {
        if (json_is_string(v) && strcmp(json_string_value(v), names[i]) == 0) {
            *out = i;
            return true;
        }
        snprintf(must + strlen(must), sizeof must - strlen(must), "%s\"%s\"",
                 i == 0                 ? ""
                 : names[i + 1] == NULL ? " or "
                                        : ", ",
                 names[i]);
    }
    if (v == NULL)
        return reader_wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, key, must);
    return reader_wrong_value(r, p, key, must);
}
