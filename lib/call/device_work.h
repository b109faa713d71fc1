/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of an object on a GPU. It goes on the caller's stream, or on the comm's own queue, between begin and end. The
 * comm's lock is held from begin to end. A device's error fails the comm, so that other ranks do not wait for this one.
 */
#ifndef PLAIT_LIB_CALL_DEVICE_WORK_H
#define PLAIT_LIB_CALL_DEVICE_WORK_H

#include "memory/devices.h"
#include "object.h"

/* The comm frees GPU memory when other ranks read it no longer. False: this rank has used no GPU with it. */
bool plait_work_free_later(struct plait_comm *comm, void *memory);

/* The GPU that this rank has used with the comm; -1: none. */
int plait_work_device(const struct plait_comm *comm);

/* The comm's own queue, after all work of the comm on other queues; NULL: the device has failed. */
struct plait_queue *plait_work_begin(struct plait_comm *comm);

/* Record the error `why` (NULL: none) of work that was put on the queue. False: the device has failed. */
bool plait_work_note(struct plait_comm *comm, const char *why);
void plait_work_end(struct plait_comm *comm);

/* PLAIT_OK, or the comm's failure after an error of the device. */
enum plait_status plait_work_status(struct plait_comm *comm);

/* A persistent request on the comm's own queue ends when all of it is enqueued; else when it has run. */
void plait_work_enqueues(struct plait_request *r);

#endif
