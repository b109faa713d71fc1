/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection that carries news (update.h), never waited for. */
#ifndef PLAIT_LIB_FAILURE_REMOTE_LINE_H
#define PLAIT_LIB_FAILURE_REMOTE_LINE_H

#include "update.h"

struct plait_line {
    int fd;        /* -1: closed */
    uint64_t told; /* version up to which the other end has everything */
    char in[2 * PLAIT_CONTROL_UPDATE_MOST];
    size_t have, taken; /* of `in` */
    char *out;
    size_t size, end, sent; /* of `out` */
};

void plait_line_open(struct plait_line *line, int fd); /* it is the line's from now on; -1: none */
void plait_line_close(struct plait_line *line);

/* What is there, as far as there is room. False: the other end has closed it, or it failed. */
bool plait_line_read(struct plait_line *line);

/* The next whole news that came, until the next call; NULL: there are none. What is no news closes the line. */
const char *plait_line_next(struct plait_line *line, uint32_t nrank);

/* Is everything sent that was added? Add; false: no memory. Send what the connection takes. */
bool plait_line_is_idle(const struct plait_line *line);
bool plait_line_add(struct plait_line *line, const void *news, size_t bytes);
void plait_line_write(struct plait_line *line);

#endif
