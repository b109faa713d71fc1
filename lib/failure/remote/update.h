/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank's control block shows, as bytes for hosts that cannot map it, and the replica of it there.
 *
 * A replica is a control block that one thread of this process fills (remote.h): what reads the control blocks of other
 * ranks need not know on which host they are. News say what is so, not what has changed: any may be left out when later
 * ones come, and none is waited for.
 */
#ifndef PLAIT_LIB_FAILURE_REMOTE_UPDATE_H
#define PLAIT_LIB_FAILURE_REMOTE_UPDATE_H

#include "comm/comm.h"

/* Operations of a rank that its news tell of: the last, and those that others have yet to compare. */
#define PLAIT_CONTROL_UPDATE_LAST    4
#define PLAIT_CONTROL_UPDATE_RECORDS 20

struct plait_control_update { /* the beginning; the records, the progress of the newest, and a failure's text follow */
    uint32_t bytes;           /* of all of it */
    uint32_t rank;
    uint64_t done;
    uint64_t now;     /* the rank's clock, ns */
    uint32_t looks;   /* grows while the rank waits and looks around */
    uint32_t culprit; /* rank + 1 */
    int32_t failed;   /* its status; 0: no text follows */
    uint32_t nrecord;
    uint8_t departed, noticed, receiving;
    uint8_t dead;     /* said of it, not by it */
    uint32_t silence; /* too: ms in which rank 0 has heard nothing of it; 0: it does */
    uint64_t wanted;  /* the first operation that the rank has not compared with everyone's */
    uint64_t from;    /* operations before this one it tells no more of, unless they are its last */
};

#define PLAIT_CONTROL_UPDATE_MOST                                                                       \
    (sizeof(struct plait_control_update) + PLAIT_CONTROL_UPDATE_RECORDS * sizeof(struct plait_record) + \
     sizeof(struct plait_progress) + sizeof((struct plait_control *)0)->failure)

/* A control block that is not mapped: only what every rank reads of another is there. */
struct plait_replica {
    _Atomic uint32_t dead;
    uint32_t looks;        /* the last that came */
    _Atomic double silent; /* since when rank 0 hears nothing of it; 0: it does */
    uint64_t wanted;       /* as in its news */
    _Atomic uint64_t from; /* too */
    char host[64];
    int pid;
    struct plait_control control; /* up to `small` */
};
struct plait_replica *plait_replica_create(uint64_t id, uint32_t rank, uint32_t nrank, const char *name);
void plait_replica_destroy(struct plait_replica *replica);
size_t plait_replica_bytes(void); /* of address space; of memory what is used of the ring, at most as much */

/*
 * What `own` shows now.
 *
 * wanted the first operation that some other rank wants to compare
 * looks  of these news
 * departs  it does so now
 * out    [PLAIT_CONTROL_UPDATE_MOST]; returns how many bytes
 */
uint32_t plait_control_update_write(const struct plait_control *own, uint64_t wanted, uint32_t looks, uint64_t now,
                                    bool departs, void *out);

/* Are these bytes news of a rank of a comm of so many? They come from other hosts: nothing in them is used before. */
bool plait_control_update_check(const void *bytes, size_t n, uint32_t nrank);

/* Bring a replica up to date. `now`: this process's clock, ns. */
void plait_control_update_apply(const void *news, struct plait_replica *replica, uint64_t now);

#endif
