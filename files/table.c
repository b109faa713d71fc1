/* SPDX-License-Identifier: BSD-3-Clause */
#include "files.h"

__attribute__((visibility("default"))) extern const struct plait_files_plugin plait_files_plugin;
const struct plait_files_plugin plait_files_plugin = { PLAIT_FILES_ABI, files_read_machine, files_write_machine,
                                                       files_read_tuning, files_write_tuning };
