/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_REQUEST_STREAM_H
#define PLAIT_LIB_REQUEST_STREAM_H

#include <plait/coll.h>
#include <plait/stream.h>

struct plait_request;

struct plait_item { /* on a stream: a request or a call */
    struct plait_item *next;
    struct plait_request *request; /* or NULL: */
    void (*function)(void *context);
    void *context;
};

/* PLAIT_ERR_ARG for a request on a host stream that the caller also holds: it would have two takers. */
enum plait_status plait_stream_check(const char *name, const struct plait_call *call);

/* The queue of a device stream; else NULL. */
struct plait_queue *plait_stream_queue(const struct plait_stream *s);

/* Append the request to its stream, which takes it when it has ended. Allocates nothing. */
void plait_stream_add(struct plait_request *r);

#endif
