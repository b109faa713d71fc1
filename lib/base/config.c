/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the settings has three passes: gather (the raw text of each row and its origin), parse (into the struct),
 * warn (of names that no row has). Other files read only variables that are not Plait's: launchers' (launch.c,
 * origin.c), HOME (secret.c), the driver's (device_comm.c).
 */
#include "config.h"

#include "config_rows.h"
#include "descriptor.h"
#include "fork.h"
#include "log.h"
#include "nearest.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_FILE (1 << 20)

extern char **environ;

#define IS_FILE(row) ((row)->offset == offsetof(struct plait_config, file)) /* PLAIT_CONFIG */

/* The raw value of a row ("": the default) and where it was set. */
struct found {
    char value[256], origin[256];
};

/* Values from plait_config_set(), under given_lock; origin "": none. */
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;
static struct found given[PLAIT_NSETTING];

struct reading {
    struct found row[PLAIT_NSETTING];
    const char *path; /* of PLAIT_CONFIG's file; NULL: none */
    char *text;       /* the file's bytes, owned; NULL: none */
    size_t bytes;
};

static const struct plait_config_row *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < PLAIT_NSETTING; i++)
        if (strlen(plait_config_rows[i].name) == length && memcmp(plait_config_rows[i].name, name, length) == 0)
            return &plait_config_rows[i];
    return NULL;
}

/* ---- The file ---------------------------------------------------------------------------------- */

/* A part of a line, without a terminating NUL. */
struct piece {
    const char *at;
    size_t length;
};

struct line {
    const char *path;
    unsigned number;
    struct piece name, value;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct piece trim(const char *from, const char *to)
{
    while (from < to && is_blank(*from))
        from++;
    while (to > from && is_blank(to[-1]))
        to--;
    return (struct piece){ from, (size_t)(to - from) };
}

/*
 * Find the next "NAME = value" and split it into `line`; *at advances to the line after it. line->number counts on from
 * the last call. *found is false at the end of the file.
 */
static enum plait_status next_setting(const char **at, const char *end, struct line *line, bool *found)
{
    *found = false;
    while (*at < end && !*found) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        const char *const start = *at, *equals;
        struct piece all;

        if (stop == NULL)
            stop = end;
        *at = stop < end ? stop + 1 : end;
        line->number++;
        if (memchr(start, '\0', (size_t)(stop - start)) != NULL)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: a NUL byte; the file must be text", line->path, line->number);
        for (const char *c = start; c < stop; c++)
            if (*c == '#' && (c == start || is_blank(c[-1])))
                stop = c;
        all = trim(start, stop);
        if (all.length == 0)
            continue;
        equals = memchr(all.at, '=', all.length);
        if (equals == NULL || equals == all.at)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: '%.*s' is not of the form NAME = value", line->path,
                              line->number, (int)(all.length < 60 ? all.length : 60), all.at);
        line->name = trim(all.at, equals);
        line->value = trim(equals + 1, all.at + all.length);
        *found = true;
    }
    return PLAIT_OK;
}

/* Enter the file's values in the rows that are still empty. */
static enum plait_status gather_file(struct reading *r)
{
    struct line line = { .path = r->path };
    const char *at = r->text;
    unsigned seen[PLAIT_NSETTING] = { 0 };

    for (;;) {
        bool found;
        const enum plait_status status = next_setting(&at, r->text + r->bytes, &line, &found);
        const struct plait_config_row *row;
        size_t i;

        if (status != PLAIT_OK || !found)
            return status;
        row = find_row(line.name.at, line.name.length);
        if (row == NULL)
            continue; /* warn_unknown() names it */
        i = (size_t)(row - plait_config_rows);
        if (IS_FILE(row))
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: %s can only be set in the environment", r->path, line.number,
                              row->name);
        if (seen[i] != 0)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: %s was already set in line %u", r->path, line.number, row->name,
                              seen[i]);
        seen[i] = line.number;
        if (line.value.length >= sizeof r->row[i].value)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: the value of %s is longer than %zu characters", r->path,
                              line.number, row->name, sizeof r->row[i].value - 1);
        if (r->row[i].origin[0] != '\0')
            continue; /* the environment and plait_config_set() take precedence */
        memcpy(r->row[i].value, line.value.at, line.value.length);
        snprintf(r->row[i].origin, sizeof r->row[i].origin, "%.200s:%u", r->path, line.number);
    }
}

static enum plait_status read_file(struct reading *r)
{
    enum plait_status status = PLAIT_OK;
    FILE *f = plait_descriptor_stream(open(r->path, O_RDONLY | O_CLOEXEC), "r");

