/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comm whose operations an object begins instead of its callers: a fusion. The object's turn runs whenever a thread
 * drives the comm, under the comm's lock. Persistent requests are begun there.
 *
 * While the object waits for input of this rank, no operation runs that would detect failures. The owner detects them
 * instead, warns of a stall, and after the deadline fails the comm, with blame() as the culprit.
 */
#ifndef PLAIT_LIB_CALL_OWNER_H
#define PLAIT_LIB_CALL_OWNER_H

#include "object.h"

enum plait_awaits {
    PLAIT_AWAITS_RANKS,  /* or nothing: an operation in flight looks for failures itself */
    PLAIT_AWAITS_SELF,   /* a part of this rank: other threads wait for it */
    PLAIT_AWAITS_DEVICE, /* a GPU */
};

struct plait_owned {   /* what the object does */
    const char *whose; /* "a fusion's; plait_fusion_destroy() ends both" */
    /* Begin and end operations. Returns whether there was progress. */
    bool (*turn)(void *object, enum plait_awaits *awaits);
    /* Name what this rank lacks. */
    void (*blame)(const void *object, char *text, size_t room);
    /* Say what `rank` lacks to call the operation in progress. Nothing is written if it lacks nothing. */
    void (*excuse)(const void *object, uint32_t rank, char *text, size_t room);
};

/* Free the owner after the comm. NULL: out of memory. */
struct plait_ownership;
struct plait_ownership *plait_ownership_create(const struct plait_owned *does, void *object);
void plait_ownership_begin(struct plait_ownership *o, struct plait_comm *comm);

/* Any thread: one thing more is pending, so that the comm is driven; wake those who wait. */
void plait_owner_pends(struct plait_comm *comm);
void plait_owner_wake(void);

/* Any thread: drive all comms until over(self), or until the comm has failed with the returned error. */
enum plait_status plait_owner_wait(struct plait_comm *comm, const char *call, bool (*over)(const void *self),
                                   const void *self);

/* In a turn: n things are no longer pending. */
void plait_owner_ended(struct plait_comm *comm, uint32_t n);

/* In a turn: begin a persistent request; has it ended, and well? It may then begin again. */
void plait_owner_start(struct plait_request *r);
bool plait_owner_has(struct plait_request *r);

/* Multiply its sums by `factor` from now on. Ranks compare their factors when they run it. */
void plait_owner_scale(struct plait_request *r, double factor);
const char *plait_owner_algorithm(const struct plait_request *r);

#endif
