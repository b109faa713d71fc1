/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on a device's memory. One whose operation is on its queue as a whole is not over: a mark is set behind it,
 * and the request ends when that is passed; meanwhile it is among the comm's marked ones, and later operations begin.
 * In a graph that is captured nothing happens yet: such a request has ended when its operation is in the graph.
 */
#ifndef PLAIT_LIB_REQUEST_DEVICE_REQUEST_H
#define PLAIT_LIB_REQUEST_DEVICE_REQUEST_H

#include "device/device_comm.h"
#include "request.h"

/* All with the comm's lock held, but the last two. All of it is on its queue: does it wait for a mark there? */
bool plait_device_mark(struct plait_request *r);

/* It does so no longer, if it did, and is not pending any more. */
void plait_device_withdraw(struct plait_request *r);

/* End those whose marks are passed; end all, as the comm has failed. */
enum plait_status plait_device_marked_turn(struct plait_comm *comm, bool rarely, bool *moved);
void plait_device_marked_fail(struct plait_comm *comm, enum plait_status status);

/* Of who waits for a mark: look around, as plait_wait_glance(). limit: its deadline; 0: the comm's. */
enum plait_status plait_device_glance(struct plait_comm *comm, double limit, bool moved, bool rarely);

/* A request on a device's queue: wait until all of it is there, or it has ended without. */
void plait_request_await_placed(struct plait_request *r);

/* The request is freed. */
void plait_device_unmark(struct plait_request *r);

#endif