    if (f == NULL && (errno == ENOMEM || errno == EMFILE || errno == ENFILE)) /* a shortage is not a wrong setting */
        return plait_fail_errno(errno, "PLAIT_CONFIG='%s' cannot be opened", r->path);
    if (f == NULL)
        return plait_fail(PLAIT_ERR_CONFIG, "PLAIT_CONFIG='%s' cannot be opened: %s", r->path, strerror(errno));
    r->text = malloc(LARGEST_FILE + 1);
    if (r->text == NULL) {
        status = plait_fail_memory("no memory for the file of PLAIT_CONFIG");
        goto out;
    }
    r->bytes = fread(r->text, 1, LARGEST_FILE + 1, f);
    if (ferror(f))
        status = plait_fail(PLAIT_ERR_CONFIG, "PLAIT_CONFIG='%s' cannot be read: %s", r->path, strerror(errno));
    else if (r->bytes > LARGEST_FILE)
        status = plait_fail(PLAIT_ERR_CONFIG, "PLAIT_CONFIG='%s' is larger than %d bytes", r->path, LARGEST_FILE);
out:
    fclose(f);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------- */

static void gather_given(struct reading *r)
{
    pthread_mutex_lock(&given_lock);
    memcpy(r->row, given, sizeof given);
    pthread_mutex_unlock(&given_lock);
    for (size_t i = 0; i < PLAIT_NSETTING; i++)
        if (IS_FILE(&plait_config_rows[i]) && r->row[i].value[0] != '\0')
            r->path = r->row[i].value;
}

static enum plait_status gather_environment(struct reading *r)
{
    for (size_t i = 0; i < PLAIT_NSETTING; i++) {
        const char *value = getenv(plait_config_rows[i].name);

        if (value == NULL)
            continue;
        if (strlen(value) >= sizeof r->row[i].value)
            return plait_fail(PLAIT_ERR_CONFIG, "%s: the value '%.60s...' is longer than %zu characters",
                              plait_config_rows[i].name, plait_config_rows[i].secret ? "(secret)" : value,
                              sizeof r->row[i].value - 1);
        strcpy(r->row[i].value, value);
        strcpy(r->row[i].origin, "environment");
        if (IS_FILE(&plait_config_rows[i]))
            r->path = value[0] != '\0' ? r->row[i].value : NULL;
    }
    return PLAIT_OK;
}

static enum plait_status gather(struct reading *r)
{
    enum plait_status status;

    memset(r, 0, sizeof *r);
    gather_given(r);
    status = gather_environment(r);
    if (status == PLAIT_OK && r->path != NULL)
        status = read_file(r);
    if (status == PLAIT_OK && r->path != NULL)
        status = gather_file(r);
    return status;
}

static const char *effective(const struct reading *r, size_t i)
{
    return r->row[i].value[0] != '\0' ? r->row[i].value : plait_config_rows[i].initial;
}

static const char *origin(const struct reading *r, size_t i)
{
    return r->row[i].origin[0] != '\0' ? r->row[i].origin : "default";
}

static const char *shown(const struct reading *r, size_t i)
{
    const char *value = effective(r, i);

    return plait_config_rows[i].secret && value[0] != '\0' ? "(secret)" : value;
}

static enum plait_status parse_row(const struct reading *r, size_t i, struct plait_config *out)
{
    const char *value = effective(r, i);
    const char *allowed = plait_config_rows[i].parse(value, (char *)out + plait_config_rows[i].offset);

    if (allowed == NULL)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_CONFIG, "%s='%s' (%s): allowed is %s", plait_config_rows[i].name, shown(r, i),
                      origin(r, i), allowed);
}

static enum plait_status parse_all(const struct reading *r, struct plait_config *out)
{
    struct plait_config config;

    memset(&config, 0, sizeof config);
    for (size_t i = 0; i < PLAIT_NSETTING; i++) {
        const enum plait_status status = parse_row(r, i, &config);
        if (status != PLAIT_OK)
            return status;
    }
    *out = config;
    return PLAIT_OK;
}

/* ---- Unknown names ------------------------------------------------------------------------------- */

static void warn_name(const char *where, const char *name, size_t length)
{
    char copy[64];
    const char *best = NULL;
    unsigned least = PLAIT_NEAR + 1;

    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1), name);
    for (size_t i = 0; i < PLAIT_NSETTING; i++) {
        const unsigned d = plait_distance(copy, plait_config_rows[i].name);
        if (d < least) {
            least = d;
            best = plait_config_rows[i].name;
        }
    }
    if (best == NULL)
        plait_log(PLAIT_LOG_WARN, "%s: there is no setting '%s'; plait-info --config lists all", where, copy);
    else
        plait_log(PLAIT_LOG_WARN, "%s: there is no setting '%s'; did you mean %s? (plait-info --config lists all)",
                  where, copy, best);
}

/* A setting; or PLAIT_TEST_*, read by tests; or PLAIT_LIBRARY, by which bindings of other languages find libplait. */
static bool is_known(const char *name, size_t length)
{
    static const char tests[] = "PLAIT_TEST_", library[] = "PLAIT_LIBRARY";

    return find_row(name, length) != NULL ||
           (length >= sizeof tests - 1 && memcmp(name, tests, sizeof tests - 1) == 0) ||
           (length == sizeof library - 1 && memcmp(name, library, length) == 0);
}

