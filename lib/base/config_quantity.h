/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsers of times, rates and versions, for the table in config.c; the contract is parse_fn's. */
#ifndef PLAIT_LIB_BASE_CONFIG_QUANTITY_H
#define PLAIT_LIB_BASE_CONFIG_QUANTITY_H

const char *plait_parse_seconds(const char *text, void *field);
const char *plait_parse_pace(const char *text, void *field);
const char *plait_parse_version(const char *text, void *field);

#endif
