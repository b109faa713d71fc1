/* SPDX-License-Identifier: BSD-3-Clause */
/* A comm's connections to other hosts: updates arrive, are applied, and those that the others lack are sent. */
#ifndef PLAIT_LIB_FAILURE_REMOTE_RELAY_H
#define PLAIT_LIB_FAILURE_REMOTE_RELAY_H

#include "remote.h"

#include "base/status.h"

/* A connection: rank 0 has one to each rank, its own unused; the others have one, to rank 0. */
struct line {
    struct plait_control_update update; /* the last one of the rank at the other end; line 0: of this rank */
    uint64_t version;                   /* of `update`; 0: none yet */
    uint64_t told, upto;                /* the last version that was sent; that of the pass that goes on */
    int fd;                             /* -1: closed */
    _Atomic double heard;               /* clock of the last update that arrived */
    bool silent;                        /* rank 0: the others were told of the silence of the rank */
    uint32_t next;                      /* line whose update is looked at next; 0: a pass begins */
    size_t have, filled, sent;          /* bytes of `in`; of `out` */
    char in[2 * sizeof(struct plait_control_update)], out[4 * sizeof(struct plait_control_update)];
};

struct plait_remote {
    struct plait_remote *next;
    struct plait_comm *comm;
    uint32_t nline;
    bool leaving;
    bool left;               /* the last update is sent, or no connection is left */
    atomic_bool over;        /* the connection to rank 0 has ended */
    atomic_bool lost;        /* the program has closed a descriptor */
    struct plait_error loss; /* which one; written before `lost` */
    double seen, sent;       /* clock of this rank's last probe; of its last update */
    uint32_t probes;
    uint64_t newest;     /* version of the last update of any rank */
    struct line lines[]; /* [nline] */
};

static inline bool plait_relay_is_root(const struct plait_remote *r)
{
    return r->comm->rank == 0;
}

/* Take the updates that arrived, make those that are due, and send what the connections accept. The lock is held. */
void plait_relay_turn(struct plait_remote *r);

/* The program has closed a descriptor: keep the error. */
void plait_relay_note_loss(struct plait_remote *r, enum plait_status status);

#endif
