/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes and threads of one machine, over a Unix socket in the abstract name space. */
#ifndef PLAIT_LIB_BOOTSTRAP_MACHINE_H
#define PLAIT_LIB_BOOTSTRAP_MACHINE_H

#include "place.h"

#include <sys/socket.h>
#include <sys/un.h>

struct plait_machine_place {
    struct plait_place place;
    struct sockaddr_un address;
    socklen_t length;
};

/* An abstract name, which vanishes with the socket that has it. */
socklen_t plait_abstract_address(const char *name, size_t n, struct sockaddr_un *out);

/* Is the process at the other end of a Unix socket one of this user? *pid is its. */
bool plait_is_this_user(int fd, int *pid);

/* `name`: n bytes, fewer than sun_path holds. */
void plait_machine_place_init(struct plait_machine_place *place, const char *name, size_t n);

#endif
