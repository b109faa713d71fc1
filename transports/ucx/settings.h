/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of UCX, and errors that name them. */
#ifndef PLAIT_TRANSPORTS_UCX_SETTINGS_H
#define PLAIT_TRANSPORTS_UCX_SETTINGS_H

#include <ucp/api/ucp.h>

#include <stdbool.h>
#include <stddef.h>

/* Write the cause of a failure to why[room]; false. */
bool ucx_fail(char *why, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Has the user set UCX_<name>? */
bool ucx_is_set(const char *name);

/* The value of a variable for an error text. */
const char *ucx_setting(const char *variable);

/* UCX says only "No such device" if its variables, perhaps meant for another machine, match nothing on this one. */
bool ucx_cannot_open(const char *what, ucs_status_t status, char *why, size_t room);

/* Read UCX's settings from the environment, and set what the user has not. devices: IP interfaces to use, or "" */
bool ucx_read_settings(const char *devices, ucp_config_t **out, char *why, size_t room);

#endif
