/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuning_save.h"

#include "base/status.h"
#include "plugin/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tuning that loading would refuse is not written. */
static enum plait_status write_text(const struct plait_files_plugin *plugin, const struct plait_tuning *t,
                                    const char *path, char **text)
{
    struct plait_tuning again = { .nrow = 0 };
    char why[1024];

    *text = plugin->write_tuning(t, why, sizeof why);
    if (*text == NULL && why[0] == '\0')
        return plait_fail_memory("%s: out of memory to write it", path);
    if (*text == NULL)
        return plait_fail(PLAIT_ERR_CONFIG, "%s: %s", path, why);
    if (!plugin->read_tuning(&(struct plait_file){ path, *text, strlen(*text) }, &again, why, sizeof why))
        return plait_fail(PLAIT_ERR_CONFIG, "%s", why);
    plait_tuning_finish(&again);
    return PLAIT_OK;
}

static enum plait_status write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return plait_fail_errno(errno, "%s", path);
    const bool written = fputs(text, f) >= 0, closed = fclose(f) == 0;
    return written && closed ? PLAIT_OK : plait_fail_errno(errno, "%s: cannot be written", path);
}

enum plait_status tuning_save(const struct plait_tuning *tuning, const char *path)
{
    const struct plait_files_plugin *plugin = NULL;
    enum plait_status status = plait_plugin_load_files(path, &plugin);
    char *text = NULL;

    if (status == PLAIT_OK)
        status = write_text(plugin, tuning, path, &text);
    if (status == PLAIT_OK)
        status = write_file(path, text);
    free(text);
    return status;
}
