/* SPDX-License-Identifier: BSD-3-Clause */
/* Machine files. docs/predict.md describes them. */
#include "files.h"
#include "reader.h"
#include "writer.h"

#include <string.h>

#define SLOW(name, quantity, needed, least, most, member)                           \
    {                                                                               \
        name, quantity, needed, least, most, offsetof(struct plait_slow, member), 4 \
    }
static const struct plait_field slow_fields[] = { SLOW("percent", PLAIT_COUNT, true, 1, 100, percent) };
static const struct plait_field slow_rank = SLOW("rank", PLAIT_COUNT, false, 0, UINT32_MAX, child);
#undef SLOW

/* The keys besides are read by functions of their own. */
static const struct kind level_kind = {
    .fields = plait_level_fields,
    .n = PLAIT_NLEVEL_FIELD,
    .others = (const char *const[]){ "name", "oversubscription", "about", NULL },
};
static const struct kind slow_kind = { .fields = slow_fields,
                                       .n = 1,
                                       .others = (const char *const[]){ "rank", "links", NULL } };
static const struct kind machine_kind = {
    .fields = plait_machine_fields,
    .n = PLAIT_NMACHINE_FIELD,
    .others = (const char *const[]){ "name", "about", "slow", "levels", NULL },
    .inside = plait_level_fields,
    .ninside = PLAIT_NLEVEL_FIELD,
    .of = "a level",
};

/* ---- Levels and what is slow ------------------------------------------------------------------------- */

static bool read_oversubscription(const struct reader *r, const struct place *p, struct plait_machine *m, uint32_t k)
{
    const json_t *v = json_object_get(p->object, "oversubscription");
    const double n = json_number_value(v);

    if (v == NULL)
        return m->level[k].bandwidth > 0 || json_object_get(p->object, "bandwidth") != NULL ||
               reader_wrong(r, p, NULL, "%s needs \"bandwidth\": %s", p->name, plait_quantity_form(PLAIT_RATE));
    if (!(n >= 0.01 && n <= 10000))
        return reader_wrong_value(r, p, "oversubscription", PLAIT_FORM_OVERSUBSCRIPTION);
    if (json_object_get(p->object, "links") != NULL)
        return reader_wrong(r, p, "oversubscription",
                            "%s has \"links\" and \"oversubscription\"; leave one of them out", p->name);
    return plait_oversubscribe(m, k, n) ||
           reader_wrong(r, p, "oversubscription", "%s.oversubscription needs links in the level below; give \"links\"",
                        p->name);
}

static bool read_level(const struct reader *r, const struct place *root, size_t i, struct plait_machine *m)
{
    struct plait_level *l = &m->level[i];
    struct place p;

    return reader_enter(r, root, "levels", i, "with \"name\"", &p) &&
           reader_text(r, &p, "name", true, l->name, sizeof l->name) &&
           reader_text(r, &p, "about", false, l->about, sizeof l->about) && reader_fields(r, &p, &level_kind, l) &&
           read_oversubscription(r, &p, m, (uint32_t)i);
}

static bool read_slow(const struct reader *r, const struct place *root, size_t i, struct plait_machine *m)
{
    struct plait_slow *s = &m->slow[i];
    struct place p;
    char must[96];

    if (!reader_enter(r, root, "slow", i, "such as { \"rank\": 3, \"percent\": 50 }", &p) ||
        !reader_fields(r, &p, &slow_kind, s))
        return false;
    const json_t *links = json_object_get(p.object, "links");
    s->rank = json_object_get(p.object, "rank") != NULL;
    if (s->rank == (links != NULL))
        return reader_wrong(r, &p, NULL, "%s needs either \"rank\": a number, or \"links\": a unit, such as \"%s 0\"",
                            p.name, m->level[0].name);
    if (s->rank)
        return reader_field(r, &p, &slow_rank, s);
    snprintf(must, sizeof must, "a unit with its number, from 0, such as \"%s 0\"",
             m->nlevel > 1 ? m->level[m->nlevel - 2].name : "rank");
    return (json_is_string(links) && plait_unit_find(m, json_string_value(links), &s->level, &s->child)) ||
           reader_wrong_value(r, &p, "links", must);
}

