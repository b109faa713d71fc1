/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection for control-plane updates (update.h). No call blocks. */
#ifndef PLAIT_LIB_FAILURE_REMOTE_LINE_H
#define PLAIT_LIB_FAILURE_REMOTE_LINE_H

#include "update.h"

struct plait_line {
    int fd;               /* -1: closed */
    uint64_t told;        /* version up to which all updates were added to `out` */
    _Atomic double heard; /* clock of the last update that arrived */
    bool silent;          /* rank 0: the others were told of the silence of the rank at the other end */
    char in[2 * PLAIT_CONTROL_UPDATE_MOST];
    size_t have, taken; /* bytes of `in`: received; consumed */
    char *out;
    size_t size, end, sent; /* bytes of `out`: allocated; filled; sent */
};

void plait_line_open(struct plait_line *line, int fd); /* takes ownership of fd; -1: none */
void plait_line_close(struct plait_line *line);

/* Receive into `in` as much as has arrived and fits. False: the connection is closed or failed. */
bool plait_line_read(struct plait_line *line);

/* The next complete update, valid until the next read; NULL: none. An invalid update closes the line. */
const char *plait_line_next(struct plait_line *line, uint32_t nrank);

/* Is everything sent that was added? Add to `out`; false: out of memory. Send as much as the socket accepts. */
bool plait_line_is_idle(const struct plait_line *line);
bool plait_line_add(struct plait_line *line, const void *update, size_t bytes);
void plait_line_write(struct plait_line *line);

#endif