static void warn_unknown(const struct reading *r)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    struct line line = { .path = r->path };
    const char *at = r->text;
    bool found = r->text != NULL;

    if (atomic_flag_test_and_set(&done))
        return;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        const size_t length = strcspn(*e, "=");
        if (strncmp(*e, "PLAIT_", 6) == 0 && !is_known(*e, length))
            warn_name("environment", *e, length);
    }
    while (found && next_setting(&at, r->text + r->bytes, &line, &found) == PLAIT_OK && found)
        if (!is_known(line.name.at, line.name.length)) {
            char where[272];
            snprintf(where, sizeof where, "%s:%u", r->path, line.number);
            warn_name(where, line.name.at, line.name.length);
        }
}

/* ---- Entry points -------------------------------------------------------------------------------- */

/* Parse every row; when all are valid, set up the log and warn. */
static enum plait_status apply(const struct reading *r, struct plait_config *out)
{
    const enum plait_status status = parse_all(r, out);

    if (status == PLAIT_OK) {
        plait_log_setup((enum plait_log_level)out->log, out->log_file);
        warn_unknown(r);
    }
    return status;
}

enum plait_status plait_config_load(struct plait_config *out)
{
    struct reading r;
    enum plait_status status = gather(&r);

    if (status == PLAIT_OK)
        status = apply(&r, out);
    free(r.text);
    return status;
}

enum plait_status plait_config_parse(const char *path, const char *text, size_t bytes, struct plait_config *out)
{
    struct reading r;
    enum plait_status status;

    memset(&r, 0, sizeof r);
    r.path = path;
    r.bytes = bytes;
    r.text = malloc(bytes + 1);
    if (r.text == NULL)
        return plait_fail_memory("no memory for %zu bytes of %s", bytes, path);
    if (bytes > 0)
        memcpy(r.text, text, bytes);
    status = gather_file(&r);
    if (status == PLAIT_OK)
        status = parse_all(&r, out);
    free(r.text);
    return status;
}

void plait_config_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE)
        pthread_mutex_lock(&given_lock);
    else
        pthread_mutex_unlock(&given_lock);
}

enum plait_status plait_config_set(const char *name, const char *value, const char *origin)
{
    struct plait_config scratch;
    const struct plait_config_row *row = name != NULL ? find_row(name, strlen(name)) : NULL;

    if (row == NULL || origin == NULL || origin[0] == '\0' || strlen(origin) >= sizeof given->origin)
        return plait_fail(PLAIT_ERR_ARG, "plait_config_set: %s '%.80s': %s", row == NULL ? "name" : "origin",
                          row == NULL ? (name != NULL ? name : "(NULL)") : (origin != NULL ? origin : "(NULL)"),
                          row == NULL ? "there is no such setting (plait-info --config lists all)"
                                      : "must be where the value comes from, in at most 255 characters");
    if (value != NULL && strlen(value) >= sizeof given->value)
        return plait_fail(PLAIT_ERR_CONFIG, "%s (%s): the value is longer than %zu characters", name, origin,
                          sizeof given->value - 1);
    const char *allowed = value != NULL && value[0] != '\0' ? row->parse(value, (char *)&scratch + row->offset) : NULL;
    if (allowed != NULL)
        return plait_fail(PLAIT_ERR_CONFIG, "%s='%s' (%s): allowed is %s", name, row->secret ? "(secret)" : value,
                          origin, allowed);
    pthread_mutex_lock(&given_lock);
    snprintf(given[row - plait_config_rows].value, sizeof given->value, "%s", value != NULL ? value : "");
    snprintf(given[row - plait_config_rows].origin, sizeof given->origin, "%s", value != NULL ? origin : "");
    pthread_mutex_unlock(&given_lock);
    return PLAIT_OK;
}

enum plait_status plait_config_get(size_t i, struct plait_setting *out)
{
    struct plait_config scratch;
    struct reading r;
    enum plait_status status;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_config_get: out is NULL");
    if (i >= PLAIT_NSETTING)
        return plait_fail(PLAIT_ERR_ARG, "plait_config_get: there are %d settings, not a number %zu", PLAIT_NSETTING,
                          i);
    status = gather(&r);
    if (status == PLAIT_OK && apply(&r, &scratch) != PLAIT_OK)
        status = parse_row(&r, i, &scratch); /* the error may be another row's: try this row alone */
    if (status == PLAIT_OK) {
        out->name = plait_config_rows[i].name;
        out->text = plait_config_rows[i].text;
        snprintf(out->value, sizeof out->value, "%s", shown(&r, i));
        snprintf(out->origin, sizeof out->origin, "%s", origin(&r, i));
    }
    free(r.text);
    return status;
}

void plait_config_variable(const char *name, char out[PLAIT_VARIABLE])
{
    struct plait_setting s;

    snprintf(out, PLAIT_VARIABLE, "%s", name);
    for (size_t i = 0; plait_config_get(i, &s) == PLAIT_OK; i++)
        if (strcmp(s.name, name) == 0) {
            if (strspn(s.origin, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(s.origin))
                snprintf(out, PLAIT_VARIABLE, "%.63s", s.origin);
            return;
        }
}
