/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that do not step together agree on when to leave. They run rounds of votes, one after the other, that wait for
 * nobody. A rank at a point where all must meet runs further rounds until all are there. All ranks see a round's result
 * in that round, so either all leave or all meet.
 */
#ifndef PLAIT_TRAIN_AGREE_H
#define PLAIT_TRAIN_AGREE_H

#include <plait/comm.h>

enum agreed {
    AGREED_GO_ON,
    AGREED_STOP, /* a rank was asked to stop */
    AGREED_WRONG /* a rank's loss is not finite */
};

struct agree;

/** comm: carries nothing else meanwhile; must live as long */
struct agree *agree_create(struct plait_comm *comm);
void agree_destroy(struct agree *a);

/**
 * After a step, with what this rank wants. When the result is not GO_ON, it is the same on all ranks, and no rank calls
 * again.
 */
enum plait_status agree_turn(struct agree *a, enum agreed wanted, enum agreed *out);

/** Wait until all ranks are here or leave. */
enum plait_status agree_meet(struct agree *a, enum agreed wanted, enum agreed *out);

#endif
