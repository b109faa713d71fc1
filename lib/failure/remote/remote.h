/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control-plane updates between hosts: they keep the replicas of control blocks up to date.
 *
 * The ranks of a comm that spans hosts keep the rendezvous connections: every rank has one to rank 0. A rank sends an
 * update when its state changes, at most 10 times a second unless it is urgent; rank 0 relays it to all others. While
 * all ranks wait, rank 0 sends ranks^2 updates of some 300 bytes per 0.1 s. Operations that end sooner send nothing.
 * One thread per process takes a turn of every comm when something arrives, and every 0.1 s. A rank with an urgent
 * update wakes it.
 *
 * A connection that closes is a death, unless its rank has departed. A host that is cut off, down or stopped closes
 * none. So every process repeats its last update twice a second as a heartbeat, even while its rank computes. Rank 0
 * does not relay heartbeats; it tells the others when a rank falls silent and when that rank is heard again. While rank
 * 0 itself is silent, the others' state is unknown, and they do not count as silent (plait_remote_heard()). A turn
 * never blocks on a host: what a connection does not accept is sent later, and left out if it is superseded by then.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_REMOTE_H
#define PLAIT_LIB_FAILURE_REMOTE_REMOTE_H

#include "comm/comm.h"

#define PLAIT_REMOTE_SILENCE 1.5 /* seconds without an update after which a rank is silent: three heartbeats */

struct plait_remote; /* one comm of this process that spans hosts */

/* Create it for a comm whose peers on other hosts have replicas. Nothing is sent or received yet. */
enum plait_status plait_remote_create(struct plait_comm *comm, struct plait_remote **out);

/*
 * Start to exchange updates.
 *
 * sockets  on rank 0 [nrank], one to each other rank; else [1], to rank 0. The remote takes ownership
 */
void plait_remote_begin(struct plait_remote *remote, const int *sockets);

/*
 * Clock at which a rank of another host, or rank 0, was last heard. For a rank that rank 0 reports as silent: at least
 * PLAIT_REMOTE_SILENCE ago; else as of the last update from rank 0, which relays all others.
 */
double plait_remote_heard(const struct plait_remote *remote, uint32_t rank);

/* An error if the program has closed a descriptor of the remote. NULL is allowed. */
enum plait_status plait_remote_check(const struct plait_remote *remote);

/* Is the connection to rank 0 lost, so that no more updates arrive? NULL is allowed: no. */
bool plait_remote_is_over(const struct plait_remote *remote);

/* Send this rank's changed state now (urgent). Any thread; signal-safe; NULL is allowed. */
void plait_remote_tell(struct plait_remote *remote);

/*
 * Send the last update, which says that this rank departs; waits at most 1 s. Until destroy, others' updates are still
 * received and relayed. NULL is allowed.
 */
void plait_remote_depart(struct plait_remote *remote);
void plait_remote_destroy(struct plait_remote *remote); /* NULL is allowed */

/* ---- Updates: update.c ---------------------------------------------------------------------------------------- */

/*
 * A control-plane update has the state of a rank's control block, for hosts that cannot map the block. They apply it to
 * a replica of the block. It holds the full state, not a change: any may be dropped if a later one comes.
 */
/* Records in an update: the LAST ones, and up to RECORDS in all with those that others have yet to compare. */
#define PLAIT_CONTROL_UPDATE_LAST    4
#define PLAIT_CONTROL_UPDATE_RECORDS 20

struct plait_control_update { /* only the first `bytes` are sent: the text after the records if the comm has failed */
    uint32_t bytes;
    uint32_t rank;
    uint64_t done;
    uint64_t now;     /* the rank's clock, ns */
    uint64_t seen;    /* of its last probe: on the same clock */
    uint32_t culprit; /* rank + 1 */
    int32_t failed;   /* status of the comm */
    uint32_t nrecord;
    uint8_t departed, noticed, receiving;
    uint8_t dead;                   /* set by rank 0, not by the rank itself */
    uint32_t silence;               /* set by rank 0: ms without an update from the rank; 0: not silent */
    uint64_t gpu;                   /* as in the control block */
    uint64_t wanted;                /* the first operation that the rank has not compared with everyone's */
    uint64_t from;                  /* records of operations before this one are left out, except the last ones */
    struct plait_progress progress; /* of the newest record */
    struct plait_record record[PLAIT_CONTROL_UPDATE_RECORDS];
    char failure[sizeof((struct plait_control *)0)->failure];
};

#define PLAIT_CONTROL_UPDATE_LEAST offsetof(struct plait_control_update, record) /* bytes */

/* Holds only the part of a control block that every rank reads from every other. */
struct plait_replica {
    _Atomic uint32_t dead;
    _Atomic double silent; /* clock since which rank 0 hears nothing from the rank; 0: not silent */
    uint64_t wanted;       /* as in the update */
    _Atomic uint64_t from; /* as in the update */
    char host[64];
    int pid;
    struct plait_control control; /* the fields before `calibration` */
};
struct plait_replica *plait_replica_create(uint64_t id, uint32_t rank, uint32_t nrank, const char *name);
void plait_replica_destroy(struct plait_replica *replica);

/*
 * Make an update of `own`.
 *
 * wanted  the first operation that some other rank has yet to compare
 * now     this process's clock, ns
 */
void plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint64_t now,
                                struct plait_control_update *out);

/* Are two updates equal but for their clocks? */
bool plait_control_update_same(const struct plait_control_update *a, const struct plait_control_update *b);

/* The first operation that some rank of another host has yet to compare with this rank's, by its last update. */
uint64_t plait_control_wanted(const struct plait_comm *comm);

/*
 * Take an update of a comm of nrank ranks out of `n` bytes, which come from another host. Returns its bytes; 0: it is
 * not complete; SIZE_MAX: these bytes are no valid update.
 */
size_t plait_control_update_read(const void *bytes, size_t n, uint32_t nrank, struct plait_control_update *out);

/* Apply an update to a replica. `now`: this process's clock, ns. */
void plait_control_update_apply(const struct plait_control_update *update, struct plait_replica *replica, uint64_t now);

#endif
