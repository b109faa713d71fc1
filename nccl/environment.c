/* SPDX-License-Identifier: BSD-3-Clause */
#include "environment.h"

#include "error.h"
#include "nccl.h"

#include "../lib/base/ascii.h"
#include "../lib/base/descriptor.h"

#include <plait/config.h>
#include <plait/version.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES 128

extern char **environ;

/* ---- The file ------------------------------------------------------------------------------------------- */

struct line {
    char name[64], value[256];
};

static struct line lines[MOST_LINES];
static unsigned nline;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *trim(char *text)
{
    text += strspn(text, " \t\r\n");
    for (size_t n = strlen(text); n > 0 && plait_is_space(text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

static void read_line(char *text, const char *path)
{
    text[strcspn(text, "#")] = '\0';
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return;
    *equals = '\0';
    const char *name = trim(text), *value = trim(equals + 1);
    struct line *l = &lines[nline];
    if (nline == MOST_LINES || strlen(name) >= sizeof l->name || strlen(value) >= sizeof l->value) {
        nccl_log(PLAIT_LOG_WARN, "%s: '%.60s' is too long, or the file has more than %d names", path, name, MOST_LINES);
        return;
    }
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->value, sizeof l->value, "%s", value);
    nline++;
}

static bool read_file(const char *path, bool asked_for)
{
    char text[512];
    FILE *f = plait_descriptor_stream(open(path, O_RDONLY | O_CLOEXEC), "r");

    if (f == NULL && asked_for)
        nccl_log(PLAIT_LOG_WARN, "NCCL_CONF_FILE='%s' cannot be read: %s", path, strerror(errno));
    if (f == NULL)
        return asked_for;
    while (fgets(text, sizeof text, f) != NULL)
        read_line(text, path);
    fclose(f);
    return true;
}

static void read_files(void)
{
    const char *given = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
    char path[512];

    nline = 0;
    if (given != NULL && given[0] != '\0' && read_file(given, true))
        return;
    snprintf(path, sizeof path, "%s/.nccl.conf", home != NULL ? home : "");
    if (!read_file(path, false))
        read_file("/etc/nccl.conf", false);
}

const char *nccl_environment(const char *name)
{
    const char *value = getenv(name);

    for (unsigned i = 0; value == NULL && i < nline; i++)
        if (strcmp(lines[i].name, name) == 0)
            value = lines[i].value;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- What Plait gets of it --------------------------------------------------------------------------------- */

static void hand_on(const char *name, const char *setting, const char *value)
{
    if (plait_config_set(setting, value, name) != PLAIT_OK)
        nccl_log(PLAIT_LOG_WARN, "%s is not used: %s", name, plait_last_error());
}

static const char *level_of(const char *debug)
{
    static const char *const levels[][2] = { { "NONE", "error" }, { "VERSION", "warn" }, { "WARN", "warn" },
                                             { "INFO", "info" },  { "ABORT", "info" },   { "TRACE", "debug" } };

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (plait_same_word(levels[i][0], debug))
            return levels[i][1];
    nccl_log(PLAIT_LOG_WARN, "NCCL_DEBUG='%s' is not used: must be NONE, VERSION, WARN, INFO or TRACE", debug);
    return NULL;
}

/* level NULL: NCCL_DEBUG has an unknown value. A line of level info would not be seen at VERSION and WARN. */
static void tell_version(const char *level)
{
    if (level == NULL || strcmp(level, "error") != 0)
        nccl_log(level == NULL || strcmp(level, "warn") == 0 ? PLAIT_LOG_WARN : PLAIT_LOG_INFO,
                 "libnccl.so.2 of Plait %s, with the interface of NCCL %d.%d.%d", plait_version(), NCCL_MAJOR,
                 NCCL_MINOR, NCCL_PATCH);
}

static void hand_all_on(void)
{
    const char *debug = nccl_environment("NCCL_DEBUG"), *level = debug != NULL ? level_of(debug) : NULL;
    struct plait_setting s;

    hand_on("NCCL_DEBUG", "PLAIT_LOG", level);
    hand_on("NCCL_DEBUG_FILE", "PLAIT_LOG_FILE", nccl_environment("NCCL_DEBUG_FILE"));
    hand_on("NCCL_BUFFSIZE", "PLAIT_SLICE", nccl_environment("NCCL_BUFFSIZE"));
    hand_on("NCCL_SOCKET_IFNAME", "PLAIT_IFNAME", nccl_environment("NCCL_SOCKET_IFNAME"));
    plait_config_get(0, &s); /* it sets up the log */
    if (debug != NULL)
        tell_version(level);
}

/* ---- What has no meaning ------------------------------------------------------------------------------------ */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_honoured(const char *name)
{
#define NCCL_X(honoured, initial, text) \
    if (strcmp(name, honoured) == 0)    \
        return true;
    NCCL_HONOURED_LIST(NCCL_X)
#undef NCCL_X
    return false;
}

static bool is_a_frameworks(const char *name)
{
#define NCCL_X(start)        \
    if (begins(name, start)) \
        return true;
    NCCL_FRAMEWORKS_LIST(NCCL_X)
#undef NCCL_X
    return false;
}

static void name_it(const char *name)
{
    static const char *const why[][2] = {
#define NCCL_X(start, text) { start, text },
        NCCL_MEANINGLESS_LIST(NCCL_X)
#undef NCCL_X
    };
    size_t i = 0;

    if (is_honoured(name) || is_a_frameworks(name))
        return;
    while (!begins(name, why[i][0]))
        i++;
    nccl_log(PLAIT_LOG_WARN, "%s has no meaning here: %s (docs/nccl.md)", name, why[i][1]);
}

static void name_meaningless(void)
{
    char name[64];

    for (char **e = environ; e != NULL && *e != NULL; e++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (begins(name, "NCCL_"))
            name_it(name);
    }
    for (unsigned i = 0; i < nline; i++)
        if (begins(lines[i].name, "NCCL_"))
            name_it(lines[i].name);
}

static void read_all(void)
{
    pthread_mutex_lock(&lock);
    read_files();
    hand_all_on();
    pthread_mutex_unlock(&lock);
}

static void use(void)
{
    read_all();
    name_meaningless();
}

void nccl_environment_use(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, use);
}

void nccl_environment_reload(void)
{
    nccl_environment_use();
    read_all();
}

void ncclResetDebugInit(void)
{
    nccl_environment_reload();
}

void ncclResetDebugInitInternal(void)
{
    nccl_environment_reload();
}

NCCL_TWIN(ResetDebugInit);

/* ---- Plait's settings ---------------------------------------------------------------------------------------- */

void nccl_setting(const char *name, char *out, size_t room)
{
    struct plait_setting s;

    out[0] = '\0';
    for (size_t i = 0; plait_config_get(i, &s) != PLAIT_ERR_ARG; i++)
        if (strcmp(s.name, name) == 0) {
            snprintf(out, room, "%s", s.value);
            return;
        }
}

size_t nccl_setting_bytes(const char *name)
{
    static const char units[] = "KMG";
    char text[256], *end;

    nccl_setting(name, text, sizeof text);
    const unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, plait_upper(*end)) : NULL;
    return (size_t)n << (unit != NULL ? 10 * (unit - units + 1) : 0);
}
