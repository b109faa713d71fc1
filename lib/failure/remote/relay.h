/* SPDX-License-Identifier: BSD-3-Clause */
/* What one comm tells the ranks of other hosts, and hears of them (remote.h). Called with the lock of remote.c held. */
#ifndef PLAIT_LIB_FAILURE_REMOTE_RELAY_H
#define PLAIT_LIB_FAILURE_REMOTE_RELAY_H

#include "line.h"
#include "remote.h"

struct plait_known { /* the last update of a rank */
    uint64_t version;
    char update[PLAIT_CONTROL_UPDATE_MOST];
};

struct plait_remote {
    struct plait_remote *next;
    struct plait_comm *comm;
    struct plait_line *lines;  /* [nline]; rank 0: one to each rank, its own unused; else one, to rank 0 */
    struct plait_known *known; /* [nline]; rank 0: of each rank; else of this one */
    uint32_t nline;
    atomic_bool leaving;
    atomic_bool over; /* the connection to rank 0 has ended */
    atomic_bool lost; /* the program has closed a descriptor; `loss` says which */
    char loss[256];
    bool left;         /* the last update is sent, or no connection is left */
    double seen, sent; /* clock of this rank's last probe; of its last update */
    uint32_t probes;
    uint64_t newest; /* version of the last update of any rank */
};

/* Take the updates that arrived, make those that are due, and send what the connections accept. */
void plait_relay_turn(struct plait_remote *r, double now);

/* The program has closed a descriptor of the remote: keep the last error as the reason. */
void plait_relay_note_loss(struct plait_remote *r);

#endif
