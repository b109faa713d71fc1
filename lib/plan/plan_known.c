/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads plan files and folders, and keeps those of PLAIT_PLANS until the process ends. */
#include "plan_file.h"

#include "base/config.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"
#include "plan_check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST_FILE ((off_t)1 << 30)

static enum plait_status unreadable(const char *path, int error)
{
    if (error == EMFILE || error == ENFILE || error == ENOMEM) /* a shortage is not a wrong setting */
        return plait_fail_errno(error, "%s cannot be read", path);
    return plait_fail(PLAIT_ERR_CONFIG, "%s cannot be read: %s", path, strerror(error));
}

static enum plait_status add_file(struct plait_alg_set *set, const char *path)
{
    FILE *f = plait_descriptor_stream(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "r");
    enum plait_status status = PLAIT_OK;
    char *text = NULL;
    size_t room = 0;
    struct stat about;

    if (f == NULL)
        return unreadable(path, errno);
    if (fstat(fileno(f), &about) == 0 && !S_ISREG(about.st_mode))
        status = plait_fail(PLAIT_ERR_CONFIG, "%s is neither a file nor a folder", path);
    else if (about.st_size > LARGEST_FILE)
        status = plait_fail(PLAIT_ERR_CONFIG, "%s has %lld bytes; %lld are the most", path, (long long)about.st_size,
                            (long long)LARGEST_FILE);
    errno = 0;
    const ssize_t n = status == PLAIT_OK ? getdelim(&text, &room, '\0', f) : -1;
    if (status == PLAIT_OK && (ferror(f) || errno == ENOMEM))
        status = unreadable(path, errno);
    else if (status == PLAIT_OK && n > 0 && text[n - 1] == '\0')
        status = plait_fail(PLAIT_ERR_PLAN, "%s: a NUL byte; the file must be text", path);
    if (status == PLAIT_OK)
        status = plait_alg_set_add(set, path, n > 0 ? text : "");
    free(text);
    fclose(f);
    return status;
}

static int is_plan(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return n > 5 && e->d_name[0] != '.' && strcmp(e->d_name + n - 5, ".plan") == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum plait_status list_folder(const char *path, char ***names, size_t *n)
{
    DIR *folder = plait_descriptor_folder(path);
    const struct dirent *e;
    size_t room = 0;
    bool ok = true;

    if (folder == NULL)
        return unreadable(path, errno);
    while (ok && (e = readdir(folder)) != NULL)
        if (is_plan(e)) {
            ok = plait_grow((void **)names, *n + 1, &room, sizeof **names) &&
                 asprintf(&(*names)[*n], "%s/%s", path, e->d_name) >= 0;
            *n += ok;
        }
    closedir(folder);
    if (!ok)
        return plait_fail_memory("out of memory for the files of %s", path);
    if (*n == 0)
        return plait_fail(PLAIT_ERR_CONFIG, "%s has no file *.plan", path);
    qsort(*names, *n, sizeof **names, compare_names);
    return PLAIT_OK;
}

static enum plait_status add_folder(struct plait_alg_set *set, const char *path)
{
    char **names = NULL;
    size_t n = 0;
    enum plait_status status = list_folder(path, &names, &n);

    for (size_t i = 0; i < n && status == PLAIT_OK; i++)
        status = add_file(set, names[i]);
    while (n > 0)
        free(names[--n]);
    free(names);
    return status;
}

static enum plait_status load(const char *path, const struct plait_alg *const *behind, struct plait_alg_set **out)
{
    struct plait_alg_set *set = calloc(1, sizeof *set);
    enum plait_status status;
    struct stat about;

    if (set == NULL)
        return plait_fail_memory("out of memory for the plans of %s", path);
    if (stat(path, &about) != 0)
        status = unreadable(path, errno);
    else
        status = S_ISDIR(about.st_mode) ? add_folder(set, path) : add_file(set, path);
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
