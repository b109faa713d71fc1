/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of users, and the plug-in that knows their form. */
#include "plugin.h"

#include "base/config.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)16 << 20) /* of a file */

enum plait_status plait_plugin_load_files(const char *name, const struct plait_files_plugin **out)
{
    struct plait_config config;
    struct plait_saved_error e;
    const void *plugin;
    enum plait_status status = plait_config_load(&config);

    if (status == PLAIT_OK)
        status = plait_plugin_load(&plait_plugin_json, config.plugins, &plugin);
    if (status != PLAIT_OK) {
        plait_save_error(&e, status);
        return plait_fail(status, "%s: %s", name, e.text);
    }
    *out = plugin;
    return PLAIT_OK;
}

/* The rest of a stream. NULL with errno: EFBIG above MOST_BYTES. */
static char *read_all(FILE *f, size_t *bytes)
{
    size_t room = 1 << 14, n = 0;
    char *text = malloc(room), *grown;

    while (text != NULL && (n += fread(text + n, 1, room - 1 - n, f)) == room - 1) {
        errno = n > MOST_BYTES ? EFBIG : ENOMEM;
        grown = n > MOST_BYTES ? NULL : realloc(text, room *= 2);
        if (grown == NULL)
            free(text);
        text = grown;
    }
    if (text != NULL && ferror(f)) {
        free(text);
        return NULL;
    }
    if (text != NULL)
        text[n] = '\0';
    *bytes = n;
    return text;
}

enum plait_status plait_file_read(const char *path, char **text, size_t *bytes)
{
    FILE *f = plait_descriptor_stream(open(path, O_RDONLY | O_CLOEXEC), "r");

    if (f == NULL)
        return plait_fail_errno(errno, "%s", path);
    *text = read_all(f, bytes);
    const int error = errno;
    fclose(f);
    return *text != NULL ? PLAIT_OK : plait_fail_errno(error, "%s", path);
}

enum plait_status plait_file_write(const char *path, const char *text)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *f =
        standard ? stdout : plait_descriptor_stream(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), "w");

    if (f == NULL)
        return plait_fail_errno(errno, "%s", path);
    const bool written = fputs(text, f) >= 0 && fflush(f) == 0;
    const int error = errno;
    const bool closed = standard || fclose(f) == 0;
    return written && closed ? PLAIT_OK : plait_fail_errno(written ? errno : error, "%s: cannot be written", path);
}
