/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets in the abstract namespace, by which processes of one machine connect. A name vanishes with the socket
 * bound to it. The kernel tells whose process the other end is.
 *
 * A process claims such a name for its rank, so only one process of a host can hold that rank of an id. Two jobs that
 * share MASTER_ADDR and MASTER_PORT and have no name have one id: the second process with a rank finds the name taken
 * and fails. The holder hears of it, and fails too as long as its comm is young: then it may have ranks of both jobs.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_UNIX_H
#define PLAIT_LIB_BOOTSTRAP_UNIX_H

#include <plait/comm.h>

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct plait_unix_name {
    struct sockaddr_un address;
    socklen_t length;
};

/* `text`: shorter than sun_path. */
struct plait_unix_name plait_unix_name_make(const char *text);

/* The name for one use of an id. Of an id over TCP it does not give the secret away. */
struct plait_unix_name plait_unix_name_of(const struct plait_unique_id *id, const char *use);

/* A socket that listens, at an address of any family, and does not block. -1 with errno. */
int plait_listen(const struct sockaddr *address, socklen_t length);

/*
 * Connect to a name at which nobody may listen yet. *fd is the socket, also after an error, or -1. Another user's
 * process there is an error: `whom` names who should listen. PLAIT_ERR_TIMEOUT: no text is recorded.
 */
enum plait_status plait_unix_connect(const struct plait_unix_name *name, double until, const char *whom, int *fd);

/* Does the peer of a Unix socket belong to this user? *pid is the peer's process. */
bool plait_is_this_user(int fd, int *pid);

#define PLAIT_OTHER_JOB \
    "port used by another job: set MASTER_PORT or TORCHELASTIC_RUN_ID to a value of its own for each job"

struct plait_rank_claim {
    int fd;       /* bound to the rank's name; 0: none */
    double until; /* the clock until which the comm is young: later ranks of its job would have come too late */
};

/* PLAIT_ERR_MISMATCH: another process holds the name. */
enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, double seconds,
                                   struct plait_rank_claim *out);

/* PLAIT_ERR_MISMATCH: another process wanted the name of this young comm's rank. */
enum plait_status plait_claim_check(const struct plait_rank_claim *claim, uint32_t rank);

#endif