/* The library's objection to the machine, with the line of the level that it names. */
static bool check(const struct reader *r, const struct place *root, const struct plait_machine *m,
                  const char *(*refuses)(const struct plait_machine *machine))
{
    const char *why = refuses(m);
    char name[sizeof m->level->name + 3];
    struct place p = *root;

    if (why == NULL)
        return true;
    for (size_t i = 0; i < m->nlevel; i++) {
        snprintf(name, sizeof name, " %s.", m->level[i].name);
        if (strstr(why, name) != NULL)
            return reader_enter(r, root, "levels", i, "", &p) && reader_wrong(r, &p, NULL, "%s", why);
    }
    return reader_wrong(r, root, strstr(why, "slow") != NULL ? "slow" : "levels", "%s", why);
}

/* ---- Machines ---------------------------------------------------------------------------------------- */

static bool read_machine(const struct reader *r, const struct place *p, struct plait_machine *m)
{
    const json_t *levels = json_object_get(p->object, "levels"), *slow = json_object_get(p->object, "slow");

    if (!reader_text(r, p, "name", true, m->name, sizeof m->name) ||
        !reader_text(r, p, "about", false, m->about, sizeof m->about) || !reader_fields(r, p, &machine_kind, m))
        return false;
    if (!json_is_array(levels) || json_array_size(levels) == 0 || json_array_size(levels) > PLAIT_MOST_LEVELS)
        return reader_wrong(r, p, levels != NULL ? "levels" : NULL,
                            "the machine needs \"levels\": an array of 1 to %d, the smallest first", PLAIT_MOST_LEVELS);
    for (; m->nlevel < json_array_size(levels); m->nlevel++)
        if (!read_level(r, p, m->nlevel, m))
            return false;
    if (slow != NULL && (!json_is_array(slow) || json_array_size(slow) > PLAIT_MOST_SLOW))
        return reader_wrong(r, p, "slow", "the machine's \"slow\" must be an array of at most %d", PLAIT_MOST_SLOW);
    for (; m->nslow < json_array_size(slow); m->nslow++)
        if (!read_slow(r, p, m->nslow, m))
            return false;
    return true;
}

bool files_read_machine(const struct plait_file *file, const char *(*refuses)(const struct plait_machine *machine),
                        struct plait_machine *out, char *why, size_t room)
{
    const struct reader r = { file, why, room };
    struct place p = { .name = "the machine" };
    struct plait_machine m = { .nlevel = 0 };

    p.object = reader_parse(&r, "an object with \"name\" and \"levels\"; see docs/predict.md");
    const bool ok = p.object != NULL && read_machine(&r, &p, &m) && check(&r, &p, &m, refuses);
    json_decref(p.object);
    if (ok)
        *out = m;
    return ok;
}

/* ---- Writing ----------------------------------------------------------------------------------------- */

static void put_slow(struct writer *w, const struct plait_machine *m, const struct plait_slow *s)
{
    char unit[48];

    fprintf(w->f, "{ ");
    if (s->rank) {
        fprintf(w->f, "\"rank\": %u", s->child);
    } else {
        snprintf(unit, sizeof unit, "%s %u", s->level > 0 ? m->level[s->level - 1].name : "rank", s->child);
        writer_text(w, "", "links", unit);
    }
    fprintf(w->f, ", \"percent\": %u }", s->percent);
}

static void put_machine(struct writer *w, const struct plait_machine *m)
{
    writer_text(w, "{\n    ", "name", m->name);
    if (m->about[0] != '\0')
        writer_text(w, ",\n    ", "about", m->about);
    fprintf(w->f, ",\n    \"levels\": [");
    for (uint32_t k = 0; k < m->nlevel; k++) {
        writer_text(w, k > 0 ? ",\n        { " : "\n        { ", "name", m->level[k].name);
        for (size_t i = 0; i < PLAIT_NLEVEL_FIELD; i++)
            writer_field(w, ", ", &plait_level_fields[i], &m->level[k]);
        if (m->level[k].about[0] != '\0')
            writer_text(w, ",\n          ", "about", m->level[k].about);
        fprintf(w->f, " }");
    }
    fprintf(w->f, "\n    ]");
    for (size_t i = 0; i < PLAIT_NMACHINE_FIELD; i++)
        writer_field(w, ",\n    ", &plait_machine_fields[i], m);
    for (uint32_t i = 0; i < m->nslow; i++) {
        fprintf(w->f, i > 0 ? ",\n        " : ",\n    \"slow\": [\n        ");
        put_slow(w, m, &m->slow[i]);
    }
    fprintf(w->f, m->nslow > 0 ? "\n    ]\n}\n" : "\n}\n");
}

char *files_write_machine(const struct plait_machine *machine, char *why, size_t room)
{
    struct writer w;

    if (writer_begin(&w))
        put_machine(&w, machine);
    return writer_end(&w, why, room);
}
