/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One table defines every setting: variable, default, text, offset in struct plait_config, and parser.
 *
 * Reading has three passes: gather (the raw text of each row and its origin), parse (into the struct), warn (of names
 * that no row has). Other files read only variables that are not Plait's: launchers' (launch.c, origin.c), HOME
 * (secret.c), the driver's (device_comm.c).
 */
#include "config.h"

#include "bytes.h"
#include "config_hosts.h"
#include "config_quantity.h"
#include "descriptor.h"
#include "fork.h"
#include "log.h"
#include "nearest.h"
#include "status.h"

#include <plait/coll.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_FILE (1 << 20)

extern char **environ;

/* A parser writes *field and returns NULL; or it leaves *field and returns a text that says what is allowed. */
typedef const char *parse_fn(const char *text, void *field);

struct row {
    const char *name, *initial, *text;
    size_t offset;
    parse_fn *parse;
    bool secret; /* never print the value */
};

static const char *parse_algo(const char *text, void *field)
{
    const char *allowed = "COLLECTIVE:ALGORITHM, e.g. allreduce:ring (plait-info --algorithms lists them)";
    const size_t room = sizeof((struct plait_config *)0)->algo;
    const char *colon = strchr(text, ':');
    char coll[32];

    if (text[0] != '\0' && (colon == NULL || colon[1] == '\0' || (size_t)(colon - text) >= sizeof coll))
        return allowed;
    snprintf(coll, sizeof coll, "%.*s", colon != NULL ? (int)(colon - text) : 0, text);
    if (text[0] != '\0' && plait_coll_find(coll) < 0)
        return allowed;
    if (strchr(text, ',') != NULL)
        return "one COLLECTIVE:ALGORITHM";
    if (strlen(text) >= room)
        return "at most 63 characters";
    strcpy(field, text);
    return NULL;
}

static const char *parse_flag(const char *text, void *field)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return "0 or 1";
    *(int *)field = text[0] == '1';
    return NULL;
}

static const char *parse_cma(const char *text, void *field)
{
    if (strcmp(text, "auto") != 0)
        return parse_flag(text, field) == NULL ? NULL : "0, 1 or auto";
    *(int *)field = PLAIT_CMA_AUTO;
    return NULL;
}

static const char *parse_path(const char *text, void *field)
{
    _Static_assert(sizeof((struct plait_config *)0)->file == sizeof((struct plait_config *)0)->log_file, "one parser");
    _Static_assert(sizeof((struct plait_config *)0)->file == sizeof((struct plait_config *)0)->plugins, "one parser");
    if (strlen(text) >= sizeof((struct plait_config *)0)->file)
        return "a path of at most 255 characters";
    strcpy(field, text);
    return NULL;
}

static const char *parse_isa(const char *text, void *field)
{
    static const char *const names[] = { "", "scalar", "avx2", "avx512" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            strcpy(field, text);
            return NULL;
        }
    return "scalar, avx2 or avx512";
}

static const char *parse_log(const char *text, void *field)
{
    static const char *const names[] = {
        [PLAIT_LOG_ERROR] = "error",
        [PLAIT_LOG_WARN] = "warn",
        [PLAIT_LOG_INFO] = "info",
        [PLAIT_LOG_DEBUG] = "debug",
    };

    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(text, names[i]) == 0) {
            *(int *)field = i;
            return NULL;
        }
    return "error, warn, info or debug";
}

static const char *parse_log_file(const char *text, void *field)
{
    for (const char *c = strchr(text, '%'); c != NULL; c = strchr(c + 2, '%'))
        if (c[1] != 'h' && c[1] != 'p' && c[1] != '%')
            return "a path of at most 255 characters, with %h for the host, %p for the process and %% for a %";
    return parse_path(text, field);
}

static const char *parse_bytes(const char *text, void *field)
{
    return plait_parse_bytes(text, field) ? NULL
                                          : "a number of bytes, with K, M or G for 2^10, 2^20 or 2^30: 65536, 64K";
}

static const char *parse_hosts(const char *text, void *field)
{
    uint64_t n;

    if (!plait_parse_bytes(text, &n) || n > UINT8_MAX)
        return "a number from 0 to 255";
    *(uint8_t *)field = (uint8_t)n;
    return NULL;
}

