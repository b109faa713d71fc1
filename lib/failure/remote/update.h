/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control-plane update has the state of a rank's control block as bytes, for hosts that cannot map the block. These
 * hosts apply it to a replica of the block.
 *
 * A replica is a control block that one thread of this process fills (remote.h): readers of control blocks need not
 * know on which host a rank is. An update has the full state, no difference: any may be dropped if a later one comes.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_UPDATE_H
#define PLAIT_LIB_FAILURE_REMOTE_UPDATE_H

#include "comm/comm.h"

/* Records in an update: the LAST ones, and up to RECORDS in all with those that others have yet to compare. */
#define PLAIT_CONTROL_UPDATE_LAST    4
#define PLAIT_CONTROL_UPDATE_RECORDS 20

struct plait_control_update { /* the head; records, the progress of the newest, and a failure's text follow */
    uint32_t bytes;           /* of the whole update */
    uint32_t rank;
    uint64_t done;
    uint64_t now;     /* the rank's clock, ns */
    uint32_t probes;  /* grows while the rank waits */
    uint32_t culprit; /* rank + 1 */
    int32_t failed;   /* status of the comm; 0: no text follows */
    uint32_t nrecord;
    uint8_t departed, noticed, receiving;
    uint8_t dead;     /* set by rank 0, not by the rank itself */
    uint32_t silence; /* set by rank 0: ms without an update from the rank; 0: not silent */
    uint64_t wanted;  /* the first operation that the rank has not compared with everyone's */
    uint64_t from;    /* records of operations before this one are left out, except the last ones */
};

#define PLAIT_CONTROL_UPDATE_MOST                                                                       \
    (sizeof(struct plait_control_update) + PLAIT_CONTROL_UPDATE_RECORDS * sizeof(struct plait_record) + \
     sizeof(struct plait_progress) + sizeof((struct plait_control *)0)->failure)

/* Holds only the part of a control block that every rank reads from every other. */
struct plait_replica {
    _Atomic uint32_t dead;
    uint32_t probes;       /* of the last update */
    _Atomic double silent; /* clock since which rank 0 hears nothing from the rank; 0: not silent */
    uint64_t wanted;       /* as in the update */
    _Atomic uint64_t from; /* as in the update */
    char host[64];
    int pid;
    struct plait_control control; /* the fields before `small` */
};
struct plait_replica *plait_replica_create(uint64_t id, uint32_t rank, uint32_t nrank, const char *name);
void plait_replica_destroy(struct plait_replica *replica);
size_t plait_replica_bytes(void); /* of address space; memory only for the used part of the ring */

/*
 * Write an update of `own`. Returns its bytes.
 *
 * wanted   the first operation that some other rank has yet to compare
 * probes    for the update's field
 * departs  this rank departs now
 * out      [PLAIT_CONTROL_UPDATE_MOST]
 */
uint32_t plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint32_t probes, uint64_t now,
                                    bool departs, void *out);

/* Are these bytes a valid update of a comm of nrank ranks? They come from another host: check before any use. */
bool plait_control_update_check(const void *bytes, size_t n, uint32_t nrank);

/* Apply a checked update to a replica. `now`: this process's clock, ns. */
void plait_control_update_apply(const void *update, struct plait_replica *replica, uint64_t now);

#endif
