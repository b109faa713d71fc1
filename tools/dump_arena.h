/* SPDX-License-Identifier: BSD-3-Clause */
/* Show a process's comms from its arena. */
#ifndef PLAIT_TOOLS_DUMP_ARENA_H
#define PLAIT_TOOLS_DUMP_ARENA_H

#include <plait/status.h>

#include <stddef.h>
#include <stdint.h>

struct plait_dump {
    uint32_t last; /* how many collectives, and messages, of each comm; at most PLAIT_NRECORD; newest last */
    uint64_t now;  /* nanoseconds of CLOCK_MONOTONIC */
    void (*line)(void *context, const char *text); /* printable ASCII, no line end */
    void *context;
    char error[256]; /* written when plait_dump() does not return PLAIT_OK */
};

/*
 * Show every comm of the arena at [base, base+size). Its process may run, hang or be stopped.
 *
 * base   aligned to PLAIT_LINE; any bytes are safe, nothing outside them is read
 * Errors: PLAIT_ERR_ARG: this is no arena; PLAIT_ERR_UNSUPPORTED: another version, which is named;
 *         PLAIT_ERR_SYSTEM: the list of comms is damaged or was changing; the comms before that are shown
 */
enum plait_status plait_dump(const void *base, size_t size, struct plait_dump *how);

/* PID of the arena's process, in that process's own PID namespace; 0: this is no arena. */
int plait_dump_pid(const void *base, size_t size);

#endif