#define FIELD(name) offsetof(struct plait_config, name)
static const struct row table[] = {
    { "PLAIT_ALGO", "", "algorithm of every call of one collective, as COLLECTIVE:ALGORITHM; empty: chosen by size",
      FIELD(algo), parse_algo },
    { "PLAIT_ARENA", "0", "bytes of library memory that a process may use; 0: as much as main memory", FIELD(arena),
      parse_bytes },
    { "PLAIT_CALIBRATE", "1",
      "1: the first comm of a process times copies, 20 ms at most, to choose copy modes; 0: choices are built in",
      FIELD(calibrate), parse_flag },
    { "PLAIT_CHECK", "0", "1: prove every plan, and what it is bound to, before its first run", FIELD(check),
      parse_flag },
    { "PLAIT_CMA", "auto",
      "memory not the library's, where only copied or combined by a root: 1: read through the kernel; 0: staged; "
      "auto: what takes less time, see PLAIT_CALIBRATE",
      FIELD(cma), parse_cma },
    { "PLAIT_CONFIG", "", "file with lines NAME = value, read after the environment", FIELD(file), parse_path },
    { "PLAIT_CUDA_DRIVER", "", "for tests: file to load as CUDA's driver; empty: libcuda.so.1", FIELD(cuda_driver),
      parse_path },
    { "PLAIT_DEADLINE", "600", "seconds until a stalled operation fails", FIELD(deadline), plait_parse_seconds },
    { "PLAIT_FOR_TESTS", "0", "1: this is a test, which may slow Plait down with PLAIT_PACE", FIELD(for_tests),
      parse_flag },
    { "PLAIT_HOSTS", "0",
      "for tests, with PLAIT_FOR_TESTS=1: a comm's ranks behave as if on so many hosts, 255 at most; 0: as they are",
      FIELD(hosts), parse_hosts },
    { "PLAIT_IFNAME", "",
      "interfaces for other hosts, as NCCL_SOCKET_IFNAME: starts of names (eth,ib), =NAME, ^NAME for all but; "
      "empty: all that others can reach",
      FIELD(ifname), plait_parse_ifname },
    { "PLAIT_ISA", "", "instruction set of the reduction kernels: scalar, avx2, avx512; empty: the best", FIELD(isa),
      parse_isa },
    { "PLAIT_LAUNCHER", "",
      "launcher that started this process: torchrun, slurm, openmpi, none; empty: found by its variables",
      FIELD(launcher), plait_parse_launcher },
    { "PLAIT_LOG", "warn", "least important log lines that are shown: error, warn, info, debug", FIELD(log),
      parse_log },
    { "PLAIT_LOG_FILE", "",
      "file that log lines are added to, with %h for the host and %p for the process; empty: stderr", FIELD(log_file),
      parse_log_file },
    { "PLAIT_NCCL_FUSION", "4M",
      "libnccl.so.2: bytes up to which the all-reduces of a group become one operation, equal on all ranks; 0: each is "
      "its own",
      FIELD(nccl_fusion), parse_bytes },
    { "PLAIT_NCCL_LINK", "5us,10GB/s",
      "libnccl.so.2: latency of a message and bandwidth of a link that ncclGroupSimulateEnd() reckons with",
      FIELD(nccl_link), plait_parse_pace },
    { "PLAIT_NCCL_VERSION", "2.32.3", "libnccl.so.2: what ncclGetVersion() answers", FIELD(nccl_version),
      plait_parse_version },
    { "PLAIT_PACE", "",
      "for tests, with PLAIT_FOR_TESTS=1: latency that every message gets, and bandwidth of every link, as "
      "1000us,1000MB/s; empty: none",
      FIELD(pace), plait_parse_pace },
    { "PLAIT_PLUGINS", "", "folder of the plug-ins (plait-ucx.so); empty: plait/ beside libplait", FIELD(plugins),
      parse_path },
    { "PLAIT_PORTS", "20000-29999", "ports at which rank 0 of a comm over TCP may listen", FIELD(ports),
      plait_parse_ports },
    { "PLAIT_PROGRESS", "0", "1: a thread drives pending operations of every comm", FIELD(progress), parse_flag },
    { "PLAIT_REPRODUCIBLE", "0", "1: results of every comm have bits that do not depend on algorithm, slices or fusion",
      FIELD(reproducible), parse_flag },
    { "PLAIT_REQUIRE_SECRET", "0", "1: under a launcher, no comm over TCP without a secret", FIELD(require_secret),
      parse_flag },
    { "PLAIT_SECRET", "",
      "under a launcher, lets in those who have it too; empty: the one in ~/.plait-secret, a file of mode 0600 "
      "(plait-info --make-secret)",
      FIELD(secret), plait_parse_secret, .secret = true },
    { "PLAIT_SLICE", "0", "bytes of the vector in one pipeline slice; 0: chosen by size", FIELD(slice), parse_bytes },
    { "PLAIT_TIMEOUT", "60", "seconds that the creation of a comm waits for all ranks", FIELD(timeout),
      plait_parse_seconds },
    { "PLAIT_WARN", "30", "seconds until a stalled operation is named in a warning", FIELD(warn), plait_parse_seconds },
};
#undef FIELD
#define NROW         (sizeof table / sizeof table[0])
#define IS_FILE(row) ((row)->offset == offsetof(struct plait_config, file)) /* PLAIT_CONFIG */

