/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of a machine as text. */
#include "fields.h"

#include "base/ascii.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#define MOST_TEXT 128 /* of a change */

/* A field that another one stands for: of the level above. */
static const char *const above[][2] = { { "uplink", "bandwidth" }, { "uplinks", "links" } };

static uint32_t find_level(const struct plait_machine *m, const char *name)
{
    uint32_t k = 0;

    while (k < m->nlevel && strcmp(m->level[k].name, name) != 0)
        k++;
    return k;
}

/* Copy the text from `from` up to `end` without the blanks around it. */
static void copy_between(const char *from, const char *end, char out[MOST_TEXT])
{
    from += strspn(from, " ");
    while (end > from && end[-1] == ' ')
        end--;
    snprintf(out, MOST_TEXT, "%.*s", end > from ? (int)(end - from) : 0, from);
}

/* "/4" or "*0.5"; 0: another text. */
static double factor_of(const char *value)
{
    char *end;
    const double x = *value == '/' || *value == '*' ? plait_real(value + 1, &end) : 0;

    if (!(x > 0) || x > 1e18 || end == value + 1 || *end != '\0')
        return 0;
    return *value == '/' ? 1 / x : x;
}

static enum plait_status set_field(const char *change, const struct plait_field *f, void *of, const char *value)
{
    const double factor = factor_of(value), old = (double)plait_field_get(f, of);
    double now = old * factor;

    if (factor == 0 && !plait_quantity_parse(f->quantity, value, &now))
        return plait_fail(PLAIT_ERR_ARG, "%s: the value must be %s; or /FACTOR or *FACTOR, such as /4", change,
                          plait_quantity_form(f->quantity));
    if (now >= 1e18 || !plait_field_set(f, now, of))
        return plait_fail(PLAIT_ERR_ARG, "%s: %.0f is too large", change, now);
    return PLAIT_OK;
}

static enum plait_status oversubscribe(const char *change, struct plait_machine *m, uint32_t k, const char *value)
{
    const struct plait_level *l = &m->level[k], *below = l - 1;
    const double factor = factor_of(value);
    const bool links = k > 0 && below->links > 0;
    char *end;
    double n = plait_real(value, &end);

    if (factor == 0 && (end == value || *end != '\0'))
        n = 0;
    if (factor > 0 && links)
        n = factor * below->children * below->links * (double)below->bandwidth / (l->links * (double)l->bandwidth);
    if ((factor == 0 || links) && !(n >= 0.01 && n <= 10000))
        return plait_fail(PLAIT_ERR_ARG, "%s: the value must be " PLAIT_FORM_OVERSUBSCRIPTION, change);
    if (!links)
        return plait_fail(PLAIT_ERR_ARG, "%s: needs links in the level below", change);
    plait_oversubscribe(m, k, n);
    return PLAIT_OK;
}

/* What `uplink` or `bandwidth` may be. */
static enum plait_status no_field(const char *change, const struct plait_machine *m, uint32_t k, const char *field)
{
    const char *unit = m->level[k].name;
    char fields[256] = "";

    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (strcmp(field, above[i][0]) == 0)
            return plait_fail(PLAIT_ERR_ARG,
                              "%s: %s is the largest unit and has no %s; %s.%s changes the links of %ss to it", change,
                              unit, field, k > 0 ? m->level[k - 1].name : unit, k > 0 ? field : above[i][1],
                              k > 0 ? m->level[k - 1].name : "rank");
    for (size_t i = 0; i < PLAIT_NLEVEL_FIELD; i++)
        snprintf(fields + strlen(fields), sizeof fields - strlen(fields), "%s, ", plait_level_fields[i].name);
    return plait_fail(PLAIT_ERR_ARG,
                      "%s: level '%s' has no field '%s'; its fields are %suplink, uplinks, oversubscription", change,
                      unit, field, fields);
}

