/* SPDX-License-Identifier: BSD-3-Clause */
#include "find.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer text is cut. */
static void copy(char out[FIND_PATH], const char *text)
{
    const size_t length = strnlen(text, FIND_PATH - 1);

    memcpy(out, text, length);
    out[length] = '\0';
}

/* Returns whether it was loaded. A process may load one library by two paths, so that of the first is kept. */
static bool load(struct found *f, const char *path)
{
    struct link_map *map;

    f->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (f->handle == NULL)
        copy(f->why, dlerror());
    else
        copy(f->file, dlinfo(f->handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : path);
    return f->handle != NULL;
}

/* The first of the files that match. */
static bool load_match(struct found *f, const char *pattern)
{
    glob_t matches;
    bool loaded = false;

    if (glob(pattern, 0, NULL, &matches) != 0)
        return false;
    for (size_t k = 0; k < matches.gl_pathc && !loaded; k++)
        loaded = load(f, matches.gl_pathv[k]);
    globfree(&matches);
    return loaded;
}

/* A package's folder is nvidia/cudnn, nvidia/cublas, nvidia/cu13 and so on. */
static bool load_package(struct found *f, const char *prefix, const char *name)
{
    char pattern[2 * FIND_PATH];

    snprintf(pattern, sizeof pattern, "%s/lib*/python3*/*-packages/nvidia/*/lib/%s", prefix, name);
    return load_match(f, pattern);
}

/* The folder above that of the first python3 of PATH: of a virtual environment, of Conda, or /usr. */
static bool python_prefix(char out[FIND_PATH])
{
    const char *path = getenv("PATH");

    for (const char *at = path; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ":");
        snprintf(out, FIND_PATH, "%.*s/python3", (int)length, at);
        if (length > 0 && access(out, X_OK) == 0) {
            snprintf(out, FIND_PATH, "%.*s/..", (int)length, at);
            return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

static bool load_python(struct found *f, const char *name)
{
    const char *home = getenv("HOME");
    char prefix[FIND_PATH];

    if (python_prefix(prefix) && load_package(f, prefix, name))
        return true;
    if (home != NULL) {
        snprintf(prefix, sizeof prefix, "%s/.local", home); /* pip install --user */
        if (load_package(f, prefix, name))
            return true;
    }
    return load_package(f, "/usr/local", name) || load_package(f, "/usr", name);
}

/* Did the loader find the file, and could not use it? Another one in its place would be a surprise. */
static bool is_there(const struct found *f, const char *name)
{
    const size_t length = strlen(name);

    return strncmp(f->why, name, length) != 0 || strstr(f->why + length, "No such file") == NULL;
}

struct found find_library(const char *name, const char *folder)
{
    struct found f = { .handle = NULL };
    char path[2 * FIND_PATH];

    if (folder != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        load(&f, path);
        return f;
    }
    if (load(&f, name) || is_there(&f, name) || load_python(&f, name))
        return f;
    snprintf(path, sizeof path, "/usr/local/cuda/lib*/%s", name);
    load_match(&f, path);
    return f;
}

const char *find_symbols(void *handle, const struct find_symbol *symbols, size_t n, void *table)
{
    for (size_t k = 0; k < n; k++) {
        void *function = dlsym(handle, symbols[k].name);
        if (function == NULL)
            return symbols[k].name;
        memcpy((char *)table + symbols[k].offset, &function, sizeof function);
    }
    return NULL;
}
