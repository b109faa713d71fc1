/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines as JSON files, for the simulator. docs/predict.md describes the format.
 *
 * A rate is a number of bytes per second, or text such as "12.5 GB/s" or "100 Gbit/s". A time is a number of
 * nanoseconds, or text such as "2 us". A size is a number of bytes, or text such as "8 KiB".
 */
#ifndef PLAIT_TOOLS_MACHINE_FILE_H
#define PLAIT_TOOLS_MACHINE_FILE_H

#include <plait/simulate.h>

#include <stdbool.h>
#include <stddef.h>

#define MACHINE_NOTE 384

/* The "about" of a machine and of its levels: where the numbers come from. */
struct machine_notes {
    char machine[MACHINE_NOTE];
    char level[PLAIT_MOST_LEVELS][MACHINE_NOTE];
};

/*
 * Parse `text`, the contents of the file `name`. notes: NULL if not wanted. Returns false after a message that names
 * file, line and remedy.
 */
bool machine_parse(const char *name, const char *text, size_t bytes, struct plait_machine *out,
                   struct machine_notes *notes);

/* The machine as the text of such a file, which the caller frees. NULL after a message. */
char *machine_format(const struct plait_machine *machine, const struct machine_notes *notes);

#endif
