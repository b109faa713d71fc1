/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of a file's text, without the environment; for any input. The source is included for its parts. */
#ifndef PLAIT_TESTS_CONFIG_TEXT_H
#define PLAIT_TESTS_CONFIG_TEXT_H

#include "../lib/base/config.c"

/* text: [bytes]. `path` names the file in errors. */
static enum plait_status config_parse(const char *path, const char *text, size_t bytes, struct plait_config *out)
{
    struct reading r;
    enum plait_status status = begin(&r);

    r.path = path;
    r.text = strndup(text, bytes);
    if (status == PLAIT_OK)
        status =
            r.text != NULL ? check_text(&r, bytes) : plait_fail_memory("no memory for %zu bytes of %s", bytes, path);
    if (status == PLAIT_OK)
        status = gather_file(&r);
    if (status == PLAIT_OK)
        status = parse_all(&r, out);
    end(&r);
    return status;
}

#endif
