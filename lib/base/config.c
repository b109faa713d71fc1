/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the settings has three passes: gather (the raw text of each row and its origin), parse (into the struct),
 * warn (of names that no row has). Other files read only variables that are not Plait's: launchers' (lib/launch/),
 * HOME (id.c), the driver's (device_comm.c).
 */
#include "config.h"

#include "ascii.h"
#include "descriptor.h"
#include "fork.h"
#include "log.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_FILE (1 << 20)

extern char **environ;

#define IS_FILE(row) ((row)->offset == offsetof(struct plait_config, file)) /* PLAIT_CONFIG */

/* The raw value of a row ("": the default) and where it was set ("": nowhere). */
struct found {
    char value[256], origin[256];
};

/* Values from plait_config_set(), under given_lock; origin "": none. */
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;
static struct found given[PLAIT_NSETTING];

struct reading {
    struct found *row; /* [PLAIT_NSETTING], on the heap: stacks may be small */
    const char *path;  /* of PLAIT_CONFIG's file; NULL: none */
    char *text;        /* the file; NULL: none */
};

static enum plait_status begin(struct reading *r)
{
    *r = (struct reading){ .row = calloc(PLAIT_NSETTING, sizeof *r->row) };
    return r->row != NULL ? PLAIT_OK : plait_fail_memory("no memory for the settings");
}

static void end(struct reading *r)
{
    free(r->row);
    free(r->text);
}

static const struct plait_config_row *find_row(const char *name)
{
    for (size_t i = 0; i < PLAIT_NSETTING; i++)
        if (strcmp(plait_config_rows[i].name, name) == 0)
            return &plait_config_rows[i];
    return NULL;
}

/* ---- The file ---------------------------------------------------------------------------------- */

struct line {
    const char *next; /* the rest of the file */
    unsigned number;
    char text[1024], *name, *value; /* name: NULL at the end of the file */
};

static void cut_comment(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if (*c == '#' && (c == text || plait_is_space(c[-1]))) {
            *c = '\0';
            return;
        }
}

/* Find the next "NAME = value". */
static enum plait_status next_setting(const char *path, struct line *l)
{
    for (l->name = NULL; *l->next != '\0'; l->name = NULL) {
        const size_t length = strcspn(l->next, "\n");
        snprintf(l->text, sizeof l->text, "%.*s", (int)length, l->next);
        l->next += length + (l->next[length] == '\n');
        l->number++;
        cut_comment(l->text);
        l->name = plait_trim(l->text);
        if (*l->name == '\0')
            continue;
        l->value = strchr(l->name, '=');
        if (l->value == NULL || l->value == l->name)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: '%.60s' is not of the form NAME = value", path, l->number,
                              l->name);
        *l->value++ = '\0';
        plait_trim(l->name);
        l->value = plait_trim(l->value);
        break;
    }
    return PLAIT_OK;
}

/* Enter the file's values in the rows that are still empty. */
static enum plait_status gather_file(struct reading *r)
{
    struct line l = { .next = r->text };
    enum plait_status status;

    while ((status = next_setting(r->path, &l)) == PLAIT_OK && l.name != NULL) {
        const struct plait_config_row *row = find_row(l.name);
        if (row == NULL)
            continue; /* warn_unknown() names it */
        const size_t i = (size_t)(row - plait_config_rows);
        if (IS_FILE(row))
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: %s can only be set in the environment", r->path, l.number,
                              row->name);
        if (strlen(l.value) >= sizeof r->row[i].value)
            return plait_fail(PLAIT_ERR_CONFIG, "%s:%u: the value of %s is longer than %zu characters", r->path,
                              l.number, row->name, sizeof r->row[i].value - 1);
        if (r->row[i].origin[0] != '\0')
            continue; /* the environment, plait_config_set() and earlier lines take precedence */
        strcpy(r->row[i].value, l.value);
        snprintf(r->row[i].origin, sizeof r->row[i].origin, "%.200s:%u", r->path, l.number);
    }
    return status;
}

static enum plait_status check_text(const struct reading *r, size_t bytes)
{
    return strlen(r->text) == bytes ? PLAIT_OK
                                    : plait_fail(PLAIT_ERR_CONFIG, "%s: a NUL byte; the file must be text", r->path);
}

static enum plait_status read_file(struct reading *r)
{
    r->text = malloc(LARGEST_FILE + 2);
    if (r->text == NULL)
        return plait_fail_memory("no memory for the file of PLAIT_CONFIG");
    errno = 0;
    const size_t bytes = plait_descriptor_read(r->path, r->text, LARGEST_FILE + 2);
    if (errno == EMFILE || errno == ENFILE) /* a shortage is not a wrong setting */
        return plait_fail_errno(errno, "PLAIT_CONFIG='%s' cannot be read", r->path);
    if (errno != 0)
        return plait_fail(PLAIT_ERR_CONFIG, "PLAIT_CONFIG='%s' cannot be read: %s", r->path, strerror(errno));
    if (bytes > LARGEST_FILE)
        return plait_fail(PLAIT_ERR_CONFIG, "PLAIT_CONFIG='%s' is larger than %d bytes", r->path, LARGEST_FILE);
    return check_text(r, bytes);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

static enum plait_status gather(struct reading *r)
{
    enum plait_status status = begin(r);