static enum plait_status set_level(const char *change, struct plait_machine *m, const char *level, const char *field,
                                   const char *value)
{
    uint32_t k = find_level(m, level);

    if (k == m->nlevel)
        return plait_fail(PLAIT_ERR_ARG, "%s: the machine has no level '%s'", change, level);
    if (strcmp(field, "oversubscription") == 0)
        return oversubscribe(change, m, k, value);
    const char *name = field;
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (strcmp(field, above[i][0]) == 0) {
            name = above[i][1];
            k++;
        }
    const struct plait_field *f = plait_field_find(plait_level_fields, PLAIT_NLEVEL_FIELD, name);
    if (f == NULL || k == m->nlevel)
        return no_field(change, m, find_level(m, level), field);
    return set_field(change, f, &m->level[k], value);
}

/* "rank 5", or the links of "host 3" or of "rank 5 links", are slower. */
static enum plait_status add_slow(const char *change, struct plait_machine *m, char *unit, const char *value)
{
    const size_t n = strlen(unit), links = strlen(" links");
    const bool of_links = n > links && strcmp(unit + n - links, " links") == 0;
    const double percent = 100 * factor_of(value);
    uint32_t k = 0, child = 0; /* the level whose children these are */

    unit[of_links ? n - links : n] = '\0';
    if (!plait_unit_find(m, unit, &k, &child))
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: must be 'rank N' or, for the links of one unit, '%s N' of any level but the last",
                          change, m->level[0].name);
    if (percent == 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: the value must be /FACTOR or *FACTOR, such as /4", change);
    if (percent < 0.5 || percent >= 100.5)
        return plait_fail(PLAIT_ERR_ARG, "%s: leaves %.0f %% of the speed; it must leave 1 to 100 %%", change, percent);
    if (m->nslow == PLAIT_MOST_SLOW)
        return plait_fail(PLAIT_ERR_ARG, "%s: more than %d slow parts", change, PLAIT_MOST_SLOW);
    m->slow[m->nslow++] = (struct plait_slow){
        .rank = k == 0 && !of_links, .level = k, .child = child, .percent = (uint32_t)(percent + 0.5)
    };
    return PLAIT_OK;
}

static enum plait_status change_one(struct plait_machine *m, const char *change)
{
    const char *equals = strchr(change, '=');
    char name[MOST_TEXT], value[MOST_TEXT] = "";

    copy_between(change, equals != NULL ? equals : change, name);
    if (equals != NULL)
        copy_between(equals + 1, equals + strlen(equals), value);
    char *dot = strrchr(name, '.');
    const struct plait_field *f = plait_field_find(plait_machine_fields, PLAIT_NMACHINE_FIELD, name);
    if (f != NULL)
        return set_field(change, f, m, value);
    if (dot != NULL) {
        *dot = '\0';
        return set_level(change, m, name, dot + 1, value);
    }
    if (strchr(name, ' ') != NULL)
        return add_slow(change, m, name, value);
    return plait_fail(PLAIT_ERR_ARG, "%s: must be LEVEL.FIELD=VALUE, such as rack.uplink=/4, or 'rank 5=/2'", change);
}

enum plait_status plait_machine_change(struct plait_machine *machine, const char *changes)
{
    enum plait_status status = PLAIT_OK;
    struct plait_machine changed;
    char one[MOST_TEXT];

    if (machine == NULL || changes == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_machine_change: %s is NULL", machine == NULL ? "machine" : "changes");
    changed = *machine;
    while (status == PLAIT_OK && *changes != '\0') {
        const size_t n = strcspn(changes, ",");
        if (n >= sizeof one)
            return plait_fail(PLAIT_ERR_ARG, "%.40s...: a change has at most %d bytes", changes, MOST_TEXT - 1);
        copy_between(changes, changes + n, one);
        status = change_one(&changed, one);
        changes += n + (changes[n] == ',');
    }
    if (status == PLAIT_OK)
        *machine = changed;
    return status;
}