/* The raw value of a row ("": the default) and where it was set. */
struct found {
    char value[256], origin[256];
};

/* Values from plait_config_set(), under given_lock; origin "": none. */
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;
static struct found given[NROW];

struct reading {
    struct found row[NROW];
    const char *path; /* of PLAIT_CONFIG's file; NULL: none */
    char *text;       /* the file's bytes, owned; NULL: none */
    size_t bytes;
};

static const struct row *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < NROW; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
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
    unsigned seen[NROW] = { 0 };

    for (;;) {
        bool found;
        const enum plait_status status = next_setting(&at, r->text + r->bytes, &line, &found);
        const struct row *row;
        size_t i;

        if (status != PLAIT_OK || !found)
            return status;
        row = find_row(line.name.at, line.name.length);
        if (row == NULL)
            continue; /* warn_unknown() names it */
        i = (size_t)(row - table);
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
    for (size_t i = 0; i < NROW; i++)
        if (IS_FILE(&table[i]) && r->row[i].value[0] != '\0')
            r->path = r->row[i].value;
}

static enum plait_status gather_environment(struct reading *r)
{
    for (size_t i = 0; i < NROW; i++) {
        const char *value = getenv(table[i].name);

        if (value == NULL)
            continue;
        if (strlen(value) >= sizeof r->row[i].value)
            return plait_fail(PLAIT_ERR_CONFIG, "%s: the value '%.60s...' is longer than %zu characters", table[i].name,
                              table[i].secret ? "(secret)" : value, sizeof r->row[i].value - 1);
        strcpy(r->row[i].value, value);
        strcpy(r->row[i].origin, "environment");
        if (IS_FILE(&table[i]))
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
    return r->row[i].value[0] != '\0' ? r->row[i].value : table[i].initial;
}

static const char *origin(const struct reading *r, size_t i)
{
    return r->row[i].origin[0] != '\0' ? r->row[i].origin : "default";
}

static const char *shown(const struct reading *r, size_t i)
{
    const char *value = effective(r, i);

    return table[i].secret && value[0] != '\0' ? "(secret)" : value;
}

static enum plait_status parse_row(const struct reading *r, size_t i, struct plait_config *out)
{
    const char *value = effective(r, i);
    const char *allowed = table[i].parse(value, (char *)out + table[i].offset);

    if (allowed == NULL)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_CONFIG, "%s='%s' (%s): allowed is %s", table[i].name, shown(r, i), origin(r, i),
                      allowed);
}

static enum plait_status parse_all(const struct reading *r, struct plait_config *out)
{
    struct plait_config config;

    memset(&config, 0, sizeof config);
    for (size_t i = 0; i < NROW; i++) {
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
    for (size_t i = 0; i < NROW; i++) {
        const unsigned d = plait_distance(copy, table[i].name);
        if (d < least) {
            least = d;
            best = table[i].name;
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
    const struct row *row = name != NULL ? find_row(name, strlen(name)) : NULL;

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
    snprintf(given[row - table].value, sizeof given->value, "%s", value != NULL ? value : "");
    snprintf(given[row - table].origin, sizeof given->origin, "%s", value != NULL ? origin : "");
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
    if (i >= NROW)
        return plait_fail(PLAIT_ERR_ARG, "plait_config_get: there are %zu settings, not a number %zu", NROW, i);
    status = gather(&r);
    if (status == PLAIT_OK && apply(&r, &scratch) != PLAIT_OK)
        status = parse_row(&r, i, &scratch); /* the error may be another row's: try this row alone */
    if (status == PLAIT_OK) {
        out->name = table[i].name;
        out->text = table[i].text;
        snprintf(out->value, sizeof out->value, "%s", shown(&r, i));
        snprintf(out->origin, sizeof out->origin, "%s", origin(&r, i));
    }
    free(r.text);
    return status;
}
