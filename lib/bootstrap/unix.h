/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets in the abstract namespace, by which processes of one machine connect. A name vanishes with the socket
 * bound to it. The kernel tells whose process the other end is.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_UNIX_H
#define PLAIT_LIB_BOOTSTRAP_UNIX_H

#include <plait/status.h>

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct plait_unix_name {
    struct sockaddr_un address;
    socklen_t length;
};

/* `text`: shorter than sun_path. */
struct plait_unix_name plait_unix_name_make(const char *text);

/* -1 and errno: no socket. flags: SOCK_NONBLOCK or 0. */
int plait_unix_socket(int flags);

/* Bind and listen. False with errno. */
bool plait_unix_listen(const struct plait_unix_name *name, int fd);

/*
 * Connect to a name at which nobody may listen yet. *fd is the socket, also after an error, or -1; *pid the process
 * that listens. PLAIT_ERR_TIMEOUT, and PLAIT_ERR_PEER, another user's process: no text is recorded.
 */
enum plait_status plait_unix_connect(const struct plait_unix_name *name, double until, int *fd, int *pid);

/* Does the peer of a Unix socket belong to this user? *pid is the peer's process. */
bool plait_is_this_user(int fd, int *pid);

#endif
