/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the checkpoints of a folder. */
#include "checkpoint.h"
#include "checkpoint_names.h"
#include "ending.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The step in a checkpoint's file name; false: another file. */
static bool step_of(const char *name, uint64_t *step)
{
    char again[NAME];

    if (sscanf(name, "step-%" SCNu64, step) != 1)
        return false;
    snprintf(again, sizeof again, STEP_NAME, *step);
    return strcmp(again, name) == 0;
}

static int newer_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

ssize_t checkpoint_steps(const char *folder, uint64_t **out)
{
    DIR *const d = opendir(folder);
    uint64_t *steps = NULL, step;
    size_t n = 0;
    int error = 0;

    if (d == NULL)
        return -1;
    while (error == 0) {
        errno = 0;
        const struct dirent *const e = readdir(d);
        if (e == NULL) {
            error = errno;
            break;
        }
        if (!step_of(e->d_name, &step))
            continue;
        uint64_t *const more = realloc(steps, (n + 1) * sizeof *steps);
        if (more == NULL)
            error = ENOMEM;
        else
            (steps = more)[n++] = step;
    }
    closedir(d);
    if (error != 0) {
        free(steps);
        errno = error;
        return -1;
    }
    if (n > 0)
        qsort(steps, n, sizeof *steps, newer_first);
    *out = steps;
    return (ssize_t)n;
}

/* ---- Finding ------------------------------------------------------------------------------------------------ */

/* Does the name exist, even as a dangling link? A name that cannot be checked counts. */
static bool is_there(const char *path)
{
    struct stat unused;

    return lstat(path, &unused) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/*
 * Is it a complete checkpoint of plait-train, and of this step if one is given? If not it is reported, unless it does
 * not exist.
 */
static bool whole(const char *path, const uint64_t *step)
{
    const char *why = NULL, *version, *value;
    uint64_t has = 0;

    if (!is_there(path))
        return false;
    struct safetensors *const f = safetensors_open(path, &why);
    if (f == NULL) {
        tell("skipped %s", why);
        return false;
    }
    version = safetensors_note(f, "plait");
    value = safetensors_note(f, "step");
    if (version == NULL || value == NULL || sscanf(value, "%" SCNu64, &has) != 1)
        why = "not a checkpoint of plait-train";
    else if (strcmp(version, VERSION) == 0 && !safetensors_hashed(f))
        why = "damaged: the hash of its bytes is missing";
    else if (strcmp(version, VERSION) != 0 && strcmp(version, UNHASHED) != 0)
        why = "written by another version of plait-train";
    else if (step != NULL && has != *step)
        why = "a checkpoint of another step, renamed";
    if (why != NULL)
        tell("skipped %s: %s", path, why);
    safetensors_close(f);
    return why == NULL;
}

bool checkpoint_any(const char *folder)
{
    char best[PATH_MAX + NAME];
    uint64_t *steps = NULL;
    const ssize_t n = checkpoint_steps(folder, &steps);

    free(steps);
    snprintf(best, sizeof best, "%s/" BEST, folder);
    return n > 0 || is_there(best);
}

bool checkpoint_newest(const char *folder, char *out, size_t size)
{
    uint64_t *steps = NULL;
    const ssize_t n = checkpoint_steps(folder, &steps);
    bool found = false;

    if (n < 0 && errno != ENOENT)
        tell("%s cannot be read: %s", folder, strerror(errno));
    for (ssize_t i = 0; i < n && !found; i++)
        found = (size_t)snprintf(out, size, "%s/" STEP_NAME, folder, steps[i]) < size && whole(out, &steps[i]);
    free(steps);
    return found || ((size_t)snprintf(out, size, "%s/" BEST, folder) < size && whole(out, NULL));
}
