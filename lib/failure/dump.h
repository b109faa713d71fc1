/* SPDX-License-Identifier: BSD-3-Clause */
/* What an arena says of its process's comms, read from outside: plait-info --dump. */
#ifndef PLAIT_LIB_FAILURE_DUMP_H
#define PLAIT_LIB_FAILURE_DUMP_H

#include <plait/status.h>

#include <stddef.h>
#include <stdint.h>

struct plait_dump {
    uint32_t last; /* collectives of each comm, at most PLAIT_NRECORD, the newest last; then so many messages */
    uint64_t now;  /* nanoseconds of CLOCK_MONOTONIC */
    void (*line)(void *context, const char *text); /* without line end, printable ASCII */
    void *context;
    char error[256]; /* written when plait_dump() does not return PLAIT_OK */
};

/*
 * Show every comm of the arena whose bytes are [base, base+size). The process may run meanwhile, hang or be stopped.
 *
 * base   aligned to PLAIT_LINE; any bytes are safe, nothing outside them is read
 * Errors: PLAIT_ERR_ARG: this is no arena; PLAIT_ERR_UNSUPPORTED: of another version, which is named;
 *         PLAIT_ERR_SYSTEM: its list of comms is damaged, or was changing; what came before is shown
 */
enum plait_status plait_dump(const void *base, size_t size, struct plait_dump *how);

/* The process that made this arena, as it sees its own number; 0: this is no arena. */
int plait_dump_pid(const void *base, size_t size);

#endif
