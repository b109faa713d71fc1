/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines as files, by the plug-in files/. */
#include <plait/simulate.h>

#include "base/descriptor.h"
#include "base/status.h"
#include "plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

static const char *refuses(const struct plait_machine *machine)
{
    return plait_machine_check(machine) == PLAIT_OK ? NULL : plait_last_error();
}

static enum plait_status read_file(const struct plait_file *file, struct plait_machine *out)
{
    const struct plait_files_plugin *plugin;
    char why[1024];
    const enum plait_status status = plait_plugin_load_files(file->name, &plugin);

    if (status == PLAIT_OK && !plugin->read_machine(file, refuses, out, why, sizeof why))
        return plait_fail(PLAIT_ERR_ARG, "%s", why);
    return status;
}

enum plait_status plait_machine_parse(const char *name, const char *text, struct plait_machine *out)
{
    if (name == NULL || text == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_machine_parse: %s is NULL",
                          name == NULL   ? "name"
                          : text == NULL ? "text"
                                         : "out");
    return read_file(&(struct plait_file){ name, text, strlen(text) }, out);
}

enum plait_status plait_machine_load(const char *path, struct plait_machine *out)
{
    enum plait_status status;
    size_t bytes;
    char *text;

    if (path == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_machine_load: %s is NULL", path == NULL ? "path" : "out");
    status = plait_file_read(path, &text, &bytes);
    if (status != PLAIT_OK)
        return status;
    status = read_file(&(struct plait_file){ path, text, bytes }, out);
    free(text);
    return status;
}

/* Write a file, or replace it; "-": to standard output. */
static enum plait_status write_file(const char *path, const char *text)
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

enum plait_status plait_machine_save(const struct plait_machine *machine, const char *path)
{
    const struct plait_files_plugin *plugin;
    enum plait_status status = plait_machine_check(machine);
    char why[128], *text;

    if (status == PLAIT_OK && path == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "plait_machine_save: path is NULL");
    if (status == PLAIT_OK)
        status = plait_plugin_load_files(path, &plugin);
    if (status != PLAIT_OK)
        return status;
    text = plugin->write_machine(machine, why, sizeof why);
    if (text == NULL)
        return why[0] != '\0' ? plait_fail(PLAIT_ERR_ARG, "%s: %s", path, why)
                              : plait_fail_memory("%s: out of memory to write it", path);
    status = write_file(path, text);
    free(text);
    return status;
}
