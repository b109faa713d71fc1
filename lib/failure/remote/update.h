/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control-plane update has the state of a rank's control block, for hosts that cannot map the block. They apply it to
 * a replica of the block. It holds the full state, not a change: any may be dropped if a later one comes.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_UPDATE_H
#define PLAIT_LIB_FAILURE_REMOTE_UPDATE_H

#include "comm/comm.h"

/* Records in an update: the LAST ones, and up to RECORDS in all with those that others have yet to compare. */
#define PLAIT_CONTROL_UPDATE_LAST    4
#define PLAIT_CONTROL_UPDATE_RECORDS 20

struct plait_control_update { /* only the first `bytes` are sent: the text after the records if the comm has failed */
    uint32_t bytes;
    uint32_t rank;
    uint64_t done;
    uint64_t now;     /* the rank's clock, ns */
    uint32_t probes;  /* grows while the rank waits */
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
    uint32_t probes;       /* of the last update */
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

/*
 * Take an update of a comm of nrank ranks out of `n` bytes, which come from another host. Returns its bytes; 0: it is
 * not complete; SIZE_MAX: these bytes are no valid update.
 */
size_t plait_control_update_read(const void *bytes, size_t n, uint32_t nrank, struct plait_control_update *out);

/* Apply an update to a replica. `now`: this process's clock, ns. */
void plait_control_update_apply(const struct plait_control_update *update, struct plait_replica *replica, uint64_t now);

#endif
