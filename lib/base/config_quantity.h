/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsers of settings that are numbers with units or points, for the table in config.c. They are as its own. */
#ifndef PLAIT_LIB_BASE_CONFIG_QUANTITY_H
#define PLAIT_LIB_BASE_CONFIG_QUANTITY_H

const char *plait_parse_seconds(const char *text, void *field);
const char *plait_parse_pace(const char *text, void *field);
const char *plait_parse_version(const char *text, void *field);

#endif
