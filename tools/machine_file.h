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

/* Parse `text`, the contents of the file `name`. Returns false after a message that names file, place and remedy. */
bool machine_parse(const char *name, const char *text, size_t bytes, struct plait_machine *out);

#endif
