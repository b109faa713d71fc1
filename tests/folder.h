/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder of this test program's own. */
#ifndef PLAIT_TESTS_FOLDER_H
#define PLAIT_TESTS_FOLDER_H

#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/plait-test-XXXXXX";

/* cmocka's, of a group. */
static inline int folder_make(void **state)
{
    return mkdtemp(folder) == NULL;
}

/* With all that is in it. */
static inline int folder_remove(void **state)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Of a name in the folder; until the next call. */
static inline const char *in_folder(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void folder_write(const char *name, const void *data, size_t bytes)
{
    FILE *const f = fopen(in_folder(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Join the plan files "FIRST.plan" and "SECOND.plan", of algorithms with these names. */
static inline void folder_join(const char *name, const char *first, const char *second)
{
    char command[256];

    snprintf(command, sizeof command, "cd %s && for a in %s %s; do echo algorithm $a; cat $a.plan; done >%s", folder,
             first, second, name);
    assert_int_equal(system(command), 0);
}

#endif