    if (status != PLAIT_OK)
        return status;
    pthread_mutex_lock(&given_lock);
    memcpy(r->row, given, sizeof given);
    pthread_mutex_unlock(&given_lock);
    for (size_t i = 0; i < PLAIT_NSETTING; i++) {
        const struct plait_config_row *row = &plait_config_rows[i];
        const char *value = getenv(row->name);
        if (value != NULL && strlen(value) >= sizeof r->row[i].value)
            return plait_fail(PLAIT_ERR_CONFIG, "%s: the value '%.60s...' is longer than %zu characters", row->name,
                              row->secret ? "(secret)" : value, sizeof r->row[i].value - 1);
        if (value != NULL) {
            strcpy(r->row[i].value, value);
            strcpy(r->row[i].origin, "environment");
        }
        if (IS_FILE(row) && r->row[i].value[0] != '\0')
            r->path = r->row[i].value;
    }
    if (r->path != NULL)
        status = read_file(r);
    if (status == PLAIT_OK && r->path != NULL)
        status = gather_file(r);
    return status;
}

static enum plait_status parse(const struct plait_config_row *row, const char *value, const char *from,
                               struct plait_config *out)
{
    void *field = (char *)out + row->offset;
    const char *allowed = row->parse != NULL ? row->parse(value, field) : plait_config_word(row, value, field);

    return allowed == NULL ? PLAIT_OK
                           : plait_fail(PLAIT_ERR_CONFIG, "%s='%s' (%s): allowed is %s", row->name,
                                        row->secret ? "(secret)" : value, from, allowed);
}

/* A row without a value gets its default. */
static enum plait_status parse_row(struct reading *r, size_t i, struct plait_config *out)
{
    struct found *found = &r->row[i];

    if (found->value[0] == '\0')
        strcpy(found->value, plait_config_rows[i].initial);
    if (found->origin[0] == '\0')
        strcpy(found->origin, "default");
    return parse(&plait_config_rows[i], found->value, found->origin, out);
}

static enum plait_status parse_all(struct reading *r, struct plait_config *out)
{
    struct plait_config config;
    enum plait_status status = PLAIT_OK;

    memset(&config, 0, sizeof config);
    for (size_t i = 0; i < PLAIT_NSETTING && status == PLAIT_OK; i++)
        status = parse_row(r, i, &config);
    if (status == PLAIT_OK)
        *out = config;
    return status;
}

/* ---- Unknown names ------------------------------------------------------------------------------- */

/*
 * Warn of a name that is no setting, nor PLAIT_TEST_*, read by tests, nor PLAIT_LIBRARY, by which bindings of other
 * languages find libplait.
 */
static void warn_if_unknown(const char *where, const char *name)
{
    const char *best = NULL;
    unsigned least = PLAIT_NEAR + 1;

    if (find_row(name) != NULL || strncmp(name, "PLAIT_TEST_", 11) == 0 || strcmp(name, "PLAIT_LIBRARY") == 0)
        return;
    for (size_t i = 0; i < PLAIT_NSETTING; i++) {
        const unsigned d = plait_distance(name, plait_config_rows[i].name);
        if (d < least) {
            least = d;
            best = plait_config_rows[i].name;
        }
    }
    plait_log(PLAIT_LOG_WARN, "%s: there is no setting '%.63s'; %s%s%splait-info --config lists all%s", where, name,
              best != NULL ? "did you mean " : "", best != NULL ? best : "", best != NULL ? "? (" : "",
              best != NULL ? ")" : "");
}

static void warn_unknown(const struct reading *r)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    struct line l = { .next = r->text != NULL ? r->text : "" };

    if (atomic_flag_test_and_set(&done))
        return;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (strncmp(name, "PLAIT_", 6) == 0)
            warn_if_unknown("environment", name);
    }
    while (next_setting(r->path, &l) == PLAIT_OK && l.name != NULL) {
        char where[272];
        snprintf(where, sizeof where, "%s:%u", r->path, l.number);
        warn_if_unknown(where, l.name);
    }
}

/* ---- Entry points -------------------------------------------------------------------------------- */

/* Parse every row; when all are valid, set up the log and warn. */
static enum plait_status apply(struct reading *r, struct plait_config *out)
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
    end(&r);
    return status;
}

const struct plait_fork_module plait_config_fork = { .lock = &given_lock };

enum plait_status plait_config_set(const char *name, const char *value, const char *origin)
{
    struct plait_config scratch;
    const struct plait_config_row *row = name != NULL ? find_row(name) : NULL;
    enum plait_status status = PLAIT_OK;

    if (row == NULL)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_config_set: name is '%.80s': there is no such setting (plait-info --config lists all)",
                          name != NULL ? name : "(NULL)");
    if (origin == NULL || origin[0] == '\0' || strlen(origin) >= sizeof given->origin)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_config_set: origin must be where the value comes from, in at most 255 characters");
    if (value != NULL && strlen(value) >= sizeof given->value)
        return plait_fail(PLAIT_ERR_CONFIG, "%s (%s): the value is longer than %zu characters", name, origin,
                          sizeof given->value - 1);
    if (value != NULL && value[0] != '\0')
        status = parse(row, value, origin, &scratch);
    if (status != PLAIT_OK)
        return status;
    pthread_mutex_lock(&given_lock);
    strcpy(given[row - plait_config_rows].value, value != NULL ? value : "");
    strcpy(given[row - plait_config_rows].origin, value != NULL ? origin : "");
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
        strcpy(out->value, plait_config_rows[i].secret && r.row[i].value[0] != '\0' ? "(secret)" : r.row[i].value);
        strcpy(out->origin, r.row[i].origin);
    }
    end(&r);
    return status;
}
