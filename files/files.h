/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON files of users: a plug-in (lib/plugin/files.h), by jansson. machine.c knows the fields of a machine file,
 * tuning.c those of a tuning file. reader.c reads fields by their table (simulate/fields.h) and writes the errors, for
 * which json_line.c finds the line. writer.c writes fields.
 */
#ifndef PLAIT_FILES_FILES_H
#define PLAIT_FILES_FILES_H

#include "plugin/files.h"

bool files_read_machine(const struct plait_file *file, const char *(*refuses)(const struct plait_machine *machine),
                        struct plait_machine *out, char *why, size_t room);
char *files_write_machine(const struct plait_machine *machine, char *why, size_t room);
bool files_read_tuning(const struct plait_file *file, struct plait_tuning *out, char *why, size_t room);
char *files_write_tuning(const struct plait_tuning *tuning, char *why, size_t room);

#endif
