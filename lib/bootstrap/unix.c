/* SPDX-License-Identifier: BSD-3-Clause */
#include "unix.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "frame.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE 500   /* us between tries to connect; doubles up to MOST_PAUSE */
#define MOST_PAUSE  10000 /* us */

struct plait_unix_name plait_unix_name_make(const char *text)
{
    const size_t n = strlen(text);
    struct plait_unix_name name = { .address.sun_family = AF_UNIX,
                                    .length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n) };

    memcpy(name.address.sun_path + 1, text, n);
    return name;
}

int plait_unix_socket(int flags)
{
    return plait_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), PLAIT_FOR_RANKS);
}

bool plait_unix_listen(const struct plait_unix_name *name, int fd)
{
    return bind(fd, (const struct sockaddr *)&name->address, name->length) == 0 && listen(fd, SOMAXCONN) == 0;
}

bool plait_is_this_user(int fd, int *pid)
{
    struct ucred who;
    socklen_t length = sizeof who;

    *pid = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return false;
    *pid = (int)who.pid;
    return who.uid == geteuid();
}

enum plait_status plait_unix_connect(const struct plait_unix_name *name, double until, int *fd, int *pid)
{
    useconds_t pause = FIRST_PAUSE;
    enum plait_status status;

    *fd = plait_unix_socket(0);
    if (*fd < 0)
        return plait_fail_errno(errno, "comm creation: no socket to reach the other ranks");
    while ((status = plait_descriptor_check(*fd)) == PLAIT_OK &&
           connect(*fd, (const struct sockaddr *)&name->address, name->length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: connecting to a rank on this machine");
        status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        if (plait_clock() > until)
            return PLAIT_ERR_TIMEOUT;
        usleep(pause);
        pause = 2 * pause < MOST_PAUSE ? 2 * pause : MOST_PAUSE;
    }
    return status != PLAIT_OK || plait_is_this_user(*fd, pid) ? status : PLAIT_ERR_PEER;
}
