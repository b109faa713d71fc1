/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that do not step together agree on when to leave: in rounds, one after the other, that wait for nobody. A rank that
 * stands at a place where all must meet goes on with rounds until all stand there; what a round says, all hear in the same
 * one, so that all leave or all meet.
 */
#ifndef PLAIT_TRAIN_AGREE_H
#define PLAIT_TRAIN_AGREE_H

#include <plait/comm.h>

#include <stdbool.h>

enum agreed {
    AGREED_GO_ON,
    AGREED_STOP, /* a rank was asked to */
    AGREED_WRONG /* a rank's loss is not finite */
};

struct agree;

/** comm: nothing else goes over it meanwhile; it must live as long. */
struct agree *agree_create(struct plait_comm *comm);
void agree_destroy(struct agree *a);

/** After a step, with what this rank wants. Once it was not GO_ON for one rank, it is so for all, and no rank calls again. */
enum plait_status agree_turn(struct agree *a, enum agreed wanted, enum agreed *out);

/** Wait until all are here or leave. */
enum plait_status agree_meet(struct agree *a, enum agreed wanted, enum agreed *out);

#endif
