/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on device memory. When all of an operation is on its queue, an event is recorded behind it, and the
 * request ends when that is done. Meanwhile it is in the comm's list of issued requests, and later
 * operations begin. Under graph capture nothing runs yet: a request ends when its operation is in the graph.
 */
#ifndef PLAIT_LIB_REQUEST_DEVICE_REQUEST_H
#define PLAIT_LIB_REQUEST_DEVICE_REQUEST_H

#include "device/device_comm.h"
#include "request.h"

/* All but the last two need the comm's lock. All of it is on its queue: record an event. False: not in a capture. */
bool plait_device_record(struct plait_request *r);

/* Stop its wait for an event, if there is one: it is then no longer pending. */
void plait_device_withdraw(struct plait_request *r);

/* turn: end the requests whose events are done. fail: end all, as the comm has failed. */
enum plait_status plait_device_issued_turn(struct plait_comm *comm, bool rarely, bool *moved);
void plait_device_issued_fail(struct plait_comm *comm, enum plait_status status);

/* plait_wait_poll() for a wait for an event. limit: its deadline, in seconds; 0: the comm's. */
enum plait_status plait_device_glance(struct plait_comm *comm, double limit, bool moved, bool rarely);

/* Wait until all of the request is on its device queue, or it has ended without. */
void plait_request_await_issued(struct plait_request *r);

/* Free the event of a request that is freed. */
void plait_device_drop_event(struct plait_request *r);

#endif
