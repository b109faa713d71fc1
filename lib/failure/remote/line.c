/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include "base/descriptor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void plait_line_open(struct plait_line *line, int fd)
{
    *line = (struct plait_line){ .fd = fd };
}

void plait_line_close(struct plait_line *line)
{
    plait_descriptor_close(line->fd);
    line->fd = -1;
    line->have = line->taken = line->end = line->sent = line->size = 0;
    free(line->out);
    line->out = NULL;
}

bool plait_line_read(struct plait_line *line)
{
    if (line->fd < 0)
        return false;
    memmove(line->in, line->in + line->taken, line->have - line->taken);
    line->have -= line->taken;
    line->taken = 0;
    while (line->have < sizeof line->in) {
        const ssize_t n = recv(line->fd, line->in + line->have, sizeof line->in - line->have, MSG_DONTWAIT);
        if (n > 0)
            line->have += (size_t)n;
        else if (n == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
            return false;
        else if (errno != EINTR)
            break;
    }
    return true;
}

const char *plait_line_next(struct plait_line *line, uint32_t nrank)
{
    const char *at = line->in + line->taken;
    const size_t left = line->have - line->taken;
    uint32_t bytes;

    if (line->fd < 0 || left < sizeof bytes)
        return NULL;
    memcpy(&bytes, at, sizeof bytes);
    if (bytes >= sizeof(struct plait_control_update) && bytes <= PLAIT_CONTROL_UPDATE_MOST && left < bytes)
        return NULL;
    if (!plait_control_update_check(at, left, nrank)) {
        plait_line_close(line);
        return NULL;
    }
    line->taken += bytes;
    return at;
}

bool plait_line_is_idle(const struct plait_line *line)
{
    return line->sent == line->end;
}

bool plait_line_add(struct plait_line *line, const void *update, size_t bytes)
{
    if (plait_line_is_idle(line))
        line->sent = line->end = 0;
    if (line->size - line->end < bytes) {
        const size_t size = 2 * line->size + bytes;
        char *more = realloc(line->out, size);
        if (more == NULL)
            return false;
        line->out = more;
        line->size = size;
    }
    memcpy(line->out + line->end, update, bytes);
    line->end += bytes;
    return true;
}

void plait_line_write(struct plait_line *line)
{
    while (line->fd >= 0 && !plait_line_is_idle(line)) {
        const ssize_t n = send(line->fd, line->out + line->sent, line->end - line->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0)
            line->sent += (size_t)n;
        else if (errno != EINTR)
            return; /* the socket is full; a failure shows at the next read */
    }
}
