/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads plan files and folders, and keeps those of PLAIT_PLANS until the process ends. */
#include "plan_file.h"

#include "base/config.h"
#include "base/fork.h"
#include "base/status.h"
#include "plan_check.h"
#include "plugin/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum plait_status add_file(struct plait_alg_set *set, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    enum plait_status status = plait_file_read(path, &text, &bytes);

    if (status == PLAIT_OK && strlen(text) < bytes)
        status = plait_fail(PLAIT_ERR_PLAN, "%s: a NUL byte; the file must be text", path);
    if (status == PLAIT_OK)
        status = plait_alg_set_add(set, path, text);
    free(text);
    return status;
}

static int is_plan(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return n > 5 && e->d_name[0] != '.' && strcmp(e->d_name + n - 5, ".plan") == 0;
}

/* Equal in all locales, so that all ranks list the files in one order. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A file, or the files *.plan of a folder in the order of their names. */
static enum plait_status add(struct plait_alg_set *set, const char *path)
{
    struct dirent **files;
    const int n = scandir(path, &files, is_plan, by_name);
    enum plait_status status = n == 0 ? plait_fail(PLAIT_ERR_CONFIG, "%s has no file *.plan", path) : PLAIT_OK;
    char *file;

    if (n < 0)
        return errno == ENOMEM ? plait_fail_memory("out of memory for the files of %s", path) : add_file(set, path);
    for (int i = 0; i < n; i++) {
        if (status == PLAIT_OK && asprintf(&file, "%s/%s", path, files[i]->d_name) < 0) {
            status = plait_fail_memory("out of memory for the files of %s", path);
        } else if (status == PLAIT_OK) {
            status = add_file(set, file);
            free(file);
        }
        free(files[i]);
    }
    free(files);
    return status;
}

static enum plait_status load(const char *path, const struct plait_alg *const *behind, struct plait_alg_set **out)
{
    struct plait_alg_set *set = calloc(1, sizeof *set);

    if (set == NULL)
        return plait_fail_memory("out of memory for the plans of %s", path);
    enum plait_status status = add(set, path);
    if (status == PLAIT_OK)
        status = plait_alg_set_finish(set, behind);
    if (status == PLAIT_OK)
        *out = set;
    else
        plait_alg_set_destroy(set);
    return status;
}

enum plait_status plait_alg_set_load(const char *path, struct plait_alg_set **out)
{
    static const struct plait_alg *const none[] = { NULL };

    if (path == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_set_load: %s is NULL", path == NULL ? "path" : "out");
    return load(path, none, out);
}

/* ---- Those of PLAIT_PLANS ------------------------------------------------------------------------ */

struct known {
    struct known *next;
    struct plait_alg_set *set; /* its list ends with the library's algorithms */
    char path[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all; /* comms use them until they are destroyed, so all stay */

const struct plait_fork_module plait_plans_fork = { .lock = &lock };

static enum plait_status load_known(const char *path, struct known **out)
{
    struct known *k = malloc(sizeof *k + strlen(path) + 1);

    if (k == NULL)
        return plait_fail_memory("out of memory for the plans of %s", path);
    const enum plait_status status = load(path, plait_algs, &k->set);
    if (status != PLAIT_OK) {
        free(k);
        return plait_fail(status, "PLAIT_PLANS: %s", plait_error_of(status).text);
    }
    strcpy(k->path, path);
    k->next = all;
    *out = all = k;
    return PLAIT_OK;
}

enum plait_status plait_alg_list(const struct plait_alg *const **out)
{
    struct plait_config config;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_alg_list: out is NULL");
    enum plait_status status = plait_config_load(&config);
    if (status != PLAIT_OK)
        return status;
    if (config.plans[0] == '\0') {
        *out = plait_algs;
        return PLAIT_OK;
    }
    pthread_mutex_lock(&lock);
    struct known *k = all;
    while (k != NULL && strcmp(k->path, config.plans) != 0)
        k = k->next;
    if (k == NULL)
        status = load_known(config.plans, &k);
    pthread_mutex_unlock(&lock);
    if (status == PLAIT_OK)
        *out = plait_alg_set_list(k->set);
    return status;
}
