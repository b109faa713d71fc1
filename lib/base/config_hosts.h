/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsers of settings for several hosts, for the table in config.c; the contract is parse_fn's. */
#ifndef PLAIT_LIB_BASE_CONFIG_HOSTS_H
#define PLAIT_LIB_BASE_CONFIG_HOSTS_H

const char *plait_parse_ifname(const char *text, void *field);
const char *plait_parse_launcher(const char *text, void *field);
const char *plait_parse_ports(const char *text, void *field);
const char *plait_parse_secret(const char *text, void *field);

#endif
