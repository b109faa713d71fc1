/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the plug-in that reads and writes JSON files: a shared object `plait-NAME.so` that exports one
 * `const struct plait_files_plugin plait_files_plugin`. It calls nothing of libplait; files/ is one, by jansson. Any
 * threads may call it at once.
 */
#ifndef PLAIT_LIB_PLUGIN_FILES_H
#define PLAIT_LIB_PLUGIN_FILES_H

#include "tuning.h"

#include <plait/simulate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_FILES_ABI 1 /* changes with the declarations below; a plug-in with another number is refused */

/* The contents of a file. */
struct plait_file {
    const char *name; /* for errors */
    const char *text; /* [bytes] */
    size_t bytes;
};

struct plait_files_plugin {
    uint32_t abi;
    /*
     * Read a machine file (docs/predict.md).
     *
     * refuses  tells why a machine that was read is not valid, or NULL
     * Returns false, with file, line, field and remedy in `why` [room].
     */
    bool (*read_machine)(const struct plait_file *file, const char *(*refuses)(const struct plait_machine *machine),
                         struct plait_machine *out, char *why, size_t room);
    /* A valid machine as the text of such a file, which free() frees. NULL: see `why` [room]; "": out of memory. */
    char *(*write_machine)(const struct plait_machine *machine, char *why, size_t room);
    /* The same of a tuning file (tuning.h). out->rows is to be freed after success. */
    bool (*read_tuning)(const struct plait_file *file, struct plait_tuning *out, char *why, size_t room);
    char *(*write_tuning)(const struct plait_tuning *tuning, char *why, size_t room);
};

#endif
